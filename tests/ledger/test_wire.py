from dataclasses import replace

import pytest

from tests.ledger.builders import TAG, concurrency, hold, tokens, used
from tokenweir.core.bucket import Bucket
from tokenweir.core.hold import Amounts, Denied, Granted, LimitState, Part
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
from tokenweir.ledger import wire

TPM, SLOTS = tokens(100, 60), concurrency(3, shadow=True)
LABELS = {"hold": "1-2-3", "tenant": "acme", "key": ""}
SHARE = Share("1-2-3", (TPM, SLOTS), Amounts(1, 40, 60), "gpt-4o", LABELS)


def test_a_share_is_written_with_its_lengths() -> None:
    """
    Lists go with their number before them, so that nothing can be mistaken.
    """
    head = ["1-2-3", "gpt-4o", 1, 40, 60, 2]
    first = ["tpm|tokens_per_minute|tenant=acme", "tokens_per_minute", 60, 100, 0]
    second = ["slots|concurrency|tenant=acme", "concurrency", 0, 3, 1]

    assert wire.share_arguments(SHARE) == [
        *head,
        *first,
        *second,
        "1-2-3\x1facme\x1f",
    ]
    assert wire.share_arguments(replace(SHARE, limits=(), labels={})) == [
        *head[:5],
        0,
        "",
    ]


def test_an_account_is_written_with_its_record() -> None:
    """
    Figures first, then the record and what it adds to the rollup.
    """
    made = hold(1)
    account = account_of(made, used(40, 60, duration_ms=900), keeps_record=True)
    arguments = wire.account_arguments(account)

    assert arguments[:6] == [1, 40, 60, 900, 60, len(account.record)]
    assert arguments[6:8] == ["hold", made.id]
    assert arguments[-2:] == ["source_reported", 1]
    plain = account_of(made, used(40, 60), keeps_record=False)
    assert wire.account_arguments(plain) == [1, 40, 60, 0, 0, 0, 0]


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
             "input": "2", "output": "3"},
            Holding(State.SETTLED, 9, 1, Amounts(1, 2, 3)),
        ),
        (
            {"state": "cancelled", "until": "9", "started": "1", "recorded": "1"},
            Holding(State.CANCELLED, 9, 1, recorded={}),
        ),
        (
            {"state": "held", "until": "9", "started": "1", "requests": "1",
             "input": "40", "output": "60", "progress": "5", "claimed": "1",
             "model": "m", "labels": "1-2-3\x1facme\x1f", "recorded": "1", "i:exchanges": "1",
             "t:10": "concurrency 0 3 1 b c", "t:9": "tokens_per_minute 60 100 45 a",
             "answer": ""},
            Holding(
                State.HELD, 9, 1, Amounts(1, 40, 60),
                (Taken("a", Axis.TOKENS, 60, 100, 45),
                 Taken("b c", Axis.CONCURRENCY, 0, 3, 1)),
                5, True, "m", LABELS, {"exchanges": 1},
            ),
        ),
    ],
)  # fmt: skip
def test_a_hold_is_read(fields: dict[str, str], expected: Holding) -> None:
    """
    What a tombstone does not have is nothing; limits come in their order.
    """
    assert wire.holding_of(fields) == expected
