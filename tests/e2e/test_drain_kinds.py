"""Kinds of exchanges that a leaving processor can have, and kinds of leaving."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis, story
from tests.cases.app import Call
from tests.cases.app import request as numbered
from tests.cases.connection import Connection, request
from tests.cases.refusals import expect
from tests.cases.scene import STREAM_HEAD, Scene
from tests.cases.short_holds import HOLD_MS
from tests.pod import Processor, until
from tests.scripted_upstream import (
    LAST_CHUNK,
    Hold,
    ReceivedRequest,
    Step,
    chunk,
    reply,
)
from tokenweir.envoyconf.names import PROCESSOR_CLUSTER
from tokenweir.ledger.sweeper import INTERVAL_SECONDS

pytestmark = pytest.mark.e2e

CHARGED = (TOLD.input, TOLD.output)
QUOTAS = [{"concurrency": 100}, {"tokens_per_minute": 600_000_000}]
DRAIN_SECONDS = 2
# What a processor takes at the most after its deadline, with a silent ledger.
LEAVE_SECONDS = DRAIN_SECONDS + 20.0
SECONDS_TO_REAP = HOLD_MS / 1_000 + 2 * INTERVAL_SECONDS + 10.0
SECOND = 1.0
MAX_UNMETERED = 20


@asynccontextmanager
async def leaving_scene(
    drain_seconds: int = DRAIN_SECONDS, workers: int = 1
) -> AsyncIterator[tuple[Scene, Processor]]:
    """Give a pod, and the processor of it that will leave."""
    options = {
        "drain_seconds": drain_seconds,
        "workers": workers,
        "program": "tests.cases.short_holds",
    }
    async with Scene.open(quotas=QUOTAS, options=options) as scene:
        yield scene, scene.pod.processors[0]


async def left(processor: Processor) -> None:
    """Demand that the processor ends, well, and says that it does."""
    code = await asyncio.to_thread(processor.process.wait, LEAVE_SECONDS)
    assert code == 0
    assert processor.lines()[-1]["event"] == "stopped"
    assert processor.count("fault") == 0


def gated(api: Api, gate: asyncio.Event) -> list[Step]:
    """Return a stream that waits for *gate* in its middle."""
    pieces = [chunk(piece) for piece in story(api)]
    return [STREAM_HEAD, *pieces[:5], Hold(gate), *pieces[5:], LAST_CHUNK]


async def test_an_idle_processor_leaves_at_once() -> None:
    """Where nothing is open, nothing is waited for."""
    async with leaving_scene(drain_seconds=25) as (scene, processor):
        began = time.monotonic()
        processor.terminate()
        await left(processor)

        assert time.monotonic() - began < 10 * SECOND
        refused = await scene.call(OPENAI.request())
        expect(refused, OPENAI, 503, "governor_unavailable")


@both_apis
async def test_new_calls_meanwhile(api: Api) -> None:
    """
    While streams end, new calls are told to come back, and probes that it leaves.
    """
    gate = asyncio.Event()
    async with leaving_scene(drain_seconds=20) as (scene, processor):
        scene.upstream.play_next(*gated(api, gate))
        async with Connection.open(scene.pod.port) as app:
            await app.send(request(api.request(), path=api.path))
            await app.head()
            processor.terminate()
            await until(lambda: processor.count("draining"))
            refused = await scene.call(api.request(), path=api.path)
            bodiless = await scene.call(method="GET", path="/v1/models")
            ready = json.loads(await asyncio.to_thread(processor.admin, "/readyz"))
            alive = json.loads(await asyncio.to_thread(processor.admin, "/healthz"))
            gate.set()
            body = await app.rest()
        await left(processor)

        expect(refused, api, 503, "draining")
        assert refused.header("retry-after") == "1"
        assert refused.header("x-should-retry") == "true"
        expect(bodiless, OPENAI, 503, "draining")
        assert ready["ready"] is False
        assert ready["checks"]["draining"] != "ok"
        assert alive == {"status": "alive"}
        assert body == b"".join(story(api))
        assert len(scene.upstream.requests) == 1
        await scene.ledger_shows(CHARGED)


async def test_many_streams_end_in_peace() -> None:
    """Twenty streams of both APIs end while it drains: all are settled as reported."""
    gate = asyncio.Event()

    def script(asked: ReceivedRequest) -> list[Step]:
        return gated(OPENAI if "chat" in asked.target else ANTHROPIC, gate)

    async with leaving_scene(drain_seconds=20) as (scene, processor):
        scene.upstream.choose(script)
        apis: list[Api] = [OPENAI, ANTHROPIC] * 10
        calls = [
            asyncio.create_task(scene.call(api.request(), path=api.path))
            for api in apis
        ]
        await scene.upstream.wait_for_requests(len(apis))
        processor.terminate()
        await until(lambda: processor.count("draining"))
        gate.set()
        answers = await asyncio.gather(*calls)
        await left(processor)

        for answer, api in zip(answers, apis, strict=True):
            assert answer.body == b"".join(story(api))
        await scene.ledger_shows(*[CHARGED] * len(apis))
        records = await scene.pod.ledger.records()
        assert {each["source"] for each in records} == {"reported"}


UNANSWERED, HALF_A_REPLY, HALF_A_STREAM = "unanswered", "half a reply", "half a stream"


def script_of(api: Api, kind: str, gate: asyncio.Event) -> tuple[list[Step], bytes]:
    """Return an answer that waits for *gate*, and its body."""
    body = api.reply("Once upon a time there was a weir. " * 20, TOLD)
    whole = reply(body)
    match kind:
        case "unanswered":
            return [Hold(gate), whole], body
        case "half a reply":
            cut = len(whole) - len(body) // 2
            return [whole[:cut], Hold(gate), whole[cut:]], body
        case _:
            return gated(api, gate), b"".join(story(api))


@both_apis
@pytest.mark.parametrize("kind", [UNANSWERED, HALF_A_REPLY, HALF_A_STREAM])
async def test_the_deadline(api: Api, kind: str) -> None:
    """
    What is not over at the deadline is charged for what passed, flagged, once; the app
    gets the whole answer from Envoy all the same.
    """
    gate = asyncio.Event()
    async with leaving_scene() as (scene, processor):
        script, body = script_of(api, kind, gate)
        scene.upstream.play(*script)
        asked = numbered(api.path, api.request(stream=kind == HALF_A_STREAM))
        call = await Call.begin(scene.pod.port, asked)
        await scene.upstream.wait_for_requests(1)
        if kind != UNANSWERED:
            await call.until(b"upon")
        processor.terminate()
        await left(processor)
        await scene.pod.settled()
        gate.set()
        answer = await call.reply()

        assert (answer.status, answer.body, answer.whole) == (200, body, True)
        [record] = await scene.pod.ledger.records()
        assert record["outcome"] == "drained"
        assert int(record["input_tokens"]) > 0
        assert (int(record["output_tokens"]) > 0) is (kind != UNANSWERED)
        [line] = [line for line in processor.lines() if line.get("outcome")]
        assert line["outcome"] == "drained"


async def test_an_app_that_leaves_while_it_drains() -> None:
    """Nobody waits for an app that has left: it is settled, and the processor goes."""
    async with leaving_scene(drain_seconds=25) as (scene, processor):
        scene.upstream.play(*gated(OPENAI, asyncio.Event()))
        async with Connection.open(scene.pod.port) as app:
            await app.send(request(OPENAI.request()))
            await app.head()
            await app.chunk()
            processor.terminate()
            await until(lambda: processor.count("draining"))
            app.reset()
        began = time.monotonic()
        await left(processor)

        assert time.monotonic() - began < 10 * SECOND
        await scene.pod.settled()
        [record] = await scene.pod.ledger.records()
        assert record["outcome"] == "cut"


async def test_a_request_that_is_being_admitted() -> None:
    """
    Who was asking the ledger when the signal came is served to the end.
    """
    options = {"drain_seconds": 20}
    async with Scene.relayed(quotas=QUOTAS, options=options) as scene:
        [processor] = scene.pod.processors
        assert scene.relay is not None
        scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
        scene.relay.delay_seconds = 0.5
        calls = [
            asyncio.create_task(scene.call(OPENAI.request(stream=False)))
            for _ in range(5)
        ]
        await asyncio.sleep(0.2)
        processor.terminate()
        await until(lambda: processor.count("draining"))
        scene.relay.delay_seconds = 0.0
        answers = await asyncio.gather(*calls)
        await left(processor)

        assert {answer.status for answer in answers} <= {200, 503}
        served = [answer for answer in answers if answer.status == 200]
        assert len(scene.upstream.requests) == len(served)
        await scene.ledger_shows(*[CHARGED] * len(served))


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
async def test_signals_do_not_add_up(first: signal.Signals) -> None:
    """A drain that is under way is not cut short by further signals."""
    gate = asyncio.Event()
    async with leaving_scene(drain_seconds=20) as (scene, processor):
        scene.upstream.play(*gated(OPENAI, gate))
        async with Connection.open(scene.pod.port) as app:
            await app.send(request(OPENAI.request()))
            await app.head()
            processor.process.send_signal(first)
            await until(lambda: processor.count("draining"))
            for more in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                processor.process.send_signal(more)
                await asyncio.sleep(0.1)
            gate.set()
            body = await app.rest()
        await left(processor)

        assert body == b"".join(story(OPENAI))
        assert processor.count("draining") == 1
        await scene.ledger_shows(CHARGED)


async def test_a_ledger_that_is_silent() -> None:
    """
    Without a ledger it leaves in time all the same; what it could not settle is
    charged by whoever comes next.
    """
    gate = asyncio.Event()
    async with leaving_scene() as (scene, processor):
        scene.upstream.play(*gated(OPENAI, gate))
        async with Connection.open(scene.pod.port) as app:
            await app.send(request(OPENAI.request()))
            await app.head()
            scene.pod.server.pause()
            processor.terminate()
            await left(processor)
            gate.set()
            body = await app.rest()
        scene.pod.server.resume()
        await asyncio.to_thread(processor.restart)
        await scene.pod.settled(SECONDS_TO_REAP)

        assert body == b"".join(story(OPENAI))
        [record] = await scene.pod.ledger.records()
        assert record["outcome"] == "lost"
        assert int(record["input_tokens"]) > 0


async def test_a_ledger_that_comes_back_in_time() -> None:
    """What waits for the ledger when a processor leaves is settled if it comes back."""
    async with leaving_scene(drain_seconds=1) as (scene, processor):
        scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
        gate = asyncio.Event()
        scene.upstream.play_next(Hold(gate), reply(OPENAI.reply("Hi.", TOLD)))
        call = asyncio.create_task(scene.call(OPENAI.request(stream=False)))
        await scene.upstream.wait_for_requests(1)
        scene.pod.server.pause()
        gate.set()
        answer = await call
        processor.terminate()
        await asyncio.sleep(2.0)
        scene.pod.server.resume()
        await left(processor)

        assert answer.status == 200
        await scene.ledger_shows(CHARGED)


async def has_healthy(scene: Scene, count: int) -> bool:
    """Tell if Envoy knows of so many processors that serve."""
    name = f"cluster.{PROCESSOR_CLUSTER}.membership_healthy"
    stats = await asyncio.to_thread(scene.pod.envoy.stats, name)
    return stats[name] == count


async def test_workers_leave_one_after_the_other() -> None:
    """
    Callers that come back as they are told are all served while each of two workers
    leaves and returns, and are charged once.
    """
    async with leaving_scene(drain_seconds=10, workers=2) as (scene, _):
        scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
        over = asyncio.Event()
        served = 0

        async def load() -> None:
            nonlocal served
            while not over.is_set():
                answer = await scene.call(OPENAI.request(stream=False))
                if answer.status == 200:
                    served += 1
                    continue
                assert answer.refusal in ("draining", "governor_unavailable")
                await asyncio.sleep(answer.detail["retry_after_ms"] / 1_000)

        loads = [asyncio.create_task(load()) for _ in range(4)]
        for processor in scene.pod.processors:
            before = served
            processor.terminate()
            await left(processor)
            await until(lambda before=before: served > before + 20)  # type: ignore[misc]
            await until(partial(has_healthy, scene, 1))
            await asyncio.to_thread(processor.restart)
            await until(partial(has_healthy, scene, 2))
        over.set()
        await asyncio.gather(*loads)

        assert len(scene.upstream.requests) == served
        await scene.pod.settled(SECONDS_TO_REAP)
        charges = await scene.charges()
        # A worker that goes between the two filters of an exchange takes its metering
        # along: the hold is given back, and the answer passes. Of thousands, a few.
        assert set(charges) == {CHARGED}
        assert served - MAX_UNMETERED <= len(charges) <= served
