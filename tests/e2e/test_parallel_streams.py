"""Many streams of one tenant at once, decided by several processors."""

from __future__ import annotations

import asyncio
import math
import time

import openai
import pytest
from openai import AsyncOpenAI

from tests.mock_provider import mock_provider
from tests.pod import KEY, Pod, policy

pytestmark = pytest.mark.e2e

CALLS = 50
TOKENS_PER_MINUTE = 60_000
MAX_TOKENS = 2_000


async def stream(client: AsyncOpenAI, number: int) -> tuple[int, int] | None:
    """Return the usage that the provider told, or None if we were refused."""
    try:
        events = await client.chat.completions.create(
            model="gpt-4o",
            messages=[{"role": "user", "content": f"Say something about {number}."}],
            max_tokens=MAX_TOKENS,
            stream=True,
            stream_options={"include_usage": True},
        )
    except openai.RateLimitError as error:
        assert error.code == "rate_limit_exceeded"  # noqa: PT017
        return None
    usage = None
    async for event in events:
        usage = event.usage or usage
    assert usage is not None
    return usage.prompt_tokens, usage.completion_tokens


async def watch(pod: Pod, over: asyncio.Event) -> float:
    """
    Return the most tokens that were ever reserved beyond what there was by then: the
    capacity, and what has come in since this began.
    """
    began = time.monotonic()
    most = -math.inf
    while not over.is_set():
        buckets = (await pod.ledger.snapshot()).buckets.values()
        earned = TOKENS_PER_MINUTE * (time.monotonic() - began) / 60
        reserved = max((bucket.reserved for bucket in buckets), default=0)
        most = max(most, reserved - TOKENS_PER_MINUTE - earned)
        await asyncio.sleep(0.01)
    return most


async def test_fifty_parallel_streams_through_four_processors() -> None:
    """
    Reservations never exceed what there is, settled tokens are the provider's own
    figures, and nothing stays reserved.
    """
    quotas = [{"tokens_per_minute": TOKENS_PER_MINUTE}]
    over = asyncio.Event()
    with mock_provider("--stream-chunk-delay-ms", "100") as port:
        async with Pod.start(policy(port, quotas=quotas), workers=4) as pod:
            watching = asyncio.create_task(watch(pod, over))
            async with AsyncOpenAI(
                base_url=pod.url, api_key=KEY, max_retries=0
            ) as client:
                usages = await asyncio.gather(
                    *(stream(client, number) for number in range(CALLS))
                )
            await pod.settled()
            over.set()
            told = [usage for usage in usages if usage is not None]

            assert -TOKENS_PER_MINUTE < await watching <= 0
            assert len(told) >= TOKENS_PER_MINUTE // (MAX_TOKENS + 100)
            assert await pod.ledger.total() == (
                sum(tokens for tokens, _ in told),
                sum(tokens for _, tokens in told),
            )
            records = await pod.ledger.records()
            assert {record["source"] for record in records} == {"reported"}
            assert len(records) == len(told)
