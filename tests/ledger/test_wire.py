from dataclasses import replace

import pytest

from tests.ledger.builders import TAG, budget, concurrency, hold, tokens, used
from tokenweir.core.bucket import Bucket
from tokenweir.core.budget import Crossing, Spending
from tokenweir.core.hold import Amounts, Denied, Granted, LimitState, Part, Stale
from tokenweir.core.holding import (
    Holding,
    Share,
    State,
    Taken,
    account_of,
    share_of,
)
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.window import Window
from tokenweir.ledger import wire

TPM, SLOTS = tokens(100, 60), concurrency(3, shadow=True)
LABELS = {"hold": "1-2-3", "tenant": "acme", "key": ""}
DAY = budget(900, now_ms=86_400_000)
SHARE = Share("1-2-3", (TPM, SLOTS), Amounts(1, 40, 60, 77), "gpt-4o", LABELS, 5)


def test_a_share_is_written_with_its_lengths() -> None:
    """
    Lists go with their number before them, so that nothing can be mistaken.
    """
    head = ["1-2-3", "gpt-4o", 1, 40, 60, 77, 5, 1, "", 2]
    first = ["tpm|tokens_per_minute|tenant=acme", "tokens_per_minute", 60, 100, 0]
    second = ["slots|concurrency|tenant=acme", "concurrency", 0, 3, 1]

    assert wire.share_arguments(SHARE) == [
        *head,
        *first,
        *second,
        "1-2-3\x1facme\x1f",
    ]
    assert wire.share_arguments(replace(SHARE, limits=(), labels={})) == [
        *head[:-1],
        0,
        "",
    ]
    leased = wire.share_arguments(replace(SHARE, lease="a lease", slots=7))
    assert leased[7:9] == [7, "a lease"]


def test_a_budget_is_written_with_its_windows() -> None:
    """
    What is enforced, four turns, and the shares that are told.
    """
    limits = (replace(DAY, hard_limit=1_000), replace(DAY, thresholds=()))
    share = replace(SHARE, limits=limits, labels={})
    first = ["budget|budget_usd|tenant=acme", "budget_usd", 0, 900, 0]
    turns = [0, 86_400_000, 172_800_000, 259_200_000]

    assert wire.share_arguments(share)[10:] == [
        *(*first, 1_000, *turns, "50/80/95"),
        *(*first, 900, *turns, "-"),
        "",
    ]


def test_a_window_is_read() -> None:
    """
    What was spent, is reserved and was told, and when it ends.
    """
    assert wire.spending_of("5 7 80 900") == Spending(900, 5, 7, 80)


def test_a_crossing_is_read() -> None:
    """
    A limit's name comes last: it may hold anything.
    """
    assert wire.crossing_of("80 9 10 0 900 q|budget_usd|user=a b") == Crossing(
        "q|budget_usd|user=a b", 80, 9, 10, Window(0, 900)
    )


def test_windows_of_another_time_are_read() -> None:
    """
    The ledger says what its clock reads.
    """
    assert wire.answer_of(SHARE, wire.STALE, "7", "1700") == Stale("7", 1_700)


def test_an_account_is_written_with_its_record() -> None:
    """
    Figures first, then the record and what it adds to the rollup.
    """
    made = hold(1)
    account = account_of(made, used(40, 60, duration_ms=900), keeps_record=True)
    arguments = wire.account_arguments(account)

    assert arguments[:7] == [1, 40, 60, 0, 900, 60, len(account.record)]
    assert arguments[7:9] == ["hold", made.id]
    assert arguments[-2:] == ["source_reported", 1]
    plain = account_of(made, used(40, 60), keeps_record=False)
    assert wire.account_arguments(plain) == [1, 40, 60, 0, 0, 0, 0, 0]


def test_a_grant_is_read() -> None:
    """
    Limits that fit are told with what is left, others are in shadow mode.
    """
    answer = wire.answer_of(SHARE, 1, "7", "2 0 0 3 1000,1 1 5 95000")

    assert answer == Granted(
        "7",
        (LimitState(TPM, 5, 95_000),),
        (
            QuotaFailure(
                "slots", Axis.CONCURRENCY, "tenant=acme", 3, 0, 3, 1, 1_000, shadow=True
            ),
        ),
    )


def test_a_denial_is_read() -> None:
    """
    Enforced failures and those in shadow mode are told apart.
    """
    answer = wire.answer_of(SHARE, 0, "7", "1 0 20 70 90000,2 0 0 3 1000")

    assert isinstance(answer, Denied)
    assert answer.failures == (
        QuotaFailure(
            "tpm", Axis.TOKENS, "tenant=acme", 100, 20, 70, 100, 90_000, rate=60
        ),
    )
    assert [failure.quota for failure in answer.shadowed] == ["slots"]


def test_a_denial_that_is_staggered_is_read() -> None:
    """
    What is added to the wait stands behind it; the limit's mode asks for it.
    """
    limits = (replace(TPM, staggered=True), replace(SLOTS, staggered=True))
    share = replace(SHARE, limits=limits)
    answer = wire.answer_of(share, 0, "7", "1 0 20 70 90000 400,2 0 0 3 1000")
    arguments = wire.share_arguments(share)

    assert isinstance(answer, Denied)
    assert [why.return_ms for why in answer.failures] == [90_400]
    assert [why.return_ms for why in answer.shadowed] == [1_000]
    assert (arguments[14:16], arguments[20]) == ([2, "-"], 1)
    own = replace(SHARE, limits=(replace(limits[0], queue="a1"),))
    assert wire.share_arguments(own)[14:16] == [2, "a1"]


def test_a_grant_without_limits_is_read() -> None:
    """
    A tenant without quotas is granted everything.
    """
    made = hold(1)
    share = share_of(made, Part(TAG, ()), keeps_record=True)

    assert wire.answer_of(share, 1, "7", "") == Granted("7")


def test_a_hold_that_has_ended_has_no_answer() -> None:
    """
    That is neither a grant nor a denial.
    """
    assert wire.answer_of(SHARE, -1, "7", "") is None


def test_a_bucket_is_read() -> None:
    """
    Level, moment, reserved, rate and capacity, in that order.
    """
    assert wire.bucket_of("-60000 5 7 60 100") == Bucket(-60_000, 5, 7, 60, 100)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"state": "settled", "until": "9", "started": "1", "requests": "1",
             "input": "2", "output": "3", "cost": "4"},
            Holding(State.SETTLED, 9, 1, Amounts(1, 2, 3, 4)),
        ),
        (
            {"state": "cancelled", "until": "9", "started": "1", "recorded": "1"},
            Holding(State.CANCELLED, 9, 1, recorded={}),
        ),
        (
            {"state": "held", "until": "9", "started": "1", "requests": "1",
             "input": "40", "output": "60", "progress": "5", "claimed": "1",
             "model": "m", "labels": "1-2-3\x1facme\x1f", "recorded": "1", "i:exchanges": "1",
             "t:10": "concurrency 0 3 1 0 0 - b c", "price": "5",
             "t:9": "budget_usd 0 100 45 7 9 50/80 a", "answer": ""},
            Holding(
                State.HELD, 9, 1, Amounts(1, 40, 60),
                (Taken("a", Axis.BUDGET_USD, 0, 100, 45, Window(7, 9), (50, 80)),
                 Taken("b c", Axis.CONCURRENCY, 0, 3, 1)),
                5, True, "m", LABELS, {"exchanges": 1}, output_nanousd=5,
            ),
        ),
    ],
)  # fmt: skip
def test_a_hold_is_read(fields: dict[str, str], expected: Holding) -> None:
    """
    What a tombstone does not have is nothing; limits come in their order.
    """
    assert wire.holding_of(fields) == expected


def test_sums_by_user_are_packed() -> None:
    """
    Money has fields of its own; the other figures of one user are in one field.
    """
    stored = {
        "acme\x1fann\x1f": "exchanges 2 input_tokens -7",
        "acme\x1fann\x1fcost_nanousd": "9007199254740993",
        "acme\x1fbob\x1f": "exchanges 1",
    }

    assert wire.user_sums_of(stored) == {
        "acme\x1fann\x1fexchanges": 2,
        "acme\x1fann\x1finput_tokens": -7,
        "acme\x1fann\x1fcost_nanousd": 9_007_199_254_740_993,
        "acme\x1fbob\x1fexchanges": 1,
    }
