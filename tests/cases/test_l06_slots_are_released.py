"""L06: a slot is free again, however its exchange ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, WORDS, Api, both_apis, story
from tests.cases.connection import MESSAGES, Connection, call, request
from tests.cases.scene import STREAM_HEAD, Scene
from tests.pod import KEY, PATIENCE_SECONDS, Pod, until
from tests.scripted_upstream import (
    LAST_CHUNK,
    End,
    Step,
    chunk,
    event_stream,
    head,
    reply,
)
from tokenweir.core.holding import HOLD_MS
from tokenweir.ledger.sweeper import INTERVAL_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# It is told at once; the ledger hears of it within this time, also on a busy machine.
SECONDS_TO_RELEASE = 15.0
# A crash heals by itself: the lease, one sweep, and what a busy machine needs.
SECONDS_TO_HEAL = HOLD_MS / 1_000 + 2 * INTERVAL_SECONDS + 5.0
# The ledger's deadline: patient, as a busy machine is late by itself now and then.
PATIENT = {"arguments": ["--ledger-timeout-ms", "1000"]}
QUOTAS = [{"concurrency": 1}, {"tokens_per_minute": 6_000_000}]
JSON_TYPE = ("content-type", "application/json")


def with_a_dead_provider(content: dict[str, Any]) -> None:
    """Add a provider that refuses connections, and one without an address."""
    dead = {"base_url": "http://127.0.0.1:1", "dialect": "openai"}
    lost = {"base_url": "http://nowhere.invalid:80", "dialect": "openai"}
    content["providers"] |= {"dead": dead, "lost": lost}
    content["models"] |= {"dead": {"provider": "dead"}, "lost": {"provider": "lost"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod that has one slot, and a relay before its ledger."""
    async with Scene.relayed(
        quotas=QUOTAS,
        adapt=with_a_dead_provider,
        retries=0,
        options=PATIENT,
        timeouts={"default": {"total": "2s", "idle": "1s"}},
    ) as opened:
        yield opened


async def is_free(scene: Scene, charged: int = 1) -> None:
    """
    Demand that the slot is free, and that the next call gets it.

    *charged*: exchanges that must have been recorded before.
    """
    await scene.pod.settled(SECONDS_TO_RELEASE)
    assert len(await scene.pod.ledger.records()) == charged
    scene.upstream.reset()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))

    async def served() -> bool:
        answer = await scene.call(OPENAI.request(stream=False))
        # Of an app that left before its request was known there may be traces yet.
        assert answer.status in (200, 429)
        return answer.status == 200

    await until(served, SECONDS_TO_RELEASE)
    assert len(scene.upstream.requests) == 1
    await scene.pod.settled(SECONDS_TO_RELEASE)


HALF = json.dumps({"id": "chatcmpl-1", "choices": []}).encode()
LONG = head(headers=[JSON_TYPE, ("content-length", "5000")]) + HALF
PIECES = [chunk(piece) for piece in story(OPENAI)[:4]]
STREAM = [STREAM_HEAD, *PIECES]
ENDS: dict[str, list[Step]] = {
    "no answer": [End.STALL],
    "reset": [End.RESET],
    "closed": [End.CLOSE],
    "half a head, then reset": [b"HTTP/1.1 200 OK\r\ncontent-ty", End.RESET],
    "half a head, then nothing": [b"HTTP/1.1 200 OK\r\ncontent-ty", End.STALL],
    "half a body, then reset": [LONG, End.RESET],
    "half a body, then closed": [LONG, End.CLOSE],
    "half a body, then nothing": [LONG, End.STALL],
    "half a stream, then reset": [*STREAM, End.RESET],
    "half a stream, then closed": [*STREAM, End.CLOSE],
    "half a stream, then nothing": [*STREAM, End.STALL],
    "half an event": [*STREAM, chunk(b'data: {"cho'), End.CLOSE],
    "a stream without a last chunk": [*STREAM, chunk(OPENAI.report()), End.CLOSE],
    "a broken chunk": [*STREAM, b"zzz\r\n"],
    "only a head": [STREAM_HEAD, End.RESET],
    "no HTTP at all": [b"SSH-2.0-OpenSSH_9.2\r\n", End.CLOSE],
    "too large a head": [head(headers=[("x-filler", "a" * 100_000)]), End.CLOSE],
    "two lengths": [head(headers=[("content-length", "1"), ("content-length", "2")])],
    "an empty body": [reply(b"")],
    "a stream without events": [STREAM_HEAD, LAST_CHUNK],
    "a hint first": [head("103 Early Hints"), reply(OPENAI.reply("Hi.", TOLD))],
    "no content": [head("204 No Content")],
    "not modified": [head("304 Not Modified")],
    "moved": [reply(b"", "302 Found", [("location", "http://127.0.0.1/")])],
    "too large a JSON": [reply(b'{"choices":[' + b" " * 9_000_000 + b"]}")],
}
STATUSES = [400, 401, 404, 413, 422, 429, 499, 500, 502, 503, 504, 529, 599]
ENDS |= {str(code): [reply(b'{"error":{}}', f"{code} So")] for code in STATUSES}


@pytest.mark.parametrize("name", ENDS)
async def test_l06_whatever_the_provider_does(scene: Scene, name: str) -> None:
    """
    After each way of a provider to fail, the next request is admitted.

    BerriAI/litellm#20256, BerriAI/litellm#27955, BerriAI/litellm#28160
    """
    await scene.clear()
    scene.upstream.play(*ENDS[name])

    await scene.until_recorded(
        request(OPENAI.request(stream=name.startswith("half a st")))
    )

    await is_free(scene)


@pytest.mark.parametrize("model", ["dead", "lost"])
async def test_l06_the_provider_is_not_there(scene: Scene, model: str) -> None:
    """
    A provider that can't be connected to leaves no slot taken, and costs no tokens.

    BerriAI/litellm#20256
    """
    await scene.clear()

    answer = await scene.call(OPENAI.request(stream=False, model=model))

    assert answer.status == 503
    assert answer.refusal == "upstream_unavailable"
    await scene.ledger_shows((0, 0))
    await is_free(scene)


BODY = OPENAI.request()
WHOLE = request(BODY)
PARTS = {
    "nothing": b"",
    "half a line": b"POST /v1/chat/comp",
    "half a head": WHOLE[: WHOLE.index(b"\r\n\r\n") - 5],
    "a head": WHOLE[: -len(BODY)],
    "half a body": WHOLE[: -len(BODY) // 2],
    "all but a byte": WHOLE[:-1],
    "half of a chunked body": request(chunks=[BODY])[:-30],
    "a chunked body without its end": request(chunks=[BODY])[:-5],
}
Leave = Callable[[Connection], None]
LEAVES: dict[str, Leave] = {"FIN": Connection.hang_up, "RST": Connection.reset}
leaves = pytest.mark.parametrize("leave", LEAVES.values(), ids=LEAVES)


@leaves
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
async def test_l06_an_app_leaves_before_its_request_is_whole(
    scene: Scene, part: bytes, leave: Leave
) -> None:
    """
    Who leaves before all was said has taken no slot. BerriAI/litellm#20256
    """
    await scene.clear()
    async with Connection.open(scene.pod.port) as app:
        await app.send(part)
        await asyncio.sleep(0.05)
        leave(app)

    await is_free(scene, charged=0)


@leaves
@pytest.mark.parametrize("delay_seconds", [0.0, 0.002, 0.02, 0.1, 0.18])
async def test_l06_an_app_leaves_while_the_ledger_is_asked(
    scene: Scene, delay_seconds: float, leave: Leave
) -> None:
    """
    A reserve that was applied for somebody who has left is given back.

    BerriAI/litellm#20256
    """
    assert scene.relay is not None
    await scene.clear()
    scene.upstream.play(*event_stream(story(OPENAI)))
    scene.relay.delay_seconds = 0.15
    try:
        async with Connection.open(scene.pod.port) as app:
            await app.send(WHOLE)
            await asyncio.sleep(delay_seconds)
            leave(app)
        await scene.pod.settled(SECONDS_TO_RELEASE)
    finally:
        scene.relay.delay_seconds = 0.0

    # With the longest delays the request can have got through, or almost.
    charged = len(await scene.pod.ledger.records())
    assert len(scene.upstream.requests) <= charged <= 1
    await is_free(scene, charged=charged)


@leaves
@both_apis
async def test_l06_an_app_leaves_before_the_answer(
    scene: Scene, api: Api, leave: Leave
) -> None:
    """
    Who leaves while the provider thinks owes the input, and no slot.

    BerriAI/litellm#20256
    """
    await scene.clear()
    scene.upstream.play(End.STALL)
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(api.request(), path=api.path))
        await scene.upstream.wait_for_requests(1)
        leave(app)

    await scene.pod.settled(SECONDS_TO_RELEASE)
    [(owed, output)] = await scene.charges()
    assert owed > 0
    assert output == 0
    await is_free(scene)


@leaves
@both_apis
@pytest.mark.parametrize("events", [0, 1, len(WORDS), -1])
async def test_l06_an_app_leaves_in_mid_stream(
    scene: Scene, api: Api, events: int, leave: Leave
) -> None:
    """
    Who leaves in the middle of a stream, or with its last byte, leaves no slot taken.

    BerriAI/litellm#20256
    """
    await scene.clear()
    pieces = story(api)[:events] if events >= 0 else story(api)
    scene.upstream.play(STREAM_HEAD, *(chunk(piece) for piece in pieces), End.STALL)
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(api.request(), path=api.path))
        await app.head()
        for _ in pieces[:1]:
            await app.piece()
        leave(app)

    await is_free(scene)


@pytest.mark.parametrize("when", ["at once", "while thinking", "in mid-stream"])
async def test_l06_an_app_resets_its_stream_over_http2(scene: Scene, when: str) -> None:
    """
    RST_STREAM ends an exchange as a closed connection does. BerriAI/litellm#20256
    """
    await scene.clear()
    script = [End.STALL] if when != "in mid-stream" else [*STREAM, End.STALL]
    scene.upstream.play(*script)
    begun = asyncio.Event()

    async def ask(client: httpx.AsyncClient) -> None:
        url = f"{scene.pod.url}/chat/completions"
        headers = {"authorization": f"Bearer {KEY}"}
        async with client.stream("POST", url, content=BODY, headers=headers) as answer:
            async for _ in answer.aiter_raw():
                begun.set()

    async with httpx.AsyncClient(http1=False, http2=True) as client:
        asked = asyncio.create_task(ask(client))
        if when == "while thinking":
            await scene.upstream.wait_for_requests(1)
        elif when == "in mid-stream":
            await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        else:
            await asyncio.sleep(0.01)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await scene.pod.settled(SECONDS_TO_RELEASE)

    charged = len(await scene.pod.ledger.records())
    assert len(scene.upstream.requests) <= charged <= 1
    await is_free(scene, charged=charged)


async def taken_by(pod: Pod, scene: Scene) -> asyncio.Task[None]:
    """Begin a stream through *pod* that never ends, and return who reads it."""
    scene.upstream.play_next(*STREAM, End.STALL)
    begun = asyncio.Event()

    async def read() -> None:
        async with Connection.open(pod.port) as app:
            await app.send(WHOLE)
            while await app.piece(patience_seconds=2 * SECONDS_TO_HEAL):
                begun.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
    return task


async def seconds_until_free(
    scene: Scene, calls: Callable[[], Awaitable[int]]
) -> float:
    """Return how long *calls*, two a second, were refused for want of a slot."""
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    began = time.monotonic()

    while (status := await calls()) == 429:
        assert time.monotonic() - began < SECONDS_TO_HEAL
        await asyncio.sleep(0.5)
    assert status == 200
    return time.monotonic() - began


async def test_l06_a_crash_heals_itself(scene: Scene) -> None:
    """
    kill -9 in mid-stream: the slot is free within the lease, which the calls that are
    refused meanwhile do not renew. Without Envoy it is free at once.

    BerriAI/litellm#20256: every INCR renewed the TTL, so one lost DECR was for ever.
    """
    await scene.clear()
    async with scene.another_pod(timeouts={}) as other:
        body = OPENAI.request(stream=False)

        async def asked() -> int:
            return (await call(scene.pod.port, request(body))).status

        stream = await taken_by(other, scene)
        other.processors[0].kill()
        healed = await seconds_until_free(scene, asked)
        stream.cancel()
        await asyncio.to_thread(other.processors[0].restart)

        stream = await taken_by(other, scene)
        other.envoy.stop()
        await scene.pod.settled(SECONDS_TO_RELEASE)
        assert await asked() == 200
        await asyncio.gather(stream, return_exceptions=True)

    assert healed > 1.0  # it was taken, and not just refused
    outcomes = [each["outcome"] for each in await scene.pod.ledger.records()]
    assert sorted(outcomes) == ["completed", "completed", "cut", "lost"]


async def test_l06_a_refused_call_takes_no_slot(scene: Scene) -> None:
    """
    While the slot is taken, others are refused, and told when to come back.

    BerriAI/litellm#20256
    """
    await scene.clear()
    stream = await taken_by(scene.pod, scene)

    answer = await scene.call(
        ANTHROPIC.request(stream=False), path=MESSAGES, headers=[]
    )

    assert answer.status == 429
    assert answer.detail["limit"] == "concurrency"
    assert answer.detail["reserved"] == 1
    await stream  # the provider's silence ends it
    await is_free(scene)
