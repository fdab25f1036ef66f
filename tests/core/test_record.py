from dataclasses import replace

from tests.ledger.builders import hold, used
from tokenweir.core.bucket import MAX_TOKENS
from tokenweir.core.hold import Amounts, Outcome, Settlement
from tokenweir.core.partition import user_code
from tokenweir.core.record import (
    CLASSES,
    LABELS,
    SEPARATOR,
    difference,
    group_of,
    hour_of,
    increments_of,
    labels_of,
    lost_increments,
    lost_record,
    record_of,
)
from tokenweir.core.usage import Source, TokenUsage


def test_labels_say_who_asked_whom_for_what() -> None:
    """
    What is known from the beginning is in every record, and names no secret.
    """
    labels = labels_of(hold(1))

    assert tuple(labels) == LABELS
    assert labels["hold"] == "0-18bcfe56800-0001"
    assert (labels["tenant"], labels["key"], labels["model"]) == (
        "acme",
        "acme-ci",
        "gpt-4o",
    )


def test_an_end_user_is_told_by_a_hash() -> None:
    """
    A user's id may be a name or an address: it is written nowhere.
    """
    made = hold(1)
    nobody = replace(made, subject=replace(made.subject, user=""))

    assert labels_of(made)["user"] == user_code("acme", "ann")
    assert labels_of(nobody)["user"] == ""


def test_no_label_can_pretend_to_be_two() -> None:
    """
    The character that separates names in rollups is taken out of names.
    """
    made = hold(1)
    made = replace(made, subject=replace(made.subject, model=f"a{SEPARATOR}b"))

    assert group_of(labels_of(made)).split(SEPARATOR) == ["acme", "acme-ci", "a b"]


def test_a_record_says_what_was_used() -> None:
    """
    A record has every class of tokens, how it ended and how long it took, as text.
    """
    settlement = Settlement(
        TokenUsage(input_tokens=9, cached_input_tokens=1, reasoning_tokens=16),
        Source.COUNTED,
        Outcome.CUT,
        requests=2,
        status=200,
        model="gpt-4o-2024-08-06",
        duration_ms=1_500,
        first_token_ms=80,
        flags=("ledger_open", "drained"),
        cost_nanousd=1_234,
    )
    record = record_of(hold(1), settlement)

    assert {name: record[name] for name in record if name not in LABELS} == {
        "requests": "2",
        "input_tokens": "9",
        "cached_input_tokens": "1",
        "cache_write_tokens": "0",
        "cache_write_1h_tokens": "0",
        "audio_input_tokens": "0",
        "output_tokens": "0",
        "reasoning_tokens": "16",
        "audio_output_tokens": "0",
        "image_input_tokens": "0",
        "image_output_tokens": "0",
        "source": "counted",
        "outcome": "cut",
        "status": "200",
        "answered_by": "gpt-4o-2024-08-06",
        "duration_ms": "1500",
        "first_token_ms": "80",
        "flags": "ledger_open,drained",
        "cost_nanousd": "1234",
    }


def test_all_records_have_the_same_fields() -> None:
    """
    Whatever is unknown is empty, not absent; lost exchanges are no exception.
    """
    settled = record_of(hold(1), used(40, 60))
    lost = lost_record(labels_of(hold(1)), Amounts(1, 40, 60), 30_000)

    assert list(settled) == list(lost)
    assert (settled["first_token_ms"], settled["answered_by"]) == ("", "")


def test_a_lost_record_is_an_estimate() -> None:
    """
    Of an exchange that nobody settled there are input and output tokens, estimated.
    """
    lost = lost_record(labels_of(hold(1)), Amounts(1, 40, 60), 30_000, "cancelled")

    assert {name: lost[name] for name in CLASSES if lost[name] != "0"} == {
        "input_tokens": "40",
        "output_tokens": "60",
    }
    assert (lost["source"], lost["outcome"], lost["flags"]) == (
        "estimated",
        "lost",
        "cancelled",
    )
    assert (lost["requests"], lost["duration_ms"]) == ("1", "30000")


def test_increments_add_up_what_can_be_added() -> None:
    """
    Rollups count exchanges, attempts, tokens by class, outcomes and sources.
    """
    assert increments_of(used(40, 0, attempts=3)) == {
        "exchanges": 1,
        "requests": 3,
        "input_tokens": 40,
        "outcome_completed": 1,
        "source_reported": 1,
    }
    assert lost_increments(Amounts(1, 40, 60)) == {
        "exchanges": 1,
        "requests": 1,
        "input_tokens": 40,
        "output_tokens": 60,
        "outcome_lost": 1,
        "source_estimated": 1,
    }


def test_no_figure_leaves_the_exact_range() -> None:
    """
    An absurd figure of a provider is bounded before it is added up.
    """
    absurd = used(10**18, -5, attempts=10**18)

    assert record_of(hold(1), absurd)["input_tokens"] == str(MAX_TOKENS)
    assert increments_of(absurd)["input_tokens"] == MAX_TOKENS
    assert increments_of(absurd)["requests"] == MAX_TOKENS
    assert "output_tokens" not in increments_of(absurd)


def test_a_correction_is_a_difference() -> None:
    """
    Old sums and the difference make the new sums; what is equal is left out.
    """
    old = {"exchanges": 1, "input_tokens": 40, "outcome_lost": 1}
    new = {"exchanges": 1, "input_tokens": 50, "outcome_completed": 1}

    assert difference(new, old) == {
        "input_tokens": 10,
        "outcome_completed": 1,
        "outcome_lost": -1,
    }
    assert difference({}, old) == {name: -figure for name, figure in old.items()}


def test_hours_begin_on_the_hour() -> None:
    """
    A rollup's hour is the UTC hour since 1970.
    """
    assert (hour_of(7_199_999), hour_of(7_200_000)) == (1, 2)
