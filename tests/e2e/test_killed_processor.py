"""A processor that dies takes no answer with it, and no hold for long."""

from __future__ import annotations

import asyncio
import time

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from tests.mock_provider import mock_provider
from tests.pod import KEY, OTHER_KEY, Pod, policy

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
            for _ in range(STREAMS):
                await begun.acquire()
            pod.processors[0].kill()

            began = time.monotonic()
            with pytest.raises(openai.InternalServerError) as refused:
                await answer(client, asyncio.Semaphore(0))
            assert time.monotonic() - began < 1.0
            assert refused.value.status_code == 503
            assert int(refused.value.response.headers["retry-after"]) >= 1

            assert await asyncio.gather(*streams) == [whole] * STREAMS
            await asyncio.to_thread(pod.processors[0].restart)
            await served_again(pod)
            await pod.settled(RECOVERY_SECONDS)
            records = await pod.ledger.records()
            lost = [record for record in records if record["outcome"] == "lost"]
            assert len(lost) == STREAMS
            assert all(int(record["input_tokens"]) > 0 for record in lost)


async def served_again(pod: Pod) -> None:
    """Wait until Envoy has found the processor again."""
    async with httpx.AsyncClient(base_url=pod.url) as client:
        for _ in range(100):
            reply = await client.get("/models", headers={"x-api-key": OTHER_KEY})
            if reply.status_code == 200:
                return
            await asyncio.sleep(0.1)
    raise AssertionError("the processor was not found again")
