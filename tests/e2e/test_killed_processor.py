"""A processor that dies takes no answer with it, and no hold for long."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from tests.mock_provider import mock_provider
from tests.pod import KEY, OTHER_KEY, PATIENCE_SECONDS, Pod, policy, soon, until

pytestmark = pytest.mark.e2e

STREAMS = 20
RECOVERY_SECONDS = 60.0
QUESTION = "Repeat after me: weirs hold water back until there is room for it below."


async def answer(client: AsyncOpenAI, begun: asyncio.Semaphore) -> str:
    """Return the text of a streamed answer; *begun* is released at its first delta."""
    events = await client.chat.completions.create(
        model="gpt-4o",
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=200,
        stream=True,
    )
    text = ""
    async for event in events:
        assert event.choices, "the usage event must not reach the app"
        if not text:
            begun.release()
        text += event.choices[0].delta.content or ""
    return text


async def test_answers_arrive_whole_and_holds_are_accounted_for() -> None:
    """
    kill -9 in the middle of twenty streams: all text arrives, new calls get 503 in
    under a second until the processor is back, and no hold outlives a minute.
    """
    options = ("--stream-chunk-delay-ms", "250", "--response-style", "echo")
    with mock_provider(*options) as port:
        quotas = [{"tokens_per_minute": 600_000}, {"concurrency": STREAMS}]
        async with (
            Pod.start(policy(port, quotas=quotas)) as pod,
            AsyncOpenAI(base_url=pod.url, api_key=KEY, max_retries=0) as client,
        ):
            whole = await answer(client, asyncio.Semaphore(0))
            await pod.settled()
            begun = asyncio.Semaphore(0)
            streams = [
                asyncio.create_task(answer(client, begun)) for _ in range(STREAMS)
            ]
            async with asyncio.timeout(PATIENCE_SECONDS):
                for _ in range(STREAMS):
                    await begun.acquire()
            pod.processors[0].kill()
            over = sum(stream.done() for stream in streams)
            soon([await seconds_to_be_refused(client) for _ in range(5)], 1.0)

            assert await asyncio.gather(*streams) == [whole] * STREAMS
            await asyncio.to_thread(pod.processors[0].restart)
            await until(partial(serves_again, pod))
            await pod.settled(RECOVERY_SECONDS)
            records = await pod.ledger.records()
            lost = [record for record in records if record["outcome"] == "lost"]
            assert len(records) == 1 + STREAMS
            # On a slow machine some are over before the last has begun.
            assert STREAMS - over <= len(lost) <= STREAMS
            assert lost
            assert all(int(record["input_tokens"]) > 0 for record in records)


async def seconds_to_be_refused(client: AsyncOpenAI) -> float:
    """Return how long it takes to be told that nobody governs."""
    began = time.monotonic()
    with pytest.raises(openai.InternalServerError) as refused:
        await answer(client, asyncio.Semaphore(0))
    seconds = time.monotonic() - began
    assert refused.value.status_code == 503
    assert int(refused.value.response.headers["retry-after"]) >= 1
    return seconds


async def serves_again(pod: Pod) -> bool:
    """Tell if Envoy has found the processor again."""
    async with httpx.AsyncClient(base_url=pod.url) as client:
        reply = await client.get("/models", headers={"x-api-key": OTHER_KEY})
        return reply.status_code == 200
