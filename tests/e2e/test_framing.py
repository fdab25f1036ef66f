"""However requests and answers are framed, they are metered whole, and once."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import brotli
import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis, story
from tests.cases.connection import CHAT, Answer, Connection, chunked, request
from tests.cases.scene import Scene
from tests.core.codings.encoders import ENCODERS
from tests.pod import KEY
from tests.scripted_upstream import (
    LAST_CHUNK,
    End,
    Hold,
    Pause,
    Step,
    chunk,
    cut,
    event_stream,
    head,
    reply,
)
from tokenweir.envoyconf.filters import WHOLE_LIMIT_BYTES

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUOTAS = [{"requests_per_minute": 6_000}, {"tokens_per_minute": 600_000_000}]
CHARGED = (TOLD.input, TOLD.output)
BODY = OPENAI.request(stream=False)
SSE = ("content-type", "text/event-stream")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod."""
    async with Scene.open(quotas=QUOTAS) as opened:
        yield opened


async def fresh(scene: Scene) -> None:
    """Begin anew: whoever asks gets a reply."""
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))


def head_of(version: str = "HTTP/1.1", *lines: str, target: str = CHAT) -> bytes:
    """Return the head of a request, with *lines* besides."""
    first = f"POST {target} {version}"
    return "\r\n".join([first, f"authorization: Bearer {KEY}", *lines, "", ""]).encode()


# === chunks =======================================================================

CHUNKS: dict[str, tuple[bytes, int]] = {
    "one": (chunked(BODY) + b"0\r\n\r\n", 200),
    "bytes": (b"".join(chunked(bytes([each])) for each in BODY) + b"0\r\n\r\n", 200),
    "leading zeros": (b"000" + chunked(BODY) + b"000\r\n\r\n", 200),
    "upper case": (f"{len(BODY):X}\r\n".encode() + BODY + b"\r\n0\r\n\r\n", 200),
    "extensions": (
        f'{len(BODY):x};a=b;c="d;e"\r\n'.encode() + BODY + b"\r\n0;last=1\r\n\r\n",
        200,
    ),
    "trailers": (chunked(BODY) + b"0\r\nx-checksum: 1\r\ncookie: a=b\r\n\r\n", 200),
    "a trailer that is none": (
        chunked(BODY) + b"0\r\ncontent-length: 5\r\nx-tokenweir-cluster: x\r\n\r\n",
        200,
    ),
    "no size": (b"\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    "a sign": (b"+" + chunked(BODY) + b"0\r\n\r\n", 400),
    "a prefix": (b"0x" + chunked(BODY) + b"0\r\n\r\n", 400),
    "too large a size": (b"f" * 17 + b"\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    "more than it says": (b"5\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    "a bare LF": (f"{len(BODY):x}\n".encode() + BODY + b"\n0\n\n", 400),
}


@pytest.mark.parametrize("name", CHUNKS)
async def test_chunks(scene: Scene, name: str) -> None:
    """Chunks, extensions and trailers frame a body; what frames none is refused."""
    await fresh(scene)
    data, status = CHUNKS[name]

    async with Connection.open(scene.pod.port) as app:
        await app.send(head_of("HTTP/1.1", "host: x", "transfer-encoding: chunked"))
        await app.send(data)
        answer = await app.answer()

    assert answer.status == status
    received = scene.upstream.requests
    assert [each.body for each in received] == ([BODY] if status == 200 else [])
    assert all(each.all("x-tokenweir-cluster") == [] for each in received)
    await scene.ledger_shows(*[CHARGED] * len(received))


async def test_an_answer_with_trailers(scene: Scene) -> None:
    """Trailers behind an answer's chunks cost it neither a byte nor its figures."""
    await scene.clear()
    pieces = story(OPENAI)
    steps = event_stream(pieces)[:-1]
    scene.upstream.play(*steps, b"0\r\nx-checksum: 1\r\n\r\n")

    answer = await scene.call(OPENAI.request())

    assert (answer.status, answer.body) == (200, b"".join(pieces))
    await scene.ledger_shows(CHARGED)


@pytest.mark.parametrize("asked", [False, True])
async def test_an_answer_until_the_connection_ends(scene: Scene, asked: bool) -> None:
    """An answer without a length ends with its connection, as in HTTP/1.0."""
    await scene.clear()
    pieces = story(OPENAI)
    old = head(headers=[SSE]).replace(b"HTTP/1.1", b"HTTP/1.0")
    scene.upstream.play(old, *pieces, End.CLOSE)

    answer = await scene.call(OPENAI.request(asked=asked))

    sent = b"".join(pieces)
    assert answer.body == (sent if asked else sent.replace(OPENAI.report(), b""))
    await scene.ledger_shows(CHARGED)


@pytest.mark.parametrize("value", ["gzip, chunked", "gzip"])
async def test_an_answer_that_can_not_be_unframed(scene: Scene, value: str) -> None:
    """An answer under a transfer coding is an error in the API's form, charged once."""
    await scene.clear()
    framed = head(headers=[SSE, ("transfer-encoding", value)])
    scene.upstream.play(
        framed, gzip.compress(chunk(b"".join(story(OPENAI)))), End.CLOSE
    )

    answer = await scene.call(OPENAI.request())

    assert (answer.status, answer.refusal) == (503, "upstream_unavailable")
    await scene.pod.settled()
    [(input_tokens, output_tokens)] = await scene.charges()
    assert (input_tokens > 0, output_tokens) == (True, 0)


# === who may send what ============================================================


@pytest.mark.parametrize("value", ["100-continue", "100-Continue"])
async def test_an_expectation_is_met_once(scene: Scene, value: str) -> None:
    """There is one 100, before the body; the provider does not hear of it."""
    await fresh(scene)

    async with Connection.open(scene.pod.port) as app:
        whole = request(BODY, headers=[("expect", value)])
        await app.send(whole.removesuffix(BODY))
        assert await app.line() == b"HTTP/1.1 100 Continue"
        assert await app.line() == b""
        await app.send(BODY)
        assert await app.line() == b"HTTP/1.1 200 OK"

    [received] = scene.upstream.requests
    assert received.all("expect") == []
    await scene.ledger_shows(CHARGED)


REFUSED_BY_HEAD: dict[str, tuple[int, dict[str, Any]]] = {
    "a key": (401, {"key": "sk-nobody"}),
    "a coding": (415, {"headers": [("content-encoding", "x")]}),
    "a charset": (400, {"headers": [("content-type", "text/json;charset=utf-7")]}),
}


@pytest.mark.parametrize("name", REFUSED_BY_HEAD)
async def test_a_refusal_does_not_wait_for_a_body(scene: Scene, name: str) -> None:
    """
    What the head is refused for is told before a byte of a body has come whose length
    nobody knows, or which is large. Others are waited for: they are soon there.
    """
    await fresh(scene)
    status, asked = REFUSED_BY_HEAD[name]
    large = f"content-length: {WHOLE_LIMIT_BYTES + 1}".encode()
    known = request(BODY, **asked).removesuffix(BODY)
    heads = (
        request(chunks=[], **asked).removesuffix(b"0\r\n\r\n"),
        known.replace(f"content-length: {len(BODY)}".encode(), large),
    )

    for begun in heads:
        async with Connection.open(scene.pod.port) as app:
            await app.send(begun)
            refused_by_head(await app.answer(), status)
    async with Connection.open(scene.pod.port) as app:
        await app.send(known)
        await app.send(BODY)
        refused_by_head(await app.answer(), status)
    assert scene.upstream.requests == []
    await scene.ledger_shows()


def refused_by_head(answer: Answer, status: int) -> None:
    """Demand that *answer* is a refusal of that status, with a reason."""
    assert answer.status == status
    assert answer.json()["error"]["message"]


MESSAGES_SENT = "http.apps.ext_proc.admission.stream_msgs_sent"
MESSAGES = {
    "a body": (request(BODY), 200, 1),
    "a refused key": (request(BODY, key="sk-nobody"), 401, 1),
    "no JSON": (request(b"{"), 400, 1),
    "chunks": (request(chunks=[BODY]), 200, 2),
    "no body": (request(method="GET", path="/v1/models"), 200, 1),
    "an empty body": (request(), 400, 1),
}


@pytest.mark.parametrize("name", MESSAGES)
async def test_messages(scene: Scene, name: str) -> None:
    """A request costs the processor one message, and two if its length is not told."""
    await fresh(scene)
    data, status, messages = MESSAGES[name]
    before = scene.pod.envoy.stats(MESSAGES_SENT)[MESSAGES_SENT]

    async with Connection.open(scene.pod.port) as app:
        await app.send(data)
        assert (await app.answer()).status == status

    sent = scene.pod.envoy.stats(MESSAGES_SENT)[MESSAGES_SENT]
    assert sent - before == messages
    await scene.pod.settled()


TARGETS = {
    "a path": (CHAT, 200),
    "an address": (f"http://tokenweir{CHAT}", 200),
    "another address": (f"http://api.openai.com:8080{CHAT}?a=b", 200),
    "a path that is repeated": (f"/{CHAT}", 200),
    "no path": ("http://tokenweir", 403),
    "a star": ("*", 400),
    "no target": ("chat", 400),
}


@pytest.mark.parametrize("name", TARGETS)
async def test_targets(scene: Scene, name: str) -> None:
    """An absolute target is the path in it, and goes to no other host."""
    await fresh(scene)
    target, status = TARGETS[name]

    async with Connection.open(scene.pod.port) as app:
        length = f"content-length: {len(BODY)}"
        await app.send(head_of("HTTP/1.1", "host: x", length, target=target) + BODY)
        answer = await app.answer()

    assert answer.status == status
    for received in scene.upstream.requests:
        assert received.target.partition("?")[0] == CHAT
        assert received.header("host") == f"127.0.0.1:{scene.upstream.port}"
    assert len(scene.upstream.requests) == (status == 200)
    await scene.ledger_shows(*[CHARGED] * (status == 200))


@pytest.mark.parametrize("lines", [(), ("host: x",), ("connection: keep-alive",)])
async def test_an_old_app(scene: Scene, lines: tuple[str, ...]) -> None:
    """An app of HTTP/1.0 needs no host, and gets a length or the connection's end."""
    await fresh(scene)
    length = f"content-length: {len(BODY)}"
    old = head_of("HTTP/1.0", *lines, length) + BODY

    async with Connection.open(scene.pod.port) as app:
        await app.send(old)
        first = await app.answer()
        again = first.header("connection") == "keep-alive"
        if again:
            await app.send(old)
            assert (await app.answer()).body == first.body
        assert await app.nothing_more() == b""

    assert again is ("connection: keep-alive" in lines)
    assert first.body == OPENAI.reply("Hi.", TOLD)
    await scene.ledger_shows(*[CHARGED] * (1 + again))


@pytest.mark.parametrize("asked", [False, True])
async def test_an_old_app_that_streams(scene: Scene, asked: bool) -> None:
    """It gets the events without chunks, less the one that it did not ask for."""
    await scene.clear()
    pieces = story(OPENAI)
    scene.upstream.play(*event_stream(pieces))
    body = OPENAI.request(asked=asked)
    old = head_of("HTTP/1.0", f"content-length: {len(body)}") + body

    async with Connection.open(scene.pod.port) as app:
        await app.send(old)
        answer = await app.answer()

    sent = b"".join(pieces)
    assert answer.header("transfer-encoding") is None
    assert answer.body == (sent if asked else sent.replace(OPENAI.report(), b""))
    await scene.ledger_shows(CHARGED)


async def test_all_kinds_in_one_go(scene: Scene) -> None:
    """Requests of any framing, sent at once, are answered in order, each by itself."""
    await fresh(scene)
    whole = reply(OPENAI.reply("Hi.", TOLD))
    bare = head(headers=[("content-length", "5")])
    scene.upstream.choose(lambda asked: [bare if asked.method == "HEAD" else whole])
    header, encode = ENCODERS["br"]
    coded = [("content-encoding", header)]
    asked = [
        ("POST", request(BODY), 200),
        ("HEAD", request(method="HEAD", path="/v1/models"), 200),
        ("POST", request(encode(BODY), headers=coded), 200),
        ("POST", request(chunks=[BODY[:5], BODY[5:]]), 200),
        ("GET", request(method="GET", path="/health"), 200),
        ("POST", request(chunks=[encode(BODY)], headers=coded), 200),
        ("POST", request(BODY, headers=[("expect", "100-continue")]), 200),
        ("POST", request(encode(BODY)[:-1], headers=coded), 400),
    ]

    async with Connection.open(scene.pod.port) as app:
        await app.send(b"".join(data for _, data, _ in asked))
        statuses = [(await app.answer(to=method)).status for method, _, _ in asked]

    assert statuses == [status for _, _, status in asked]
    methods = [each.method for each in scene.upstream.requests]
    assert methods == ["POST", "HEAD", "POST", "POST", "GET", "POST", "POST"]
    await scene.ledger_shows(*[CHARGED] * 5, (0, 0), (0, 0))


# === what a body is said to be ====================================================

TYPES = [
    "",
    "application/json",
    "Application/JSON; Charset=UTF-8",
    'application/json;charset="utf-8"',
    "application/vnd.api+json",
    "text/plain",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "application/json; charset=us-ascii; q",
    "nonsense",
]


@both_apis
@pytest.mark.parametrize("value", TYPES)
async def test_types(scene: Scene, api: Api, value: str) -> None:
    """JSON is JSON, whatever it is called; the provider gets the name as it was."""
    await scene.clear()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    headers = [("content-type", value)] if value else []

    answer = await scene.call(api.request(stream=False), path=api.path, headers=headers)

    assert answer.status == 200
    [received] = scene.upstream.requests
    assert received.header("content-type") == (value or None)
    await scene.ledger_shows(CHARGED)


OTHER_TEXT: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "UTF-16": ("application/json", lambda text: text.encode("utf-16")),
    "UTF-16BE": ("application/json", lambda text: text.encode("utf-16-be")),
    "UTF-32": ("application/json", lambda text: text.encode("utf-32")),
    "a mark": ("application/json", lambda text: text.encode("utf-8-sig")),
    "Latin-1": ("application/json", lambda text: text.encode("latin-1")),
    "UTF-16, told": (
        "application/json; charset=utf-16",
        lambda text: text.encode("utf-16"),
    ),
    "UTF-7, told": ("application/json; charset=utf-7", lambda text: text.encode()),
    "Shift_JIS, told": (
        "application/json;charset=Shift_JIS",
        lambda text: text.encode(),
    ),
}


@both_apis
@pytest.mark.parametrize("name", OTHER_TEXT)
async def test_other_text(scene: Scene, api: Api, name: str) -> None:
    """What is no UTF-8, or is said to be none, is refused in the API's own form."""
    await fresh(scene)
    kind, encode = OTHER_TEXT[name]
    body = api.request(
        stream=False, messages=[{"role": "user", "content": "Où ça? +ACI-"}]
    )

    answer = await scene.call(
        encode(body.decode()), path=api.path, headers=[("content-type", kind)]
    )

    assert (answer.status, answer.refusal) == (400, "malformed_request")
    assert answer.json()["error"]["message"]
    assert scene.upstream.requests == []
    await scene.ledger_shows()


# === lines of events ==============================================================


@pytest.mark.parametrize("api", [OPENAI, ANTHROPIC], ids=lambda api: str(api.name))
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("coding", ["plain", "gzip", "br", "zstd", "gzip in br"])
async def test_lines(scene: Scene, api: Api, end: bytes, coding: str) -> None:
    """Lines end as the standard has it, under any coding, wherever they are cut."""
    await scene.clear()
    header, encode = ENCODERS.get(coding, ("identity", bytes))
    body = encode(b"".join(story(api)).replace(b"\n", end))
    places = random.Random(len(body)).sample(range(1, len(body)), 20)
    headers = [SSE, ("transfer-encoding", "chunked"), ("content-encoding", header)]
    steps: list[Step] = [head(headers=headers)]
    for piece in cut(body, *places):
        steps += [chunk(piece), Pause(0.001)]
    scene.upstream.play(*steps, LAST_CHUNK)

    answer = await scene.call(api.request(), path=api.path)

    assert answer.body == body
    await scene.ledger_shows(CHARGED)


async def test_a_coding_that_breaks_off_between_chunks(scene: Scene) -> None:
    """Of an encoded stream that is cut, what could be read is charged."""
    await scene.clear()
    stream = brotli.Compressor(quality=4)
    pieces = [stream.process(each) + stream.flush() for each in story(OPENAI)[:-2]]
    headers = [SSE, ("transfer-encoding", "chunked"), ("content-encoding", "br")]
    steps: list[Step] = [head(headers=headers), *map(chunk, pieces)]
    gate = asyncio.Event()
    scene.upstream.play(*steps, Hold(gate), End.RESET)

    async with Connection.open(scene.pod.port) as app:
        await app.send(request(OPENAI.request()))
        received = b""
        while piece := await app.piece():
            received += piece
            if pieces[-1] in received:
                gate.set()

    await scene.pod.settled()
    [(_, output)] = await scene.charges()
    assert 5 <= output <= 15
