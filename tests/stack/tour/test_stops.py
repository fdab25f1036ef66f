"""The stops about single calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.stack.tour.trips import (
    FAILED,
    FORECAST,
    STREAMED,
    WHOLE,
    ScriptedBooks,
    record,
    refusal,
    trip,
    words,
)
from tokenweir.stack.tour.call import Call
from tokenweir.stack.tour.stops import (
    ENOUGH_PARTS,
    LEAVINGS,
    ask,
    error_of,
    hang_up,
    reservation,
    stream,
)
from tokenweir.stack.tour.trip import Stop

LONG = replace(STREAMED, parts=("a ",) * 20)
CUT = record(outcome="cut", source="counted")


async def test_asking_tells_what_was_reserved_and_settled() -> None:
    """Request, limit headers, words, reservation and settlement are all there."""
    made, client, listener = trip([WHOLE], ScriptedBooks(record()))

    step = await ask(made)

    assert step.differences == []
    assert step.request == client.asked[0][0].curl
    told = words(step)
    for text in (
        "x-ratelimit-limit-tokens: 600",
        "For water.",
        "80 tokens: 20 of the prompt (counted), 60 of max_tokens",
        "tour.tokens_per_minute: 550 of 600 tokens were left",
        "62 went back",
    ):
        assert text in told
    assert listener.begun == ["ask"]


@pytest.mark.parametrize("stop", [ask, stream, hang_up])
async def test_an_error_is_a_difference(stop: Stop) -> None:
    """What the provider or the gateway says instead of an answer is told."""
    made, _, _ = trip([FAILED])

    step = await stop(made)

    assert step.differences == ["the answer is 500 (the provider's): on fire"]
    assert step.figures == {"status": 500}


@pytest.mark.parametrize("stop", [ask, stream, hang_up])
async def test_a_call_without_a_record_is_a_difference(stop: Stop) -> None:
    """An answer that nobody accounts for is not as promised."""
    answer = WHOLE if stop is ask else STREAMED
    made, _, _ = trip([answer], ScriptedBooks(None))

    step = await stop(made)

    assert step.differences == ["the ledger has no record of the call"]


async def test_a_charge_that_is_not_the_reported_is_a_difference() -> None:
    """The ledger must have what the provider said, if it said something."""
    made, _, _ = trip([WHOLE], ScriptedBooks(record(output_tokens=13)))
    silent, _, _ = trip(
        [replace(WHOLE, body={})], ScriptedBooks(record(output_tokens=13))
    )

    assert (await ask(made)).differences == [
        "the provider reported 18 tokens, and 19 were charged"
    ]
    assert (await ask(silent)).differences == []


async def test_a_stream_is_looked_at_while_it_runs() -> None:
    """What is held meanwhile is told; a hold that was not seen is no difference."""
    made, _, _ = trip([STREAMED], ScriptedBooks(record(), held=80))
    unseen, _, _ = trip([STREAMED], ScriptedBooks(record(), held=0))

    first, second = await stream(made), await stream(unseen)

    assert "the ledger held 80 tokens for it" in words(first)
    assert "in flight" not in str(second.why)
    assert (first.differences, second.differences) == ([], [])


async def test_a_stream_must_stream_and_be_reported() -> None:
    """One part is none, and a count of ours is not the provider's."""
    made, _, _ = trip(
        [replace(STREAMED, parts=("all",))],
        ScriptedBooks(record(source="counted", outcome="lost")),
    )

    assert (await stream(made)).differences == [
        "the stream came in one part",
        "the stream's usage is counted, not reported by the provider",
        "the record says that the call was lost, not completed",
    ]


async def test_hanging_up_is_charged_as_far_as_it_came() -> None:
    """The record says that it was cut, and what had passed."""
    made, _, _ = trip([LONG], ScriptedBooks(CUT))

    step = await hang_up(made)

    assert step.differences == []
    assert f'"{"a " * ENOUGH_PARTS}'.strip() in words(step).replace('\\"', '"')
    assert "as Tokenweir counted what passed" in words(step)


async def test_an_answer_that_ended_first_is_asked_for_again() -> None:
    """The tour leaves the next one in time; what was charged for the first is kept."""
    made, client, _ = trip([LONG] * 2, ScriptedBooks(record(), CUT))

    step = await hang_up(made)

    assert step.differences == []
    assert "before the tour could leave it" in words(step)
    assert len(client.asked) == 2
    assert made.charged == 36
    assert len(made.records) == 2


async def test_a_stream_that_is_never_cut_is_a_difference() -> None:
    """After some tries it is told that the gateway did not notice."""
    made, client, _ = trip([LONG] * LEAVINGS, ScriptedBooks(*[record()] * LEAVINGS))

    step = await hang_up(made)

    assert step.differences == [
        "the record says that the stream was completed, not cut"
    ]
    assert len(client.asked) == LEAVINGS


async def test_what_has_passed_is_never_free() -> None:
    """A cut stream that cost nothing is not as promised."""
    free = {**CUT, "input_tokens": "0", "output_tokens": "0"}
    made, _, _ = trip([LONG], ScriptedBooks(free))

    assert (await hang_up(made)).differences == [
        "nothing is charged for what had passed"
    ]


def test_a_reservation_without_a_limit_names_none() -> None:
    """Where no limit on tokens applies, only the amount is told."""
    lines = reservation(
        replace(FORECAST, quota="", counted=False), Call("m", "Hello", 60)
    )

    assert lines == [
        "reserved   80 tokens: 20 of the prompt (estimated), 60 of max_tokens"
    ]


def test_errors_say_whose_they_are() -> None:
    """A refusal is the gateway's, and what gives no reason says so."""
    assert error_of(refusal()) == "429 (quota_exhausted): over"
    assert (
        error_of(replace(FAILED, body={})) == "500 (the provider's): no reason is given"
    )
