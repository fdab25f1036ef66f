"""A processor that hangs, and goes on again, costs nobody an answer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping

import pytest

from tests.cases.apis import OPENAI, TOLD, WORDS, story
from tests.cases.connection import Connection, request
from tests.cases.scene import STREAM_HEAD, Scene
from tests.pod import until
from tests.scripted_upstream import LAST_CHUNK, Hold, chunk, reply

pytestmark = pytest.mark.e2e

STREAMS = 5
# Envoy waits 2 s for an answer on either side.
SECONDS_TO_ANSWER = 4.0


async def test_answers_go_on_and_new_calls_are_refused() -> None:
    """
    SIGSTOP in mid-stream: all text arrives, new calls get 503 within Envoy's patience.
    After SIGCONT what was seen is charged, once, and calls are served again.
    """
    async with Scene.open(quotas=[{"concurrency": STREAMS}], retries=0) as scene:
        gate = asyncio.Event()
        pieces = story(OPENAI)
        begun, rest = pieces[:4], pieces[4:]
        scene.upstream.play(
            STREAM_HEAD,
            *map(chunk, begun),
            Hold(gate),
            *map(chunk, rest),
            LAST_CHUNK,
        )
        streams = [asyncio.create_task(read_stream(scene)) for _ in range(STREAMS)]
        await scene.upstream.wait_for_requests(STREAMS)
        await asyncio.sleep(0.3)
        pid = scene.pod.processors[0].process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            refused = await scene.call(OPENAI.request(stream=False))
            gate.set()
            bodies = await asyncio.gather(*streams)
        finally:
            os.kill(pid, signal.SIGCONT)

        assert (refused.status, refused.refusal) == (503, "governor_unavailable")
        assert refused.seconds < SECONDS_TO_ANSWER
        assert bodies == [b"".join(pieces)] * STREAMS
        await until(scene.pod.ledger.nothing_held)
        records = await scene.pod.ledger.records()
        assert len(records) == STREAMS
        assert all(int(record["input_tokens"]) > 0 for record in records)
        assert [each for each in records if overcharged(each)] == []
        scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))

        async def served() -> bool:
            return (await scene.call(OPENAI.request(stream=False))).status == 200

        await until(served)
        await scene.pod.settled()


def overcharged(record: Mapping[str, str]) -> bool:
    """Tell if more output was charged than there is."""
    return int(record["output_tokens"]) > len(WORDS)


async def read_stream(scene: Scene) -> bytes:
    """Ask for a stream and return its body."""
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(OPENAI.request()))
        return (await app.answer()).body
