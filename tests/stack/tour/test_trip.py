"""What the stops share."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.stack.tour.trips import (
    FAILED,
    STREAMED,
    WHOLE,
    ScriptedBooks,
    record,
    refusal,
    trip,
    words,
)
from tokenweir.stack.tour.call import Call
from tokenweir.stack.tour.client import Answer
from tokenweir.stack.tour.step import Step
from tokenweir.stack.tour.trip import (
    MOST_WAIT_SECONDS,
    TRIES,
    brief,
    header_lines,
    quoted,
    retry_after,
    usage_of,
)

CALL = Call("m", "Hello", 60)


def step() -> Step:
    """Return a stop about which nothing is told yet."""
    return Step("ask", "Ask", "")


async def test_a_limit_that_is_still_used_is_waited_for() -> None:
    """A refusal from before costs a wait, and each try has an id of its own."""
    made, client, listener = trip([refusal(), WHOLE])
    told = step()

    answer, request_id = await made.ask(told, CALL)

    assert (answer.status, request_id) == (200, "tour-x-2")
    assert [each for _, each in client.asked] == ["tour-x-1", "tour-x-2"]
    assert "still used from before" in words(told)
    assert listener.waited[-1] == 0


async def test_a_limit_that_stays_used_is_an_answer() -> None:
    """After some tries the refusal is what came back."""
    made, client, _ = trip([refusal()] * TRIES)

    answer, _ = await made.ask(step(), CALL)

    assert answer.status == 429
    assert len(client.asked) == TRIES


@pytest.mark.parametrize(
    "answer",
    [
        FAILED,
        replace(refusal(), headers={"retry-after": "9"}),  # not the gateway's
        replace(refusal(), headers={"x-tokenweir-refusal": "budget_exhausted"}),
        replace(
            refusal(),
            headers={
                "x-tokenweir-refusal": "quota_exhausted",
                "retry-after": str(MOST_WAIT_SECONDS + 1),
            },
        ),
    ],
)
async def test_what_no_short_wait_helps_is_an_answer(answer: Answer) -> None:
    """Failures, others' refusals, and waits for minutes are told at once."""
    made, client, listener = trip([answer])

    assert (await made.ask(step(), CALL))[0] is not None
    assert len(client.asked) == 1
    assert listener.waited == []


async def test_waiting_ends_at_its_moment_and_not_before() -> None:
    """The seconds that are left are told, fewer and fewer, and that it is over."""
    made, _, listener = trip()
    moment = time.monotonic() + 0.2

    await made.wait_until(moment)

    assert time.monotonic() >= moment
    assert listener.waited[-1] == 0
    assert listener.waited == sorted(listener.waited, reverse=True)


async def test_what_was_charged_is_told_and_added_up() -> None:
    """What went back, who says so and what it cost; a free call has no cost."""
    made, _, _ = trip(
        books=ScriptedBooks(record(), record(source="counted", cost_nanousd=0))
    )
    first, second = step(), step()

    await made.account(first, "tour-x-1", 75)
    await made.account(second, "tour-x-2", 0)

    assert "settled    18 tokens (6 in, 12 out), as the provider reported; 57" in str(
        first.why
    )
    assert "cost       $0.0000081" in first.why
    assert "went back" not in words(second)
    assert "cost" not in words(second)
    assert "counted what passed" in words(second)
    assert made.charged == 36
    assert first.figures["charged_tokens"] == 18


async def test_a_missing_record_is_a_difference() -> None:
    """A call that nobody accounts for is what the tour is there to find."""
    made, _, _ = trip(books=ScriptedBooks(None))
    told = step()

    assert await made.account(told, "tour-x-1", 75) == {}
    assert told.differences == ["the ledger has no record of the call"]


def test_what_is_read_of_an_answer() -> None:
    """Its status and time, chosen headers, a short quotation, and the wait."""
    assert brief(replace(WHOLE, seconds=0.1)) == "200 after 0.10 s"
    assert header_lines(WHOLE, "x-ratelimit-limit-tokens", "absent") == [
        "x-ratelimit-limit-tokens: 600"
    ]
    assert quoted("For  water.") == '"For water."'
    assert quoted("x" * 100) == f'"{"x" * 70}…"'
    assert (retry_after(refusal()), retry_after(STREAMED)) == (1, 0)
    assert usage_of({}).total_tokens == 0
