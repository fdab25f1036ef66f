from dataclasses import replace

from tests.ledger.builders import (
    START_MS,
    WORST_CASE,
    budget,
    concurrency,
    requests,
    tokens,
    turns,
)
from tokenweir.core.bucket import UNITS_PER_TOKEN, Bucket, full
from tokenweir.core.budget import KEPT_MS, Crossing, Spending
from tokenweir.core.hold import Amounts, Limit, LimitState
from tokenweir.core.holding import Holding, State, untaken
from tokenweir.core.levels import Levels
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.slots import MAX_DURATION_MS, UNKNOWN_WAIT_MS, Slots
from tokenweir.core.window import Window

TPM, RPM, SLOTS = tokens(150, 60), requests(2), concurrency(1)
KEY = "tpm|tokens_per_minute|tenant=acme"
SLOTS_KEY = "slots|concurrency|tenant=acme"
NOTHING = Amounts(0, 0, 0)


def blank(*limits: Limit) -> Holding:
    """A hold that has taken nothing."""
    return Holding(State.CANCELLED, taken=untaken(limits, 0))


def take(levels: Levels, *limits: Limit, now_ms: int = 0, name: str = "h") -> Holding:
    """Take the worst case from all *limits*."""
    before = blank(*limits)
    taken = levels.move(name, before, WORST_CASE, now_ms + 30_000, now_ms)
    return replace(before, state=State.HELD, taken=taken)


def test_a_bucket_fails_with_its_figures() -> None:
    """
    A refusal tells what is used, reserved and asked for, and the true wait.
    """
    levels = Levels()
    take(levels, TPM)

    assert levels.failure(TPM, WORST_CASE, 0) == QuotaFailure(
        "tpm", TPM.axis, "tenant=acme", 150, 0, 100, 100, 50_000, rate=TPM.rate
    )
    assert levels.failure(TPM, WORST_CASE, 49_999) is not None
    assert levels.failure(TPM, WORST_CASE, 50_000) is None


def test_slots_fail_with_an_estimate() -> None:
    """
    Who finds no slot is told how many are held, and how long one takes to get free.
    """
    levels = Levels()
    take(levels, SLOTS)

    assert levels.failure(SLOTS, WORST_CASE, 0) == QuotaFailure(
        "slots", SLOTS.axis, "tenant=acme", 1, 0, 1, 1, UNKNOWN_WAIT_MS
    )
    assert levels.failure(SLOTS, WORST_CASE, 30_000) is None


def told(levels: Levels, limit: Limit, now_ms: int = 0) -> tuple[int, int]:
    """Refuse a caller; return its wait, and what it is told."""
    failure = levels.failure(limit, WORST_CASE, now_ms)
    assert failure is not None
    failure = levels.staggered(limit, failure, now_ms)
    return failure.wait_ms, failure.return_ms


def test_refused_callers_are_told_moments_apart() -> None:
    """
    As far apart as a request takes to be earned; of slots, as one takes to get free.
    """
    levels = Levels()
    bucket, slots = (replace(limit, staggered=True) for limit in (TPM, SLOTS))
    take(levels, bucket, slots)

    assert [told(levels, bucket) for _ in "ab"] == [(50_000, 50_000)] * 2
    assert [told(levels, slots) for _ in "abc"] == [
        (1_000, 1_000),
        (1_000, 1_200),
        (1_000, 1_400),
    ]
    levels.slots[SLOTS_KEY].learn(5_000)
    assert [told(levels, slots, 1_400) for _ in "ab"] == [
        (5_000, 5_000),
        (5_000, 10_000),
    ]


def test_queues_have_moments_of_their_own() -> None:
    """
    Where tenants share a limit, one's refusals, however large, put off its own only.
    """
    levels = Levels()
    slots = replace(SLOTS, staggered=True)
    loud, quiet = (replace(slots, queue=name) for name in ("loud", "quiet"))
    take(levels, loud)

    assert [told(levels, loud)[1] for _ in "abc"] == [1_000, 1_200, 1_400]
    assert told(levels, quiet) == (1_000, 1_000)
    assert told(levels, loud) == (1_000, 1_600)


def test_only_limits_that_say_so_stagger() -> None:
    """
    Others have no cursor, and neither has a budget: its callers come when it turns.
    """
    levels = Levels()
    take(levels, SLOTS)
    spent = replace(BUDGET, staggered=True)
    failure = levels.failure(SLOTS, WORST_CASE, 0)
    assert failure is not None

    assert levels.staggered(SLOTS, failure, 0) == failure
    assert levels.staggered(spent, failure, 0) == failure
    assert levels.cursors == {}


def test_cursors_are_forgotten_when_they_have_passed() -> None:
    """
    A moment that lies behind means nothing.
    """
    levels = Levels(cursors={"a": 7, "b": 8})
    levels.forget(7)

    assert levels.cursors == {"b": 8}


def test_a_failure_tells_if_it_is_enforced() -> None:
    """
    Limits in shadow mode fail like any other, and say that they are only reported.
    """
    failure = Levels().failure(tokens(99, shadow=True), WORST_CASE, 0)

    assert failure is not None
    assert failure.shadow


def test_a_state_tells_what_is_left() -> None:
    """
    Of a bucket: whole tokens, and the time to full. Of slots: the free ones.
    """
    levels = Levels()
    take(levels, TPM, concurrency(3))
    levels.slots[SLOTS_KEY].learn(4_000)

    bucket = levels.state(TPM, 1_500)
    slots = levels.state(concurrency(3), 1_500)
    assert (bucket.limit, bucket.remaining, bucket.reset_ms) == (TPM, 51, 98_500)
    assert (slots.remaining, slots.reset_ms) == (2, 4_000)


def test_slots_beyond_the_limit_leave_none() -> None:
    """
    After the limit was lowered nothing is left, not less than nothing.
    """
    levels = Levels(slots={SLOTS_KEY: Slots({"a": 9, "b": 9})})

    assert levels.state(SLOTS, 0).remaining == 0


def test_all_axes_are_debited_by_their_own_amounts() -> None:
    """
    Each limit takes what it counts, and gives the same back.
    """
    levels = Levels()
    held = take(levels, TPM, RPM, SLOTS)

    assert {key: stored.reserved for key, stored in levels.buckets.items()} == {
        KEY: 100,
        "rpm|requests_per_minute|tenant=acme": 1,
    }
    assert levels.slots[SLOTS_KEY].until_ms == {"h": 30_000}
    levels.move("h", held, NOTHING, None, 0)
    assert levels.buckets == {
        KEY: full(60, 150, 0),
        "rpm|requests_per_minute|tenant=acme": full(2, 2, 0),
    }
    assert not levels.slots[SLOTS_KEY]


def test_what_was_lost_counts_as_debited_but_not_as_reserved() -> None:
    """
    A hold that is brought back is debited by the difference, and reserved in full.
    """
    levels = Levels()
    held = take(levels, TPM)
    charged = levels.move("h", held, Amounts(1, 40, 0), None, 0)
    lost = replace(held, state=State.LOST, taken=charged)
    assert (levels.buckets[KEY].remaining, levels.buckets[KEY].reserved) == (110, 0)
    levels.move("h", lost, WORST_CASE, 60_000, 0)

    assert (levels.buckets[KEY].remaining, levels.buckets[KEY].reserved) == (50, 100)


def test_a_move_to_the_same_amounts_touches_no_bucket() -> None:
    """
    Renewing a hold costs no bucket a write.
    """
    levels = Levels()
    held = take(levels, TPM)
    before = levels.buckets[KEY]
    levels.move("h", held, WORST_CASE, 60_000, 10_000)

    assert levels.buckets[KEY] is before


def test_a_changed_policy_takes_hold_at_the_next_reserve() -> None:
    """
    Until then the bucket earned at its old rate; a hold never changes its tuning. What
    was used (100, of which 1 was earned back) stays used.
    """
    levels = Levels()
    take(levels, TPM)
    levels.retune([tokens(1_000, 600), SLOTS], 1_000)

    stored = levels.buckets[KEY]
    assert (stored.level_units, stored.rate, stored.capacity) == (
        901 * UNITS_PER_TOKEN,
        600,
        1_000,
    )
    take(levels, TPM, now_ms=1_000)
    assert (levels.buckets[KEY].rate, levels.buckets[KEY].capacity) == (600, 1_000)


def test_a_refusal_takes_the_word_of_a_clock_that_stepped_back() -> None:
    """
    Else nothing would be earned until the clock has caught up.
    """
    levels = Levels({KEY: Bucket(0, 50_000, 0, 60, 150)})
    levels.rebase([TPM, RPM], 10_000)

    assert levels.buckets == {KEY: Bucket(0, 10_000, 0, 60, 150)}
    levels.rebase([TPM], 20_000)
    assert levels.buckets == {KEY: Bucket(0, 10_000, 0, 60, 150)}


def test_a_refusal_takes_the_word_of_a_changed_policy() -> None:
    """
    Else an exhausted bucket would earn at its old rate, and every wait be too short.
    """
    levels = Levels({KEY: Bucket(0, 0, 0, 60, 150)})
    faster, one = tokens(150, 6_000), Amounts(1, 1, 0)
    told = levels.failure(faster, one, 0)

    assert told is not None
    assert told.wait_ms == 10
    levels.rebase([faster, SLOTS], 0)
    assert levels.failure(faster, one, 9) is not None
    assert levels.failure(faster, one, 10) is None


def test_durations_of_slots_are_learned() -> None:
    """
    Only limits on concurrency learn, and only from exchanges that were timed.
    """
    levels = Levels()
    held = take(levels, TPM, SLOTS)
    levels.learn(held, 0)
    assert levels.slots[SLOTS_KEY].median_ms is None
    levels.learn(held, 800)

    assert levels.slots[SLOTS_KEY].median_ms == 800
    assert list(levels.slots) == [SLOTS_KEY]


def test_buckets_that_are_long_full_are_forgotten() -> None:
    """
    One that is full for a day, with nothing reserved, is as good as unknown.
    """
    idle = MAX_DURATION_MS + 1
    levels = Levels(
        {
            "idle": full(60, 150, 0),
            "held": replace(full(60, 150, 0), reserved=1),
            "owing": Bucket(-60_000, 0, 0, 1, 1),
            "young": full(60, 150, 1),
        }
    )
    levels.forget(idle)

    assert set(levels.buckets) == {"held", "owing", "young"}


# === budgets ======================================================================

BUDGET = budget(1_000)
BUDGET_KEY = "budget|budget_usd|tenant=acme"
TODAY = Window(*turns()[1:3])
COSTLY = Amounts(1, 40, 60, 400)


def spend(levels: Levels, nanousd: int, *limits: Limit) -> None:
    """Take the worst case from *limits*, and settle it to so much."""
    before = blank(*limits)
    before = replace(before, taken=untaken(limits, START_MS))
    taken = levels.move("h", before, COSTLY, START_MS + 30_000, START_MS)
    held = replace(before, state=State.HELD, taken=taken)
    levels.move("h", held, Amounts(1, 40, 9, nanousd), None, START_MS)


def test_a_budget_fails_until_its_window_turns() -> None:
    """
    A refusal tells what is spent, reserved and asked for, and when the window ends.
    """
    spending = Spending(TODAY.end_ms, 500, 101)
    levels = Levels(spendings={(BUDGET_KEY, TODAY.begin_ms): spending})

    assert levels.failure(BUDGET, COSTLY, START_MS) == QuotaFailure(
        *("budget", BUDGET.axis, "tenant=acme"),
        *(1_000, 500, 101, 400, TODAY.end_ms - START_MS),
    )
    assert levels.failure(BUDGET, replace(COSTLY, cost_nanousd=399), START_MS) is None
    assert levels.failure(BUDGET, COSTLY, TODAY.end_ms - 1) is not None
    assert levels.failure(BUDGET, COSTLY, TODAY.end_ms) is None


def test_a_hard_limit_is_what_is_enforced() -> None:
    """
    Shares of a budget that is spent are still those of its capacity.
    """
    levels = Levels()
    relaxed = replace(BUDGET, hard_limit=1_500)
    spend(levels, 1_100, BUDGET)
    assert levels.failure(relaxed, COSTLY, START_MS) is None
    assert levels.state(relaxed, START_MS).remaining == 0
    spend(levels, 1, relaxed)
    refused = levels.failure(relaxed, COSTLY, START_MS)

    assert refused is not None
    assert (refused.capacity, refused.used) == (1_500, 1_101)
    assert [each.percent for each in levels.crossings] == [95]


def test_a_budget_tells_what_is_left() -> None:
    """
    Neither spent nor reserved, until the window turns.
    """
    levels = Levels()
    spend(levels, 150, BUDGET)

    assert levels.state(BUDGET, START_MS) == LimitState(
        BUDGET, 850, TODAY.end_ms - START_MS
    )


def test_a_settle_replaces_the_reserved_cost() -> None:
    """
    What was reserved is given back, and what it really cost is spent.
    """
    levels = Levels()
    spend(levels, 150, BUDGET)
    spend(levels, 0, BUDGET)

    assert levels.spendings == {
        (BUDGET_KEY, TODAY.begin_ms): Spending(TODAY.end_ms, 150, 0)
    }


def test_a_threshold_is_told_once_a_window() -> None:
    """
    Not again when spending sinks by a correction and rises anew.
    """
    levels = Levels()
    for nanousd in (499, 1, 400, 20, 200):
        spend(levels, nanousd, BUDGET)

    assert levels.crossings == [
        Crossing(BUDGET_KEY, 50, 500, 1_000, TODAY),
        Crossing(BUDGET_KEY, 80, 900, 1_000, TODAY),
        Crossing(BUDGET_KEY, 95, 1_120, 1_000, TODAY),
    ]


def test_a_budget_is_not_retuned_nor_rebased() -> None:
    """
    Its capacity is the policy's of each call: the window keeps only what was spent.
    """
    levels = Levels()
    levels.retune([BUDGET], START_MS)
    levels.rebase([BUDGET], START_MS)

    assert (levels.buckets, levels.spendings) == ({}, {})


def test_windows_that_ended_long_ago_are_forgotten() -> None:
    """
    Those of yesterday are kept for settles that come late.
    """
    levels = Levels()
    spend(levels, 1, BUDGET)
    levels.forget(TODAY.end_ms + KEPT_MS - 1)
    assert levels.spendings
    levels.forget(TODAY.end_ms + KEPT_MS)

    assert not levels.spendings
