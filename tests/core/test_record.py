from dataclasses import replace

from tests.ledger.builders import hold, used
from tokenweir.core.bucket import MAX_TOKENS
from tokenweir.core.hold import CAP_REACHED, UNSET, Amounts, Outcome, Settlement
from tokenweir.core.holding import NOTHING
from tokenweir.core.partition import user_code
from tokenweir.core.record import (
    CLASSES,
    GROUP,
    LABELS,
    RETRACTED,
    SEPARATOR,
    difference,
    group_of,
    hour_of,
    increments_in,
    labels_of,
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

    assert group_of(labels_of(made)).split(SEPARATOR) == [
        "acme",
        "acme-ci",
        "a b",
        "openai",
        "chat_completions",
    ]


def test_a_group_has_the_names_that_sums_are_kept_apart_by() -> None:
    """
    A rollup's field begins with the values of these labels, in this order.
    """
    labels = {name: name.upper() for name in LABELS}

    assert group_of(labels).split(SEPARATOR) == [name.upper() for name in GROUP]
    assert GROUP == ("tenant", "key", "model", "provider", "route")


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
        saved_nanousd=77,
        cap_saved_nanousd=5,
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
        "saved_nanousd": "77",
        "cap_saved_nanousd": "5",
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
    assert increments_in(record_of(hold(1), used(40, 0, attempts=3))) == {
        "exchanges": 1,
        "with_user": 1,
        "requests": 3,
        "input_tokens": 40,
        "outcome_completed": 1,
        "source_reported": 1,
    }
    assert increments_in(lost_record(labels_of(hold(1)), Amounts(1, 40, 60), 5)) == {
        "exchanges": 1,
        "with_user": 1,
        "requests": 1,
        "input_tokens": 40,
        "output_tokens": 60,
        "outcome_lost": 1,
        "source_estimated": 1,
        "tokens_estimated": 100,
    }


def test_increments_count_what_was_decided() -> None:
    """
    Downgrades, caps, what they saved, and exchanges without a price have figures.
    """
    made = hold(1)
    subject = replace(
        made.subject,
        user="",
        downgraded_from="gpt-5",
        capped_from=UNSET,
        output_cap="9",
    )
    made = replace(made, subject=subject)
    settlement = replace(
        used(0, 9),
        saved_nanousd=70,
        cap_saved_nanousd=3,
        flags=("x", CAP_REACHED, "unpriced"),
    )

    assert increments_in(record_of(made, settlement)) == {
        "exchanges": 1,
        "requests": 1,
        "output_tokens": 9,
        "downgraded": 1,
        "saved_nanousd": 70,
        "capped": 1,
        "cap_reached": 1,
        "cap_saved_nanousd": 3,
        "unpriced": 1,
        "outcome_completed": 1,
        "source_reported": 1,
    }
    lost = increments_in(lost_record(labels_of(made), NOTHING, 5))
    assert (lost["downgraded"], lost["capped"]) == (1, 1)
    assert "with_user" not in lost
    saved = record_of(made, settlement)
    assert (saved["capped_from"], saved["output_cap"]) == ("unset", "9")


def test_a_retracted_record_adds_nothing() -> None:
    """
    What was taken for lost, and was never forwarded, is in no sum; but a settled
    exchange that is flagged so is.
    """
    retracted = lost_record(labels_of(hold(1)), NOTHING, 5, RETRACTED)
    settled = record_of(hold(1), replace(used(1, 0), flags=(RETRACTED,)))

    assert increments_in(retracted) == {}
    assert increments_in(settled)["input_tokens"] == 1


def test_no_figure_leaves_the_exact_range() -> None:
    """
    An absurd figure of a provider is bounded before it is added up.
    """
    absurd = replace(used(10**18, -5, attempts=10**18), saved_nanousd=-1)

    assert record_of(hold(1), absurd)["input_tokens"] == str(MAX_TOKENS)
    increments = increments_in(record_of(hold(1), absurd))
    assert increments["input_tokens"] == MAX_TOKENS
    assert increments["requests"] == MAX_TOKENS
    assert not {"output_tokens", "saved_nanousd"}.intersection(increments)


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
