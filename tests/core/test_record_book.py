"""Records, and the sums that are made of them."""

from __future__ import annotations

from tokenweir.core.hold import Amounts
from tokenweir.core.holding import Holding, State
from tokenweir.core.record import (
    GROUP,
    LABELS,
    SEPARATOR,
    hour_of,
    increments_in,
    lost_record,
)
from tokenweir.core.record_book import RecordBook

START_MS = 1_700_000_000_000
HOUR = hour_of(START_MS)
ACME = SEPARATOR.join(("acme", *["-"] * (len(GROUP) - 1), ""))


def record(user: str = "", output_tokens: int = 30) -> dict[str, str]:
    """What is written of an exchange of acme's."""
    labels = dict.fromkeys(LABELS, "-") | {"tenant": "acme", "user": user}
    labels |= {"downgraded_from": "", "capped_from": ""}
    return lost_record(labels, Amounts(1, 0, output_tokens), 5)


def holding(recorded: dict[str, int] | None = None) -> Holding:
    """What there was of it before."""
    return Holding(State.HELD, started_ms=START_MS, recorded=recorded)


def test_a_record_is_summed_by_the_hour() -> None:
    """In the hour of its reserve, and by its end user a second time."""
    book, text = RecordBook(), record("ann")
    book.write(holding(), text, increments_in(text))

    [written] = book.records
    assert written["reserved_at_ms"] == str(START_MS)
    assert written["correction"] == "0"
    assert book.rollups[HOUR][f"{ACME}output_tokens"] == 30
    assert book.user_rollups[HOUR][f"{ACME}ann{SEPARATOR}output_tokens"] == 30


def test_a_correction_replaces_what_was_summed() -> None:
    """And without a text another tag keeps the record."""
    book, first, second = RecordBook(), record(), record(output_tokens=7)
    book.write(holding(), first, increments_in(first))
    book.write(holding(increments_in(first)), second, increments_in(second))
    book.write(holding(), {}, {"output_tokens": 9})

    assert [each["correction"] for each in book.records] == ["0", "1"]
    assert book.rollups[HOUR][f"{ACME}output_tokens"] == 7
    assert book.user_rollups == {}


def test_a_tally_adds_to_its_hour() -> None:
    """What no record tells stands beside the figures of records, under the same names."""
    book, text = RecordBook(), record()
    book.write(holding(), text, increments_in(text))
    for _ in range(2):
        book.tally(HOUR, {f"{ACME}matched_q": 3}, START_MS)

    assert book.rollups[HOUR][f"{ACME}matched_q"] == 6
    assert book.rollups[HOUR][f"{ACME}output_tokens"] == 30


def test_a_tally_is_of_today() -> None:
    """A processor whose clock is wrong fills no hours of another year."""
    book = RecordBook()
    for claimed in (0, HOUR - 25, HOUR - 24, HOUR - 1, HOUR, HOUR + 1, 10**9):
        book.tally(claimed, {"g": 1}, START_MS)

    assert book.rollups == {
        HOUR - 24: {"g": 3},
        HOUR - 1: {"g": 1},
        HOUR: {"g": 3},
    }
