"""E11: an answer that has begun is not cut short by a limit, nor spliced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, Told, both_apis, story
from tests.cases.connection import Answer, Connection, request
from tests.cases.refusals import expect
from tests.cases.scene import STREAM_HEAD, Scene
from tests.scripted_upstream import LAST_CHUNK, Hold, Step, chunk, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CAPACITY = 2_000
CAP = 100  # what the app allows, and what is reserved
QUOTAS = [
    {"tokens_per_minute": 60, "capacity": CAPACITY},
    {"output_tokens_per_minute": 60, "capacity": CAPACITY},
    {"requests_per_minute": 60, "capacity": 10},
    {"concurrency": 4},
]
# Far more than was reserved, and than the bucket holds.
MUCH = Told(TOLD.input, 3 * CAPACITY)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod with little of everything."""
    async with Scene.open(quotas=QUOTAS) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Return the pod with an empty ledger."""
    return await opened.clear()


def asked(api: Api, *, usage: bool = True, stream: bool = True) -> bytes:
    """Return a request with a cap."""
    body = api.request(stream=stream, asked=usage, max_tokens=CAP)
    return request(body, path=api.path)


def gated(api: Api, gate: asyncio.Event, told: Told = MUCH) -> list[Step]:
    """Return a stream that waits after some words until *gate* is opened."""
    begun, rest = story(api, told=told)[:4], story(api, told=told)[4:]
    return [
        STREAM_HEAD, *map(chunk, begun), Hold(gate), *map(chunk, rest), LAST_CHUNK,
    ]  # fmt: skip


async def use_up(scene: Scene, api: Api) -> Answer:
    """Take all that there is by another call, and return the refusal of the next."""
    scene.upstream.play_next(reply(api.reply("Hi.", MUCH)))
    answer = await scene.call(api.request(stream=False, max_tokens=CAP), path=api.path)
    assert answer.status == 200
    return await scene.call(api.request(stream=False, max_tokens=CAP), path=api.path)


@both_apis
@pytest.mark.parametrize("usage", [True, False], ids=["asked", "unasked"])
async def test_e11_the_limit_is_used_up_in_mid_stream(
    scene: Scene, api: Api, usage: bool
) -> None:
    """
    When nothing is left after three pieces of an answer, the rest of it arrives, in
    good framing, and is charged as it is; it is the next request that waits.

    envoyproxy/envoy#23652: a refusal was spliced into the body.
    """
    gate = asyncio.Event()
    scene.upstream.play_next(*gated(api, gate))
    async with Connection.open(scene.pod.port) as app:
        await app.send(asked(api, usage=usage))
        head = await app.head()
        first = await app.chunk()
        refused = await use_up(scene, api)
        gate.set()
        body = first + await app.rest()
        nothing = await app.nothing_more()

    hidden = api.report(MUCH) if api.asks_usage and not usage else b""
    assert head.status == 200
    assert head.header("x-tokenweir-refusal") is None
    assert head.header("retry-after") is None
    assert body == b"".join(story(api, told=MUCH)).replace(hidden, b"")
    assert nothing == b""
    expect(refused, api, 429, "quota_exhausted")
    await scene.ledger_shows(*[(MUCH.input, MUCH.output)] * 2)
    expect(await scene.call(api.request(), path=api.path), api, 429, "quota_exhausted")


@both_apis
async def test_e11_an_answer_uses_up_its_own_limit(scene: Scene, api: Api) -> None:
    """
    An answer that is longer than all of the limit is passed whole, and owed.

    envoyproxy/envoy#23652
    """
    deltas = [api.delta("word " * 50) for _ in range(200)]
    pieces = [*api.opening(MUCH), *deltas, *api.finish(), api.report(MUCH), api.end()]
    scene.upstream.play(*event_stream(pieces, 0.002))
    async with Connection.open(scene.pod.port) as app:
        await app.send(asked(api))
        answer = await app.answer()

    assert answer.body == b"".join(pieces)
    await scene.ledger_shows((MUCH.input, MUCH.output))
    snapshot = await scene.pod.ledger.snapshot()
    assert min(bucket.level_units for bucket in snapshot.buckets.values()) < 0


@both_apis
async def test_e11_the_ledger_goes_in_mid_stream(scene: Scene, api: Api) -> None:
    """
    An answer goes on without a ledger, and is settled when that is back.

    envoyproxy/envoy#23652
    """
    gate = asyncio.Event()
    scene.upstream.play_next(*gated(api, gate, TOLD))
    async with Connection.open(scene.pod.port) as app:
        await app.send(asked(api))
        await app.head()
        first = await app.chunk()
        scene.pod.server.pause()
        try:
            refused = await scene.call(api.request(), path=api.path)
            gate.set()
            body = first + await app.rest()
        finally:
            scene.pod.server.resume()

    assert body == b"".join(story(api))
    expect(refused, api, 503, "ledger_unavailable")
    await scene.ledger_shows((TOLD.input, TOLD.output))


async def piecewise(scene: Scene, data: Sequence[bytes], gate: asyncio.Event) -> bytes:
    """Return a JSON answer that comes in chunks, and waits after the first."""
    first, *rest = map(chunk, data)
    head = STREAM_HEAD.replace(b"text/event-stream", b"application/json")
    scene.upstream.play_next(head, first, Hold(gate), *rest, LAST_CHUNK)
    async with Connection.open(scene.pod.port) as app:
        await app.send(asked(OPENAI, stream=False))
        await app.head()
        got = await app.chunk()
        await use_up(scene, OPENAI)
        gate.set()
        return got + await app.rest()


async def test_e11_an_answer_that_is_no_stream(scene: Scene) -> None:
    """
    JSON in chunks is not cut either. envoyproxy/envoy#23652
    """
    body = OPENAI.reply("Once upon a time", MUCH)
    cut = len(body) // 2

    got = await piecewise(scene, [body[:cut], body[cut:]], asyncio.Event())

    assert got == body
    await scene.ledger_shows(*[(MUCH.input, MUCH.output)] * 2)


async def test_e11_both_at_once(scene: Scene) -> None:
    """
    On one connection, a refusal after an answer is a whole answer of its own.

    envoyproxy/envoy#23652
    """
    scene.upstream.play(*event_stream(story(OPENAI, told=MUCH)))
    async with Connection.open(scene.pod.port) as app:
        await app.send(asked(OPENAI))
        first = await app.answer()
        await scene.pod.settled()
        await app.send(asked(OPENAI))
        second = await app.answer()
        await app.send(asked(ANTHROPIC))
        third = await app.answer()

    assert first.status == 200
    assert first.body == b"".join(story(OPENAI, told=MUCH))
    expect(second, OPENAI, 429, "quota_exhausted")
    expect(third, ANTHROPIC, 429, "quota_exhausted")
    await scene.ledger_shows((MUCH.input, MUCH.output))
