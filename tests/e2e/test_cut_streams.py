"""A client that hangs up in mid-stream owes what passed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.pod import KEY, Pod, policy, soon, until
from tests.scripted_upstream import End, ScriptedUpstream, Step, chunk, head
from tokenweir.core.dialects.base import Message, Prompt
from tokenweir.tokenizers.counter import TokenCounter

pytestmark = pytest.mark.e2e

WORDS = ["Once", " upon", " a", " time", " there", " was", " a", " weir", "."]
HEADERS = (("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
REQUEST = {
    "model": "gpt-4o",
    "stream": True,
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Tell me a story."}],
}


def delta(word: str) -> bytes:
    """Return one event of a chat completions stream."""
    content = {"choices": [{"index": 0, "delta": {"content": word}}]}
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def stalled_after(deltas: int) -> list[Step]:
    """Return a stream that says nothing more after so many *deltas*."""
    pieces = [chunk(delta(word)) for word in WORDS[:deltas]]
    return [head(headers=HEADERS), *pieces, End.STALL]


async def hang_up_after(port: int, deltas: int) -> None:
    """Ask for a stream, read so many *deltas*, and leave."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(REQUEST).encode()
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "host: tokenweir",
        f"authorization: Bearer {KEY}",
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    received = b""
    while received.count(b'"delta"') < deltas or b"\r\n\r\n" not in received:
        data = await reader.read(65536)
        assert data, received
        received += data
    writer.close()
    await writer.wait_closed()


@pytest.fixture
def counter() -> Iterator[TokenCounter]:
    """Yield a counter that is ready."""
    made = TokenCounter()
    made.preload(["gpt-4o"])
    yield made
    made.close()


async def expected(counter: TokenCounter, deltas: int) -> tuple[int, int]:
    """Return the tokens of the request, and of what passed."""
    prompt = Prompt((Message("user", ("Tell me a story.",)),))
    asked = await counter.count_prompt(prompt, "gpt-4o", None)
    passed = await counter.count_texts(WORDS[:deltas], "gpt-4o", None)
    return asked.tokens, passed.tokens


async def test_a_stream_cut_by_the_client_is_settled_for_what_passed(
    counter: TokenCounter,
) -> None:
    """
    After each number of deltas, input and output are settled, within a second as a
    rule.
    """
    quotas = [{"tokens_per_minute": 60_000}, {"concurrency": 1}]
    async with (
        ScriptedUpstream() as upstream,
        Pod.start(policy(upstream.port, quotas=quotas)) as pod,
    ):
        waits = []
        for deltas in range(len(WORDS) + 1):
            upstream.play(*stalled_after(deltas))
            await hang_up_after(pod.port, deltas)
            left_at = time.monotonic()
            await until(partial(settled, pod, deltas + 1))
            waits.append(time.monotonic() - left_at)
            record = (await pod.ledger.records())[-1]

            told = int(record["input_tokens"]), int(record["output_tokens"])
            assert told == await expected(counter, deltas)
            assert record["outcome"] == "cut"
            assert record["source"] == "counted"
            assert await pod.ledger.nothing_held()
        soon(waits, 1.0)


async def settled(pod: Pod, count: int) -> bool:
    """Tell if so many exchanges were recorded."""
    return len(await pod.ledger.records()) >= count
