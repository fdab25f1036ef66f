"""A processor that hangs, and goes on again, costs nobody an answer."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.cases.apis import OPENAI, TOLD, WORDS, story
from tests.cases.connection import Answer, Connection, request
from tests.cases.scene import STREAM_HEAD, Scene
from tests.pod import HASTY_ENVOY, PATIENCE_SECONDS, until
from tests.scripted_upstream import LAST_CHUNK, Hold, chunk, reply
from tokenweir.tokenizers.counter import TokenCounter

pytestmark = pytest.mark.e2e

STREAMS = 5
PIECES = story(OPENAI)
# Envoy waits 2 s for an answer on either side; more is what a busy machine takes.
SECONDS_TO_ANSWER = 8.0


async def test_answers_go_on_and_new_calls_are_refused() -> None:
    """
    SIGSTOP in mid-stream: all text arrives, new calls get 503 within Envoy's patience.
    After SIGCONT what was seen is charged, once, and calls are served again.
    """
    most = await tokens_of_all_words()
    quotas, options = [{"concurrency": STREAMS}], {"envoy_settings": HASTY_ENVOY}
    async with Scene.open(quotas=quotas, options=options, retries=0) as scene:
        refused, bodies = await frozen_in_mid_stream(scene)

        assert (refused.status, refused.refusal) == (503, "governor_unavailable")
        assert refused.seconds < SECONDS_TO_ANSWER
        assert bodies == [b"".join(PIECES)] * STREAMS
        await until(scene.pod.ledger.nothing_held)
        records = await scene.pod.ledger.records()
        assert len(records) == STREAMS
        assert all(int(record["input_tokens"]) > 0 for record in records)
        assert [each for each in records if int(each["output_tokens"]) > most] == []
        scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))

        async def served() -> bool:
            return (await scene.call(OPENAI.request(stream=False))).status == 200

        await until(served)
        await scene.pod.settled()


async def frozen_in_mid_stream(scene: Scene) -> tuple[Answer, list[bytes]]:
    """
    Freeze the processor while streams are open, and thaw it when they are over.

    Return the answer to a call in between, and what came of the streams.
    """
    gate, begun = asyncio.Event(), asyncio.Semaphore(0)
    first, rest = PIECES[:4], PIECES[4:]
    scene.upstream.play(
        STREAM_HEAD, *map(chunk, first), Hold(gate), *map(chunk, rest), LAST_CHUNK
    )
    streams = [asyncio.create_task(read_stream(scene, begun)) for _ in range(STREAMS)]
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in streams:
            await begun.acquire()
    pid = scene.pod.processors[0].process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        refused = await scene.call(OPENAI.request(stream=False))
        gate.set()
        return refused, await asyncio.gather(*streams)
    finally:
        os.kill(pid, signal.SIGCONT)


async def read_stream(scene: Scene, begun: asyncio.Semaphore) -> bytes:
    """Ask for a stream and return its body; *begun* is released at its first piece."""
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(OPENAI.request()))
        await app.head()
        first = await app.chunk()
        begun.release()
        return first + await app.rest()


async def tokens_of_all_words() -> int:
    """
    Return what is charged for the words if the report behind them was not seen.

    What Envoy had sent before it lost its patience is read after SIGCONT: that may be
    all but the report. And there are more tokens than words.
    """
    counter = TokenCounter()
    try:
        counter.preload([OPENAI.model])
        return (await counter.count_texts(WORDS, OPENAI.model, None)).tokens
    finally:
        counter.close()
