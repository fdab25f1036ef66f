"""The verbs as dialogues: what is asked, what is answered, what is left."""

from dataclasses import replace

import pytest

from tests.ledger.builders import (
    START_MS,
    budget,
    concurrency,
    hold,
    requests,
    tokens,
    turns,
    used,
)
from tokenweir.core.bucket import MAX_TOKENS
from tokenweir.core.budget import Spending
from tokenweir.core.hold import (
    Amounts,
    Denied,
    Granted,
    Hold,
    Limit,
    LimitState,
    Settlement,
    Stale,
)
from tokenweir.core.holding import (
    HOLD_MS,
    REAPED_PER_CALL,
    REPLAY_MS,
    TOMBSTONE_MS,
    Account,
    Share,
    State,
    account_of,
    share_of,
)
from tokenweir.core.partition import user_code
from tokenweir.core.policy import Axis
from tokenweir.core.record import LABELS
from tokenweir.core.record_book import MAX_RECORDS
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.tag import Tag

TPM = tokens(150, 60)
KEY = "tpm|tokens_per_minute|tenant=acme"
LATER = START_MS + HOLD_MS


def share(made: Hold) -> Share:
    """What a hold of one tag says."""
    return share_of(made, made.parts[0], keeps_record=True)


class Ledger:
    """A tag with a clock, so that a dialogue reads in one line each."""

    def __init__(self) -> None:
        self.tag = Tag()
        self.now_ms = START_MS

    def reserve(self, made: Hold) -> Granted | Denied | Stale | None:
        """Reserve now."""
        return self.tag.reserve(share(made), self.now_ms)

    def extend(self, made: Hold, output_tokens: int = 0) -> State | None:
        """Extend now."""
        return self.tag.extend(share(made), output_tokens, self.now_ms)

    def settle(self, made: Hold, settlement: Settlement) -> State | None:
        """Settle now."""
        account = account_of(made, settlement, keeps_record=True)
        return self.tag.settle(share(made), account, self.now_ms)

    def cancel(self, made: Hold, *, unclaimed_only: bool = False) -> State | None:
        """Cancel now."""
        return self.tag.cancel(made.id, self.now_ms, unclaimed_only=unclaimed_only)

    def left(self, key: str = KEY) -> int:
        """Tokens that are left, debt included, without what was earned since."""
        return self.tag.levels.buckets[key].level_units // 60_000

    def reserved(self, key: str = KEY) -> int:
        """Tokens that are in flight."""
        return self.tag.levels.buckets[key].reserved

    @property
    def records(self) -> list[tuple[str, str, str, str]]:
        """Outcome, input, output and correction of every record."""
        return [
            (
                record["outcome"],
                record["input_tokens"],
                record["output_tokens"],
                record["correction"],
            )
            for record in self.tag.book.records
        ]

    def rolled_up(self) -> dict[str, int]:
        """The sums of the only hour and group that there is; those by user are equal."""
        (sums,) = self.tag.book.rollups.values()
        (of_users,) = self.tag.book.user_rollups.values()
        code = user_code("acme", "ann")
        assert {
            name.replace(f"{code}\x1f", ""): figure for name, figure in of_users.items()
        } == sums
        prefix = "acme\x1facme-ci\x1fgpt-4o\x1fopenai\x1fchat_completions\x1f"
        assert all(name.startswith(prefix) for name in sums)
        return {name.removeprefix(prefix): n for name, n in sums.items() if n}


@pytest.fixture
def ledger() -> Ledger:
    """A tag that nobody has used."""
    return Ledger()


def test_a_reserve_takes_the_worst_case(ledger: Ledger) -> None:
    """
    It is granted with how every limit stands, and the epoch for ids to come.
    """
    limits = (TPM, requests(2), concurrency(3))
    answer = ledger.reserve(hold(1, *limits))

    assert answer == Granted(
        str(START_MS),
        (
            LimitState(TPM, 50, 100_000),
            LimitState(requests(2), 1, 30_000),
            LimitState(concurrency(3), 2, 1_000),
        ),
    )
    assert (ledger.left(), ledger.reserved()) == (50, 100)


def test_a_refusal_changes_nothing_and_names_every_failure(ledger: Ledger) -> None:
    """
    Refused requests cost nothing, however many there are (L04).
    """
    limits = (TPM, requests(2), concurrency(1))
    ledger.reserve(hold(1, *limits))
    levels = ledger.tag.levels.buckets.copy()
    for number in range(2, 22):
        answer = ledger.reserve(hold(number, *limits))
        assert answer == Denied(
            str(START_MS),
            (
                QuotaFailure(
                    "tpm", TPM.axis, "tenant=acme", 150, 0, 100, 100, 50_000, rate=60
                ),
                QuotaFailure("slots", limits[2].axis, "tenant=acme", 1, 0, 1, 1, 1_000),
            ),
        )

    assert ledger.tag.levels.buckets == levels
    assert list(ledger.tag.holdings) == [hold(1).id]
    fits = ledger.reserve(hold(22, TPM, amounts=Amounts(1, 0, 50)))
    assert isinstance(fits, Granted)


def test_a_refusal_believes_a_clock_that_stepped_back(ledger: Ledger) -> None:
    """
    The wait that was told is true by the clock that it was told by (L18).
    """
    ledger.reserve(hold(1, TPM))
    ledger.now_ms -= 3_600_000
    refused = ledger.reserve(hold(2, TPM))
    assert isinstance(refused, Denied)
    ledger.now_ms += refused.failures[0].wait_ms

    assert isinstance(ledger.reserve(hold(2, TPM)), Granted)


def test_shadow_limits_refuse_nobody(ledger: Ledger) -> None:
    """
    One that would have refused is reported and left out; any other is taken from.
    """
    small, large = tokens(99, quota="small", shadow=True), replace(TPM, shadow=True)
    answer = ledger.reserve(hold(1, small, large))

    assert isinstance(answer, Granted)
    assert [state.limit for state in answer.states] == [large]
    assert [(why.quota, why.shadow) for why in answer.shadowed] == [("small", True)]
    assert list(ledger.tag.levels.buckets) == [KEY]
    ledger.settle(hold(1, small, large), used(10, 10))
    assert list(ledger.tag.levels.buckets) == [KEY]


def test_a_denial_reports_shadow_limits_too(ledger: Ledger) -> None:
    """
    Enforced and shadow failures are told apart.
    """
    answer = ledger.reserve(hold(1, tokens(9), tokens(9, quota="small", shadow=True)))

    assert isinstance(answer, Denied)
    assert [why.quota for why in answer.failures] == ["tpm"]
    assert [why.quota for why in answer.shadowed] == ["small"]


def test_a_repeated_reserve_gets_the_same_answer(ledger: Ledger) -> None:
    """
    A reserve whose answer was lost is counted once (L14).
    """
    first = ledger.reserve(hold(1, TPM))
    ledger.now_ms += 10_000

    assert ledger.reserve(hold(1, TPM)) == first
    assert ledger.reserved() == 100


def test_a_settle_replaces_the_worst_case(ledger: Ledger) -> None:
    """
    Afterwards the levels are debited by what was used; attempts, tokens and slots.
    """
    limits = (TPM, requests(5), concurrency(3))
    ledger.reserve(hold(1, *limits))

    assert ledger.settle(hold(1, *limits), used(30, 20, attempts=3)) is State.HELD
    assert (ledger.left(), ledger.reserved()) == (100, 0)
    assert (
        ledger.left("rpm|requests_per_minute|tenant=acme"),
        ledger.reserved("rpm|requests_per_minute|tenant=acme"),
    ) == (
        2,
        0,
    )
    assert ledger.tag.levels.slots["slots|concurrency|tenant=acme"].until_ms == {}
    assert ledger.records == [("completed", "30", "20", "0")]
    assert ledger.rolled_up() == {
        "exchanges": 1,
        "with_user": 1,
        "requests": 3,
        "input_tokens": 30,
        "output_tokens": 20,
        "outcome_completed": 1,
        "source_reported": 1,
    }
    assert ledger.tag.expiries == {}


def test_a_settle_may_leave_a_debt(ledger: Ledger) -> None:
    """
    What was used beyond the worst case is gone; zero is zero (L20).
    """
    ledger.reserve(hold(1, TPM))
    ledger.settle(hold(1, TPM), used(30, 200))
    assert ledger.left() == -80
    ledger.reserve(hold(2, TPM, amounts=Amounts(1, 0, 0)))
    ledger.settle(hold(2, TPM), used(0, 0))

    assert ledger.left() == -80


def test_a_settle_counts_once(ledger: Ledger) -> None:
    """
    Repeated, it changes nothing, as long as anybody may repeat it.
    """
    ledger.reserve(hold(1, TPM))
    ledger.settle(hold(1, TPM), used(30, 20))
    ledger.now_ms += TOMBSTONE_MS - 1
    levels = ledger.tag.levels.buckets.copy()

    assert ledger.settle(hold(1, TPM), used(30, 20)) is State.SETTLED
    assert ledger.extend(hold(1, TPM), 900) is State.SETTLED
    assert ledger.cancel(hold(1, TPM)) is State.SETTLED
    assert ledger.reserve(hold(1, TPM)) is None
    assert (ledger.tag.levels.buckets, len(ledger.records)) == (levels, 1)


def test_a_settle_of_different_limits_goes_by_name(ledger: Ledger) -> None:
    """
    Whatever the order, each limit is settled by its own figure (L24).
    """
    limits = [tokens(1_000 * n, 60, quota=f"q{n}") for n in range(1, 6)]
    ledger.reserve(hold(1, *limits))
    ledger.settle(hold(1, *reversed(limits)), used(30, 20))

    assert [
        ledger.left(f"q{n}|tokens_per_minute|tenant=acme") for n in range(1, 6)
    ] == [
        950,
        1_950,
        2_950,
        3_950,
        4_950,
    ]


def test_a_cancel_gives_everything_back(ledger: Ledger) -> None:
    """
    Nothing was forwarded: nothing is charged, and nothing is recorded.
    """
    limits = (TPM, requests(5), concurrency(1))
    ledger.reserve(hold(1, *limits))

    assert ledger.cancel(hold(1)) is State.HELD
    assert (ledger.left(), ledger.left("rpm|requests_per_minute|tenant=acme")) == (
        150,
        5,
    )
    assert isinstance(ledger.reserve(hold(2, *limits)), Granted)
    assert (ledger.records, ledger.tag.book.rollups) == ([], {})
    assert ledger.cancel(hold(1)) is State.CANCELLED


def test_a_cancel_that_comes_first_refuses_the_reserve(ledger: Ledger) -> None:
    """
    A reserve that nobody waits for any more takes nothing.
    """
    assert ledger.cancel(hold(1)) is None
    assert ledger.reserve(hold(1, TPM)) is None
    assert ledger.tag.levels.buckets == {}


def test_a_claimed_hold_is_not_cancelled_for_want_of_a_claim(ledger: Ledger) -> None:
    """
    Once it was extended, only a plain cancel gives it back.
    """
    ledger.reserve(hold(1, TPM))
    ledger.reserve(hold(2, tokens(150, quota="other")))
    ledger.extend(hold(1, TPM))
    assert ledger.cancel(hold(1), unclaimed_only=True) is State.CLAIMED
    assert ledger.cancel(hold(2), unclaimed_only=True) is State.HELD

    assert (
        ledger.reserved(),
        ledger.reserved("other|tokens_per_minute|tenant=acme"),
    ) == (100, 0)
    ledger.cancel(hold(1))
    assert ledger.reserved() == 0


def test_a_wrong_cancel_is_made_good_by_the_settle(ledger: Ledger) -> None:
    """
    If it was forwarded after all, the real usage is charged and recorded.
    """
    ledger.reserve(hold(1, TPM))
    ledger.cancel(hold(1), unclaimed_only=True)

    assert ledger.settle(hold(1, TPM), used(30, 20)) is State.CANCELLED
    assert (ledger.left(), ledger.reserved()) == (100, 0)
    assert ledger.records == [("completed", "30", "20", "0")]


def test_a_wrong_cancel_is_made_good_by_an_extend(ledger: Ledger) -> None:
    """
    An exchange that lives gets its hold back, as debt if need be, slot included.
    """
    limits = (TPM, concurrency(1))
    ledger.reserve(hold(1, *limits))
    ledger.cancel(hold(1), unclaimed_only=True)
    ledger.reserve(hold(2, *limits))

    assert ledger.extend(hold(1, *limits), 5) is State.CANCELLED
    assert (ledger.left(), ledger.reserved()) == (-50, 200)
    assert len(ledger.tag.levels.slots["slots|concurrency|tenant=acme"].until_ms) == 2


def test_an_extend_renews(ledger: Ledger) -> None:
    """
    An exchange that goes on for minutes is not taken for dead.
    """
    ledger.reserve(hold(1, TPM, concurrency(1)))
    for _ in range(10):
        ledger.now_ms += HOLD_MS - 1
        assert ledger.extend(hold(1, TPM, concurrency(1)), 1) is State.HELD

    assert isinstance(ledger.reserve(hold(2, concurrency(1))), Denied)


def test_progress_beyond_the_worst_case_is_debited_at_once(ledger: Ledger) -> None:
    """
    The next caller feels it before the exchange has ended; less takes nothing back.
    """
    ledger.reserve(hold(1, TPM))
    ledger.extend(hold(1, TPM), 60)
    assert (ledger.left(), ledger.reserved()) == (50, 100)
    ledger.extend(hold(1, TPM), 130)
    assert (ledger.left(), ledger.reserved()) == (-20, 170)
    ledger.extend(hold(1, TPM), 90)
    assert (ledger.left(), ledger.reserved()) == (-20, 170)
    ledger.settle(hold(1, TPM), used(40, 130))

    assert (ledger.left(), ledger.reserved()) == (-20, 0)


def test_absurd_progress_is_bounded(ledger: Ledger) -> None:
    """
    No figure of a provider leaves the exact range.
    """
    ledger.reserve(hold(1, TPM))
    ledger.extend(hold(1, TPM), 10**30)

    assert ledger.reserved() == 40 + MAX_TOKENS


def test_an_expired_hold_is_lost(ledger: Ledger) -> None:
    """
    It is charged its input and its progress, recorded, and flagged (L06).
    """
    limits = (TPM, concurrency(1))
    ledger.reserve(hold(1, *limits))
    ledger.now_ms += 1_000
    ledger.extend(hold(1, *limits), 25)
    ledger.now_ms += HOLD_MS
    assert isinstance(ledger.reserve(hold(2, requests(2), concurrency(1))), Granted)

    # 50 were left; 35 of the reserved output come back, 31 s earned 31 tokens.
    assert (ledger.left(), ledger.reserved()) == (50 + 31 + 35, 0)
    assert ledger.records == [("lost", "40", "25", "0")]
    assert ledger.tag.book.records[0]["duration_ms"] == "31000"
    assert ledger.tag.book.records[0]["reserved_at_ms"] == str(START_MS)
    assert ledger.rolled_up()["outcome_lost"] == 1
    assert ledger.reserve(hold(1, *limits)) is None


def test_a_lost_hold_is_charged_what_its_model_can_have_made(ledger: Ledger) -> None:
    """
    The output rate of a model is learned from exchanges that were completed.
    """
    ledger.reserve(hold(1, TPM))
    ledger.settle(hold(1, TPM), used(10, 40, duration_ms=40_000))
    assert ledger.tag.rates == {"gpt-4o": 1_000}
    ledger.reserve(hold(2, TPM))
    assert ledger.tag.reap(LATER, 9) == 1

    assert ledger.records[-1] == ("lost", "40", "30", "0")


def test_a_settle_corrects_the_reaper(ledger: Ledger) -> None:
    """
    The second record replaces the first, and sums are those of the truth.
    """
    ledger.reserve(hold(1, TPM))
    ledger.tag.reap(LATER, 9)
    ledger.now_ms = LATER
    # 50 were left; the reserved output comes back, 30 s earned 30 tokens.
    assert ledger.left() == 50 + 60 + 30

    assert ledger.settle(hold(1, TPM), used(44, 66)) is State.LOST
    assert ledger.left() == 140 - 4 - 66
    assert ledger.records == [("lost", "40", "0", "0"), ("completed", "44", "66", "1")]
    assert ledger.rolled_up() == {
        "exchanges": 1,
        "with_user": 1,
        "requests": 1,
        "input_tokens": 44,
        "output_tokens": 66,
        "outcome_completed": 1,
        "source_reported": 1,
    }
    assert ledger.settle(hold(1, TPM), used(44, 66)) is State.SETTLED


def test_an_extend_brings_a_lost_hold_back(ledger: Ledger) -> None:
    """
    Its slot too, and if it is lost again, or settled, that is one more correction.
    """
    limits = (TPM, concurrency(1))
    ledger.reserve(hold(1, *limits))
    ledger.tag.reap(LATER, 9)
    ledger.now_ms = LATER

    assert ledger.extend(hold(1, *limits), 70) is State.LOST
    assert ledger.reserved() == 110
    assert isinstance(ledger.reserve(hold(2, concurrency(1))), Denied)
    assert ledger.tag.reap(LATER + HOLD_MS, 9) == 1
    ledger.settle(hold(1, *limits), used(40, 80))
    assert ledger.records == [
        ("lost", "40", "0", "0"),
        ("lost", "40", "70", "1"),
        ("completed", "40", "80", "1"),
    ]
    assert ledger.rolled_up()["output_tokens"] == 80
    assert ledger.rolled_up()["exchanges"] == 1


def test_a_cancel_takes_the_reapers_record_back(ledger: Ledger) -> None:
    """
    Nothing was forwarded, so a lost hold that is cancelled was never lost.
    """
    ledger.reserve(hold(1, TPM))
    ledger.tag.reap(LATER, 9)
    ledger.now_ms = LATER

    assert ledger.cancel(hold(1)) is State.LOST
    assert ledger.left() == 150
    assert ledger.records[-1] == ("lost", "0", "0", "1")
    assert ledger.tag.book.records[-1]["flags"] == "cancelled"
    assert ledger.rolled_up() == {}
    ledger.settle(hold(1, TPM), used(10, 10))
    assert ledger.records[-1] == ("completed", "10", "10", "1")
    assert ledger.rolled_up()["input_tokens"] == 10


def test_at_most_so_many_are_reaped_a_call(ledger: Ledger) -> None:
    """
    Nobody who comes after a crash waits until all of it is cleared away.
    """
    many = tokens(100_000)
    for number in range(REAPED_PER_CALL + 5):
        ledger.reserve(hold(number, many))
    ledger.now_ms = LATER
    ledger.reserve(hold(99, many))

    assert len(ledger.tag.expiries) == 5 + 1
    assert ledger.tag.reap(LATER, 2) == 2
    assert ledger.tag.reap(LATER, 9) == 3
    assert ledger.tag.reap(LATER, 9) == 0
    assert ledger.tag.reaped == REAPED_PER_CALL + 5


def test_a_share_without_labels_keeps_no_record(ledger: Ledger) -> None:
    """
    Of a hold under several tags there is one record, not one for each tag.
    """
    silent = share_of(hold(1, TPM), hold(1, TPM).parts[0], keeps_record=False)
    ledger.tag.reserve(silent, START_MS)
    ledger.tag.reap(LATER, 9)
    account = account_of(hold(1, TPM), used(1, 1), keeps_record=False)
    ledger.tag.settle(silent, account, LATER)

    assert (ledger.records, ledger.tag.book.rollups) == ([], {})


def test_unknown_holds_of_another_epoch_are_charged(ledger: Ledger) -> None:
    """
    After a flush the real usage is all that is known, and all that is charged.
    """
    old = hold(1, TPM, concurrency(1), made_ms=START_MS - REPLAY_MS - 1)

    assert ledger.extend(old, 10) is None
    assert ledger.reserved() == 100
    assert ledger.settle(old, used(30, 20)) is State.HELD
    assert ledger.left() == 100
    assert ledger.tag.book.records[0]["reserved_at_ms"] == str(START_MS - REPLAY_MS - 1)


@pytest.mark.parametrize(("age_ms", "charged"), [(REPLAY_MS, 50), (REPLAY_MS + 1, 0)])
def test_unknown_holds_of_this_epoch(ledger: Ledger, age_ms: int, charged: int) -> None:
    """
    A young one was never settled and is charged; an old one is recorded only.
    """
    ledger.reserve(hold(1, TPM, amounts=Amounts(0, 0, 0)))
    made_ms = START_MS + REPLAY_MS
    ledger.now_ms = made_ms + age_ms
    late = hold(2, TPM, epoch=str(START_MS), made_ms=made_ms)

    assert ledger.settle(late, used(30, 20)) is None
    assert ledger.left() == 150 - charged
    assert ledger.records[-1] == ("completed", "30", "20", "0")
    assert ledger.settle(late, used(30, 20)) is State.SETTLED


def test_an_extend_of_a_forgotten_hold_does_nothing(ledger: Ledger) -> None:
    """
    It may have been settled long ago.
    """
    ledger.reserve(hold(1, TPM))
    ledger.cancel(hold(1))
    late = hold(2, TPM, epoch=str(START_MS))
    ledger.now_ms += REPLAY_MS + 1

    assert ledger.extend(late, 9) is None
    assert late.id not in ledger.tag.holdings


def test_a_cancel_of_an_unknown_hold_remembers_when_it_was_made(
    ledger: Ledger,
) -> None:
    """
    A settle that follows books into the hour of the reserve.
    """
    early = hold(1, TPM, made_ms=START_MS - 3_600_000)
    ledger.cancel(early)
    ledger.settle(early, used(1, 1))

    assert list(ledger.tag.book.rollups) == [(START_MS - 3_600_000) // 3_600_000]


def test_tombstones_are_forgotten(ledger: Ledger) -> None:
    """
    When nobody can repeat it any more, what has ended leaves nothing behind.
    """
    ledger.reserve(hold(1, TPM))
    ledger.settle(hold(1, TPM), used(0, 0))
    ledger.reserve(hold(2, TPM))
    ledger.tag.forget(START_MS + TOMBSTONE_MS - 1)
    assert set(ledger.tag.holdings) == {hold(1).id, hold(2).id}
    ledger.tag.forget(START_MS + 10 * TOMBSTONE_MS)
    assert set(ledger.tag.holdings) == {hold(2).id}
    ledger.tag.forget(START_MS + 10**9)

    assert set(ledger.tag.levels.buckets) == {KEY}


def test_the_epoch_is_when_the_tag_was_first_used(ledger: Ledger) -> None:
    """
    A flushed tag begins a later one: it is later than what any hold has seen.
    """
    ledger.reserve(hold(1, TPM))
    ledger.now_ms += 5
    answer = ledger.reserve(hold(2, tokens(1)))
    again = Ledger()
    again.now_ms += 5
    later = again.reserve(hold(3, TPM))

    assert answer is not None
    assert later is not None
    assert int(answer.epoch) == START_MS
    assert int(later.epoch) > int(answer.epoch)


def test_records_are_bounded(ledger: Ledger) -> None:
    """
    The reference keeps the newest records, not all that there ever were.
    """
    for number in range(MAX_RECORDS + 1):
        ledger.settle(hold(number), used(1, 1))

    assert len(ledger.records) == MAX_RECORDS
    assert ledger.tag.book.records[0]["hold"] == hold(1).id


def test_a_hold_without_limits_is_a_hold(ledger: Ledger) -> None:
    """
    A tenant without quotas is accounted for all the same.
    """
    nothing: tuple[Limit, ...] = ()
    answer = ledger.reserve(hold(1, *nothing))

    assert answer == Granted(str(START_MS))
    assert ledger.reserve(hold(1)) == answer
    ledger.settle(hold(1), used(30, 20))
    assert ledger.records == [("completed", "30", "20", "0")]


# === budgets ======================================================================

BUDGET = budget(1_000)
TODAY = turns()[1]
COSTLY = Amounts(1, 40, 60, 400)


def spending(ledger: Ledger, start_ms: int = TODAY) -> Spending:
    """What became of the budget in a window."""
    return ledger.tag.levels.spendings["budget|budget_usd|tenant=acme", start_ms]


def costly(number: int, *limits: Limit, price: int = 5) -> Hold:
    """A hold of 400 nano-USD, at so much an output token."""
    made = hold(number, *limits, amounts=COSTLY)
    return replace(made, output_nanousd=price)


def test_worst_cases_of_calls_in_flight_fit_together(ledger: Ledger) -> None:
    """
    A budget is never passed by calls that run at the same time (B12).
    """
    answers = [ledger.reserve(costly(number, BUDGET)) for number in range(5)]

    assert [type(answer) for answer in answers] == [Granted] * 2 + [Denied] * 3
    assert spending(ledger).reserved == 800
    ledger.settle(costly(0, BUDGET), replace(used(40, 10), cost_nanousd=150))
    assert isinstance(ledger.reserve(costly(9, BUDGET)), Granted)
    assert (spending(ledger).spent, spending(ledger).reserved) == (150, 800)


def test_windows_of_another_time_are_stale(ledger: Ledger) -> None:
    """
    The ledger's clock decides in which window a call is; it says what it reads.
    """
    later = replace(BUDGET, turns=turns(START_MS + 5 * 86_400_000))

    assert ledger.reserve(costly(1, TPM, later)) == Stale(str(START_MS), START_MS)
    assert ledger.tag.holdings == {}
    assert isinstance(ledger.reserve(costly(1, TPM, BUDGET)), Granted)


def test_a_settle_books_into_the_window_of_its_reserve(ledger: Ledger) -> None:
    """
    An answer that ends after midnight is yesterday's cost.
    """
    ledger.reserve(costly(1, BUDGET))
    ledger.now_ms = turns()[2] + 5
    ledger.settle(costly(1, BUDGET), replace(used(40, 10), cost_nanousd=150))

    assert spending(ledger) == Spending(turns()[2], 150, 0)
    assert len(ledger.tag.levels.spendings) == 1


def test_shadow_budgets_count_what_they_would_have_refused(ledger: Ledger) -> None:
    """
    They are there to tell what is spent, also above their capacity.
    """
    shadow = replace(BUDGET, capacity=300, shadow=True)
    answer = ledger.reserve(costly(1, shadow))

    assert isinstance(answer, Granted)
    assert [why.quota for why in answer.shadowed] == ["budget"]
    assert [state.remaining for state in answer.states] == [0]
    assert spending(ledger).reserved == 400


def test_a_lost_exchange_costs_what_it_can_have_made(ledger: Ledger) -> None:
    """
    Its reserved cost less the output that it can't have had.
    """
    ledger.reserve(costly(1, BUDGET))
    ledger.extend(costly(1, BUDGET), 20)
    ledger.tag.reap(LATER, 9)

    assert (spending(ledger).spent, spending(ledger).reserved) == (400 - 40 * 5, 0)
    assert ledger.tag.book.records[-1]["cost_nanousd"] == "200"
    assert ledger.rolled_up()["cost_nanousd"] == 200
    ledger.settle(costly(1, BUDGET), replace(used(40, 10), cost_nanousd=150))
    assert spending(ledger).spent == 150
    assert ledger.rolled_up()["cost_nanousd"] == 150


def test_progress_beyond_the_worst_case_costs_at_once(ledger: Ledger) -> None:
    """
    The next caller feels it before the exchange has ended.
    """
    ledger.reserve(costly(1, BUDGET))
    ledger.extend(costly(1, BUDGET), 160)

    assert spending(ledger).reserved == 400 + 100 * 5


def test_thresholds_are_told_once(ledger: Ledger) -> None:
    """
    By whatever verb made the spending pass them.
    """
    ledger.reserve(costly(1, BUDGET))
    ledger.settle(costly(1, BUDGET), replace(used(40, 10), cost_nanousd=820))
    told = ledger.tag.crossings()

    assert [(each.percent, each.spent) for each in told] == [(80, 820)]
    assert ledger.tag.crossings() == ()


def test_who_names_no_user_is_in_no_sum_by_user(ledger: Ledger) -> None:
    """
    Such an exchange is summed once only.
    """
    made = hold(1)
    made = replace(made, subject=replace(made.subject, user=""))
    ledger.settle(made, used(30, 0))

    assert len(ledger.tag.book.rollups) == 1
    assert ledger.tag.book.user_rollups == {}


LEASED = (
    Limit("tpm", Axis.TOKENS, "tenant=acme", 1, 10_000),
    Limit("slots", Axis.CONCURRENCY, "tenant=acme", 0, 50),
)
EACH = Amounts(1, 40, 60)
LABELLED = dict.fromkeys(LABELS, "-") | dict.fromkeys(
    ("user", "downgraded_from", "capped_from"), ""
)


def leasing() -> Tag:
    """A tag with a lease for four exchanges."""
    tag = Tag()
    four = Amounts(4, 160, 240)
    tag.reserve(Share("0-1-lease", LEASED, four, "m", LABELLED, slots=4), START_MS)
    return tag


def part_of_lease(number: int) -> Share:
    """An exchange that was admitted out of it."""
    return Share(f"0-1-{number}", LEASED, EACH, "m", lease="0-1-lease")


def lease_in(tag: Tag) -> tuple[int, int] | None:
    """For how many exchanges it is still, and how many tokens; None: it is gone."""
    lease = tag.holdings.get("0-1-lease")
    return None if lease is None else (lease.slots, lease.taken[0].taken)


def test_an_exchange_is_taken_out_of_its_lease() -> None:
    """
    By the first verb that is about it, and once; the last one leaves nothing.
    """
    tag = leasing()
    tag.extend(part_of_lease(1), 5, START_MS)
    tag.extend(part_of_lease(1), 6, START_MS)
    assert lease_in(tag) == (3, 300)
    tag.cancel("0-1-2", START_MS, share=part_of_lease(2))
    tag.cancel("0-1-2", START_MS, share=part_of_lease(2))
    assert lease_in(tag) == (2, 200)
    account = Account(Amounts(1, 10, 10), 0, 0)
    for number in (3, 4, 5):
        tag.settle(part_of_lease(number), account, START_MS)

    assert lease_in(tag) is None
    [bucket] = tag.levels.buckets.values()
    assert (bucket.reserved, bucket.remaining) == (100, 10_000 - 100 - 3 * 20)


def test_the_rest_of_a_lease_is_given_back_once() -> None:
    """
    Said again, it changes nothing; nor does it of a lease that nobody knows.
    """
    tag = leasing()
    for _ in range(2):
        was = tag.give_back("0-1-lease", Amounts(3, 120, 180), 3, START_MS)
        assert was is State.HELD
    assert lease_in(tag) == (1, 100)

    assert tag.give_back("0-1-other", EACH, 1, START_MS) is None


def test_a_lost_lease_is_charged_whole_and_corrected() -> None:
    """
    What settles late takes its part of the charge, and what is given back all of it.
    """
    tag = leasing()
    tag.reap(START_MS + 40_000, 20)
    [bucket] = tag.levels.buckets.values()
    assert (bucket.reserved, bucket.used) == (0, 400)
    account = Account(Amounts(1, 10, 10), 0, 0)
    tag.settle(part_of_lease(1), account, START_MS + 40_000)
    assert lease_in(tag) == (3, 300)
    tag.give_back("0-1-lease", Amounts(3, 120, 180), 3, START_MS + 40_000)

    [bucket] = tag.levels.buckets.values()
    assert (bucket.reserved, bucket.used) == (0, 20)
    figures = [(each["output_tokens"], each["flags"]) for each in tag.book.records]
    assert figures == [("240", ""), ("180", ""), ("0", "cancelled")]
    assert not any(sum(figures.values()) for figures in tag.book.rollups.values())
