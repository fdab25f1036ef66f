"""HTTP/2 on either side: whole or cut at any point, an exchange is charged once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import brotli
import pytest
import pytest_asyncio
from h2.errors import ErrorCodes

from tests.cases.apis import OPENAI, TOLD, WORDS, story
from tests.cases.connection import Connection, request
from tests.cases.scene import Scene
from tests.e2e.h2_app import AppH2
from tests.e2e.h2_provider import Begin, H2Provider, Step, Then, Trailers
from tests.envoyconf.certificates import Authority
from tests.pod import until
from tests.scripted_upstream import Hold, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUOTAS = [{"requests_per_minute": 6_000}, {"concurrency": 100}]
CHARGED = (TOLD.input, TOLD.output)
PATH = OPENAI.path
BODY = OPENAI.request(stream=False)
REPLY = OPENAI.reply("Hi.", TOLD)
STREAM = Begin(headers=(("content-type", "text/event-stream"),))
EVENTS = b"".join(story(OPENAI))
UNTOLD = b"".join(map(OPENAI.delta, WORDS))


@dataclass
class Far:
    """A pod beside a provider of HTTP/2, that of a *model*."""

    scene: Scene
    provider: H2Provider
    model: str

    async def ask(self, body: bytes) -> bytes:
        """Ask the provider over HTTP/1.1; return whatever came, framing and all."""
        asked = body.replace(b"gpt-4o", self.model.encode())
        async with Connection.open(self.scene.pod.port) as app:
            await app.send(request(asked, headers=[("connection", "close")]))
            received = b""
            while piece := await app.piece():
                received += piece
                if b" weir" in received or b"[DONE]" in received:
                    self.provider.seen.set()
            return received


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod_of_all(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[dict[str, Far]]:
    """Give the module its pod, beside a provider of HTTP/1.1 and two of HTTP/2."""
    folder: Path = tmp_path_factory.mktemp("authority")
    authority = Authority.create(folder)
    context = authority.server_context("localhost", alpn=("h2",))
    async with H2Provider(context) as tls, H2Provider() as plain:

        def adapt(content: dict[str, Any]) -> None:
            content["providers"]["tls"] = {
                "base_url": f"https://localhost:{tls.port}",
                "dialect": "openai",
                "ca_file": str(authority.file),
            }
            content["providers"]["plain"] = {
                "base_url": f"http://127.0.0.1:{plain.port}",
                "dialect": "openai",
                "http2": True,
            }
            content["models"] |= {name: {"provider": name} for name in ("tls", "plain")}

        async with Scene.open(quotas=QUOTAS, adapt=adapt) as opened:
            yield {
                "tls": Far(opened, tls, "tls"),
                "plain": Far(opened, plain, "plain"),
            }


@pytest_asyncio.fixture(loop_scope="module")
async def scene(pod_of_all: dict[str, Far]) -> Scene:
    """Give a test the pod with an empty ledger."""
    opened = await pod_of_all["tls"].scene.clear()
    opened.upstream.play(reply(REPLY))
    return opened


@pytest_asyncio.fixture(params=["tls", "plain"], loop_scope="module")
async def far(pod_of_all: dict[str, Far], request: pytest.FixtureRequest) -> Far:
    """Give a test each of the providers of HTTP/2."""
    return pod_of_all[request.param]


# === apps =========================================================================


@pytest.mark.parametrize("frame_bytes", [1, 7, 16_384])
async def test_a_request_in_frames(scene: Scene, frame_bytes: int) -> None:
    """A body in frames of any size, without a length, is a body."""
    async with AppH2.open(scene.pod.port) as app:
        stream = app.begin(PATH)
        app.go_on(stream, BODY, end=True, frame_bytes=frame_bytes)
        answer = await app.answer(stream)

    assert (answer.status, bytes(answer.body)) == (200, REPLY)
    assert answer.ended
    [received] = scene.upstream.requests
    assert received.body == BODY
    await scene.ledger_shows(CHARGED)


async def test_a_request_with_trailers(scene: Scene) -> None:
    """Trailers end a request; they are no body, and say nothing of who pays."""
    async with AppH2.open(scene.pod.port) as app:
        stream = app.begin(PATH, BODY)
        app.end_with(stream, [("x-checksum", "1"), ("authorization", "Bearer other")])
        answer = await app.answer(stream)

    assert answer.status == 200
    [received] = scene.upstream.requests
    assert received.body == BODY
    await scene.ledger_shows(CHARGED)


async def test_an_encoded_request(scene: Scene) -> None:
    """Codings are the same in HTTP/2."""
    coded = [("content-encoding", "br")]
    async with AppH2.open(scene.pod.port) as app:
        good = app.begin(PATH, brotli.compress(BODY), headers=coded, end=True)
        bad = app.begin(PATH, BODY, headers=coded, end=True)
        statuses = [(await app.answer(stream)).status for stream in (good, bad)]

    assert statuses == [200, 400]
    await scene.ledger_shows(CHARGED)


@pytest.mark.parametrize("length", [len(BODY) - 1, len(BODY) + 1, 0])
async def test_a_length_that_is_not_true(scene: Scene, length: int) -> None:
    """A body of another length than it says reaches no provider."""
    async with AppH2.open(scene.pod.port) as app:
        headers = [("content-length", str(length))]
        stream = app.begin(PATH, BODY, headers=headers, end=True)
        with contextlib.suppress(AssertionError):  # the connection may be closed
            answer = await app.answer(stream)
            assert answer.reset is not None or answer.status >= 400

    assert scene.upstream.requests == []
    await scene.ledger_shows()


@pytest.mark.parametrize("key", ["sk-nobody"])
async def test_a_refusal_by_the_head(scene: Scene, key: str) -> None:
    """Who may not come is told before the body."""
    async with AppH2.open(scene.pod.port) as app:
        stream = app.begin(PATH, BODY[:9], key=key)
        answer = await app.answer(stream)

    assert answer.status == 401
    await scene.ledger_shows()


@pytest.mark.parametrize("size_bytes", [0, 1, len(BODY)])
@pytest.mark.parametrize("leaves", ["reset", "goes away", "hangs up"])
async def test_who_leaves_before_the_request_is_whole(
    scene: Scene, size_bytes: int, leaves: str
) -> None:
    """Half a request reaches no provider, and costs nothing."""
    async with AppH2.open(scene.pod.port) as app:
        stream = app.begin(PATH, BODY[:size_bytes])
        if leaves == "reset":
            app.reset(stream)
        if leaves == "goes away":
            app.go_away()
        # Whatever was sent before has been seen once another request was answered.
        await scene.call(BODY)

    assert [each.body for each in scene.upstream.requests] == [BODY]
    await scene.ledger_shows(CHARGED)


async def test_who_leaves_before_the_answer(scene: Scene) -> None:
    """The provider may have worked: the input is owed, once."""
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(REPLY))

    async with AppH2.open(scene.pod.port) as app:
        stream = app.begin(PATH, BODY, end=True)
        await scene.upstream.wait_for_requests(1)
        app.reset(stream)
        await scene.pod.settled()
    gate.set()

    [(input_tokens, output_tokens)] = await scene.charges()
    assert input_tokens > 0
    assert output_tokens == 0


async def test_one_of_many_leaves(scene: Scene) -> None:
    """A stream that is reset takes nothing from its neighbours."""
    events = story(OPENAI)
    gate = asyncio.Event()
    chunks = event_stream(events)
    scene.upstream.play(*chunks[:7], Hold(gate), *chunks[7:])

    async with AppH2.open(scene.pod.port) as app:
        streams = [app.begin(PATH, OPENAI.request(), end=True) for _ in range(6)]
        for stream in streams:
            await app.until_it_says(stream, b"Once")
        app.reset(streams[2])
        await until(lambda: _recorded(scene, 1))
        gate.set()
        left = [each for each in streams if each != streams[2]]
        answers = [await app.answer(stream) for stream in left]

    assert all(each.ended and bytes(each.body) == EVENTS for each in answers)
    await scene.pod.settled()
    charges = await scene.charges()
    assert len(charges) == 6
    assert charges.count(CHARGED) == 5


async def _recorded(scene: Scene, count: int) -> bool:
    return len(await scene.pod.ledger.records()) >= count


# === providers ====================================================================


async def test_a_reply(scene: Scene, far: Far) -> None:
    """A reply over HTTP/2 is a reply."""
    far.provider.play(Begin(), REPLY, Then.END)

    assert REPLY in await far.ask(BODY)

    [received] = far.provider.requests
    assert bytes(received.body) == BODY.replace(b"gpt-4o", far.model.encode())
    assert received.headers["accept-encoding"] == "identity"
    await scene.ledger_shows(CHARGED)


WHOLE: dict[str, tuple[Step, ...]] = {
    "as it should": (EVENTS, Then.END),
    "in pieces": (EVENTS[:50], Then.PAUSE, EVENTS[50:], Then.END),
    "with trailers": (EVENTS, Trailers()),
    "and goes away": (EVENTS, Then.GO_AWAY, Then.END),
    "goes away before": (Then.GO_AWAY, EVENTS, Then.END),
    "reset after all": (EVENTS, Then.SEEN, ErrorCodes.NO_ERROR),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_a_stream(scene: Scene, far: Far, name: str) -> None:
    """However a stream ends after its last event, it is charged as reported."""
    far.provider.play(STREAM, *WHOLE[name])

    received = await far.ask(OPENAI.request())

    assert b"[DONE]" in received
    await scene.ledger_shows(CHARGED)


async def test_on_both_sides(scene: Scene, far: Far) -> None:
    """HTTP/2 in and HTTP/2 out: frames, many at once, each its own exchange."""
    far.provider.play(STREAM, EVENTS[:99], Then.PAUSE, EVENTS[99:], Trailers())
    body = OPENAI.request(model=far.model)

    async with AppH2.open(scene.pod.port) as app:
        streams = [app.begin(PATH, body, end=True) for _ in range(8)]
        answers = [await app.answer(stream) for stream in streams]

    assert all(each.ended and bytes(each.body) == EVENTS for each in answers)
    assert [bytes(each.body) for each in far.provider.requests] == [body] * 8
    await scene.ledger_shows(*[CHARGED] * 8)


@pytest.mark.parametrize("code", [ErrorCodes.REFUSED_STREAM])
async def test_a_stream_that_was_refused_is_tried_again(
    scene: Scene, far: Far, code: ErrorCodes
) -> None:
    """A refused stream has not been worked on: the next attempt is the first."""
    far.provider.play(Begin(), REPLY, Then.END)
    far.provider.play_next(code)

    assert REPLY in await far.ask(BODY)

    assert len(far.provider.requests) == 2
    await scene.ledger_shows(CHARGED)


CUT: dict[str, tuple[tuple[Step, ...], bool]] = {
    "reset at once": ((ErrorCodes.INTERNAL_ERROR,), False),
    "hung up at once": ((Then.HANG_UP,), False),
    "reset after the head": ((STREAM, Then.PAUSE, ErrorCodes.INTERNAL_ERROR), False),
    "reset amid": ((STREAM, UNTOLD, Then.SEEN, ErrorCodes.CANCEL), True),
    "ended amid": ((STREAM, UNTOLD, Then.END), True),
    "hung up amid": ((STREAM, UNTOLD, Then.SEEN, Then.HANG_UP), True),
    "went away amid": (
        (STREAM, UNTOLD, Then.GO_AWAY, Then.SEEN, Then.HANG_UP),
        True,
    ),
    "a wrong length": (
        (Begin(headers=(("content-length", "9"), *STREAM.headers)), UNTOLD, Then.END),
        False,
    ),
}


@pytest.mark.parametrize("name", CUT)
async def test_a_stream_that_is_cut(scene: Scene, far: Far, name: str) -> None:
    """What passed is charged, once, and nothing is held; the input is owed."""
    script, is_passed = CUT[name]
    far.provider.play(*script)

    received = await far.ask(OPENAI.request())

    assert (b" upon" in received) is is_passed
    await scene.pod.settled()
    [(input_tokens, output_tokens)] = await scene.charges()
    assert (output_tokens >= len(WORDS) - 1) is is_passed
    assert input_tokens > 0 or not is_passed
