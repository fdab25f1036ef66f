"""T32: counting tokens costs none, but it is no way around the other limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, encoded
from tests.cases.app import Call, ask, request
from tests.cases.stage import Stage
from tests.pod import until
from tests.scripted_upstream import Hold, reply
from tokenweir.core.usage import TokenUsage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PATH = "/v1/messages/count_tokens"
REQUESTS = 20
SLOTS = 3
COUNT = encoded({"input_tokens": 700_000})
TWO_MEGABYTES = ANTHROPIC.request(
    stream=False, messages=[{"role": "user", "content": "A" * 2_000_000}]
)


@pytest.fixture(autouse=True)
def count(stage: Stage) -> None:
    """Have the provider answer with a count."""
    stage.upstream.reset()
    stage.upstream.play(reply(COUNT))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def limited() -> AsyncIterator[Stage]:
    """Give a stage with low limits, in which nothing has been used up."""
    quotas = [
        {"requests_per_minute": 1, "capacity": REQUESTS},
        {"concurrency": SLOTS},
    ]
    async with Stage.open(quotas=quotas) as opened:
        opened.upstream.play(reply(COUNT))
        yield opened


async def test_t32_counting_takes_a_slot(limited: Stage) -> None:
    """
    Counts that are under way are exchanges in flight. Wei-Shaw/sub2api#5456
    """
    stage, gate = limited, asyncio.Event()
    stage.upstream.play(Hold(gate), reply(COUNT))
    calls = [
        await Call.begin(stage.pod.port, request(PATH, TWO_MEGABYTES))
        for _ in range(SLOTS)
    ]
    await stage.upstream.wait_for_requests(SLOTS)

    refused = await ask(stage.pod.port, request(PATH, TWO_MEGABYTES))
    gate.set()
    answers = [await call.reply() for call in calls]

    assert refused.status == 429
    assert {answer.status for answer in answers} == {200}
    await until(stage.pod.ledger.nothing_held, 5.0)


async def test_t32_counting_is_limited_by_requests_only(limited: Stage) -> None:
    """
    Of fifty counts of 2 MB, those that are left pass, and the rest is told to wait. No
    token of the quota is touched, and what was counted is not booked.

    Wei-Shaw/sub2api#5456
    """
    stage = limited
    answers = [
        await ask(stage.pod.port, request(PATH, TWO_MEGABYTES)) for _ in range(50)
    ]
    await stage.pod.settled()

    passed = REQUESTS - SLOTS  # the others were used by the test before
    refused = 50 - passed
    assert [answer.status for answer in answers] == [200] * passed + [429] * refused
    assert {answer.body for answer in answers[:passed]} == {COUNT}
    assert {answer.headers["x-tokenweir-refusal"] for answer in answers[passed:]}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers[passed:])
    assert len(stage.upstream.requests) == REQUESTS
    assert await stage.level_units() == stage.capacity * 60_000
    records = await stage.pod.ledger.records()
    assert len(records) == REQUESTS
    assert {record["route"] for record in records} == {"count_tokens"}
    assert set(await stage.pod.ledger.usages()) == {TokenUsage()}


async def test_t32_counting_is_bounded_in_size(stage: Stage) -> None:
    """
    A body above the limit is refused before it goes anywhere. Wei-Shaw/sub2api#5456
    """
    answer = await ask(stage.pod.port, request(PATH, b" " * 9 * 1024 * 1024))

    assert answer.status == 413
    assert not stage.upstream.requests
    assert await stage.pod.ledger.nothing_held()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages/count_tokens/",
        "/v1/messages/count_tokens/../batches",
        "/v1/messages/count_tokens;x=1",
        "/v1/messages/count_tokens%2f..",
        "/v1/messages/batches",
        "/V1/messages/count_tokens",
        "/v1/chat/completions/count_tokens",
    ],
)
async def test_t32_only_this_path_is_free(stage: Stage, path: str) -> None:
    """
    What only looks like the path is refused, and goes nowhere. Wei-Shaw/sub2api#5456
    """
    answer = await ask(stage.pod.port, request(path, ANTHROPIC.request()))

    assert 400 <= answer.status < 500
    assert not stage.upstream.requests
    assert await stage.pod.ledger.nothing_held()


@pytest.mark.parametrize(
    "path", [PATH, f"{PATH}?beta=true", f"/{PATH}", "/v1/./messages/count_tokens"]
)
async def test_t32_the_path_in_other_words(stage: Stage, path: str) -> None:
    """
    The same path, normalised or with a query, is the same. Wei-Shaw/sub2api#5456
    """
    asked = request(path, ANTHROPIC.request(stream=False))
    answer = await stage.send(asked)
    settled = await stage.settled(asked.id)

    assert (answer.status, answer.body) == (200, COUNT)
    assert settled.usage == TokenUsage()
    assert settled.outcome == "completed"
    assert settled.record["route"] == "count_tokens"


async def test_t32_a_message_in_disguise(stage: Stage) -> None:
    """
    A path that is a message's once it is normalised is metered as one.

    Wei-Shaw/sub2api#5456
    """
    stage.upstream.play(reply(ANTHROPIC.reply("Done.")))
    asked = request(
        "/v1/messages/count_tokens/../../messages", ANTHROPIC.request(stream=False)
    )
    answer = await stage.send(asked)
    settled = await stage.settled(asked.id)

    assert answer.status == 200
    assert settled.usage.total_tokens == 18
    assert settled.record["route"] == "messages"


async def test_t32_usage_in_a_count_is_not_booked(stage: Stage) -> None:
    """
    Whatever figures a count answers with, it costs no token. Wei-Shaw/sub2api#5456
    """
    usage = {"input_tokens": 9, "output_tokens": 9}
    stage.upstream.play(reply(encoded({"input_tokens": 9, "usage": usage})))
    asked = request(PATH, ANTHROPIC.request(stream=False))

    await stage.send(asked)
    settled = await stage.settled(asked.id)

    assert settled.usage == TokenUsage()
