"""The last stop."""

from __future__ import annotations

from tests.stack.tour.trips import ScriptedBooks, record, trip, words
from tokenweir.stack.tour.ledger_stop import see
from tokenweir.stack.tour.step import Step


async def test_every_call_has_its_line() -> None:
    """In, out, how it is known, how it ended and what it cost, and their sum."""
    books = ScriptedBooks(record(), record(outcome="cut", source="counted"))
    made, _, _ = trip(books=books)
    for request_id in ("tour-x-1", "tour-x-3"):
        await made.account(Step("ask", "Ask", ""), request_id, 0)

    step = await see(made)

    assert step.differences == []
    assert [line.split() for line in step.came[1:]] == [
        ["1", "6", "12", "reported", "completed", "$0.0000081"],
        ["3", "6", "12", "counted", "cut", "$0.0000081"],
    ]
    assert "36 tokens of tenant tour in 2 calls" in words(step)
    assert step.figures == {"charged_tokens": 36, "records": 2}


async def test_what_does_not_add_up_is_a_difference() -> None:
    """A record too few, a sum that is another, or a hold that stays."""
    made, _, _ = trip(books=ScriptedBooks(quiet=False))
    made.records.append(record())
    made.charged = 18

    assert (await see(made)).differences == [
        "the ledger has 0 records of 1 calls",
        "18 tokens were charged call by call, and 0 in sum",
        "a call that has ended still holds tokens",
    ]
