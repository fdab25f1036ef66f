"""
Connections that would become another protocol's are refused: nobody could count there.

No provider hears of them, whoever asks in whatever way; and what else is asked on the
same connection is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from h2.config import H2Configuration
from h2.connection import H2Connection
from hpack import Decoder
from hyperframe.frame import DataFrame, Frame, HeadersFrame

from tests.cases.apis import OPENAI as CHAT
from tests.cases.apis import TOLD
from tests.cases.connection import Answer, Connection, Headers, request
from tests.cases.scene import Scene
from tests.every_dialect.gemini_rows import MODEL
from tests.every_dialect.speaker import ANTHROPIC, AZURE, GOOGLE, OPENAI, Speaker
from tests.pod import KEY
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# As a browser sends it; RFC 6455, 4.1.
HANDSHAKE: Headers = [
    ("connection", "keep-alive, Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-version", "13"),
    ("sec-websocket-protocol", "realtime, openai-insecure-api-key.CANARY"),
]
UPGRADES: dict[str, Headers] = {
    "websocket": HANDSHAKE,
    "other capitals": [("Connection", "UPGRADE"), ("Upgrade", "WebSocket")],
    "unknown": [("connection", "upgrade"), ("upgrade", "foo/2")],
    "one of several": [("connection", "upgrade"), ("upgrade", "h2c, websocket")],
    "twice": [
        ("connection", "upgrade"),
        ("upgrade", "foo"),
        ("upgrade", "websocket"),
    ],
}
# What is ignored, as any server may (RFC 9110, 7.8): the request is plain HTTP then.
IGNORED: dict[str, Headers] = {
    "h2c": [
        ("connection", "Upgrade, HTTP2-Settings"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABkAARAAAAAAAIAAAAA"),
    ],
    "no connection": [("upgrade", "websocket")],
    "no protocol": [("connection", "upgrade")],
}
LIVE = "google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
PLACES: dict[tuple[str, str], Speaker] = {
    ("GET", "/v1/realtime?model=gpt-4o"): OPENAI,
    ("GET", "/v1/responses"): OPENAI,
    ("POST", "/v1/chat/completions"): OPENAI,
    ("GET", "/openai/realtime?deployment=d&api-version=1"): AZURE,
    ("POST", "/v1/messages"): ANTHROPIC,
    ("POST", f"/v1beta/models/{MODEL}:generateContent"): GOOGLE,
    ("GET", f"/ws/{LIVE}"): GOOGLE,
    ("GET", "/v1/models"): OPENAI,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod, in which whatever may pass does."""

    def adapt(content: dict[str, dict[str, dict[str, object]]]) -> None:
        content["providers"]["openai"]["unknown_paths"] = "opaque"

    async with Scene.open(adapt=adapt) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Give a test the pod with an empty ledger."""
    await opened.clear()
    opened.upstream.play(reply(CHAT.reply("Once.")))
    return opened


def expect_refused(body: bytes, speaker: Speaker) -> None:
    """Demand that *body* says so, as *speaker* does."""
    error = speaker.error_in(body, 403)
    assert error["tokenweir"]["refusal"] == "upgrade_not_metered"
    assert error["tokenweir"]["retryable"] is False
    assert "WebSockets" in error["message"]
    assert "CANARY" not in body.decode()


@pytest.mark.parametrize("how", UPGRADES)
@pytest.mark.parametrize(("method", "path"), PLACES)
async def test_an_upgrade(scene: Scene, method: str, path: str, how: str) -> None:
    """It is refused in the API's own shape, and reaches nobody; whatever follows, too."""
    body = CHAT.request(stream=False) if method == "POST" else b""
    asking = request(body, method=method, path=path, headers=UPGRADES[how])
    async with Connection.open(scene.pod.port) as app:
        await app.send(asking + b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58")
        answer = await app.answer(to=method)
        rest = await app.nothing_more()

    assert (answer.status, answer.refusal) == (403, "upgrade_not_metered")
    expect_refused(answer.body, PLACES[method, path])
    assert answer.header("upgrade") is None
    assert rest == b""
    assert scene.upstream.requests == []
    await scene.ledger_shows()


@pytest.mark.parametrize("how", IGNORED)
async def test_what_asks_for_none(scene: Scene, how: str) -> None:
    """A request that need not be upgraded is answered as any, and metered."""
    body = CHAT.request(stream=False)
    answer: Answer = await scene.call(body, headers=IGNORED[how])

    assert (answer.status, answer.body) == (200, CHAT.reply("Once."))
    [asked] = scene.upstream.requests
    names = {name.lower() for name, _ in asked.headers}
    assert names.isdisjoint({"upgrade", "http2-settings"})
    await scene.ledger_shows((TOLD.input, TOLD.output))


async def test_a_connection_that_switches(scene: Scene) -> None:
    """A CONNECT makes no tunnel."""
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(method="CONNECT", path="api.openai.com:443"))
        answer = await app.answer(to="CONNECT")

    assert (answer.status, answer.refusal) == (403, "upgrade_not_metered")
    expect_refused(answer.body, OPENAI)
    assert scene.upstream.requests == []
    await scene.ledger_shows()


WEBSOCKET_OVER_H2 = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "http"),
    (":authority", "app.internal"),
    (":path", "/v1/realtime?model=gpt-4o"),
    ("sec-websocket-version", "13"),
    ("authorization", f"Bearer {KEY}"),
]
TUNNEL_OVER_H2 = [(":method", "CONNECT"), (":authority", "api.openai.com:443")]
PLAIN_OVER_H2 = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "app.internal"),
    (":path", "/v1/models"),
    ("authorization", f"Bearer {KEY}"),
]


@pytest.mark.parametrize("headers", [WEBSOCKET_OVER_H2, TUNNEL_OVER_H2])
async def test_over_http2(scene: Scene, headers: list[tuple[str, str]]) -> None:
    """A stream that would be a tunnel is refused; the others on its connection are not."""
    answers = await over_h2(scene.pod.port, headers, PLAIN_OVER_H2)

    told, body = answers[1]
    assert told[":status"] == "403"
    assert told["x-tokenweir-refusal"] == "upgrade_not_metered"
    expect_refused(body, OPENAI)
    assert answers[3][0][":status"] == "200"
    assert [asked.target for asked in scene.upstream.requests] == ["/v1/models"]
    await scene.ledger_shows((0, 0))


async def over_h2(
    port: int, *asked: list[tuple[str, str]]
) -> dict[int, tuple[dict[str, str], bytes]]:
    """Return the answers to requests on one connection, by stream, once both came."""
    config = H2Configuration(client_side=True, validate_outbound_headers=False)
    http = H2Connection(config)
    http.initiate_connection()
    for number, headers in enumerate(asked):
        ends = headers[0][1] != "CONNECT"
        http.send_headers(2 * number + 1, headers, end_stream=ends)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(http.data_to_send())
    heads: dict[int, dict[str, str]] = {}
    bodies: dict[int, bytes] = {}
    over: set[int] = set()
    decoder = Decoder()
    # By frames: the library takes no answer that comes behind a GOAWAY.
    while len(over) < len(asked):
        async with asyncio.timeout(30):
            head = await reader.readexactly(9)
            frame, length = Frame.parse_frame_header(memoryview(head))
            frame.parse_body(memoryview(await reader.readexactly(length)))
        if isinstance(frame, HeadersFrame):
            found = decoder.decode(frame.data)
            heads[frame.stream_id] = {str(name): str(value) for name, value in found}
        elif isinstance(frame, DataFrame):
            bodies[frame.stream_id] = bodies.get(frame.stream_id, b"") + frame.data
        if "END_STREAM" in frame.flags or frame.type == 3:  # RST_STREAM
            over.add(frame.stream_id)
    writer.transport.abort()
    return {each: (head, bodies.get(each, b"")) for each, head in heads.items()}
