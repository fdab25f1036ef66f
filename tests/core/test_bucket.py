import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core import bucket
from tokenweir.core.bucket import MAX_TOKENS, UNITS_PER_TOKEN, Bucket

EXACT = 2**53  # what Lua's doubles can tell apart

rates = st.integers(1, MAX_TOKENS)
capacities = st.integers(1, MAX_TOKENS)
tokens = st.integers(0, MAX_TOKENS)
moments = st.integers(0, 10**14)


@st.composite
def buckets(draw: st.DrawFn) -> Bucket:
    """Any bucket that there can be."""
    capacity = draw(capacities)
    level = draw(st.integers(-MAX_TOKENS * UNITS_PER_TOKEN, capacity * UNITS_PER_TOKEN))
    return Bucket(level, draw(moments), draw(tokens), draw(rates), capacity)


def test_an_unknown_bucket_is_full() -> None:
    """
    Who comes first finds the whole capacity, and nothing in use.
    """
    fresh = bucket.full(rate=60, capacity=100, now_ms=5)

    assert (fresh.remaining, fresh.used, fresh.reserved, fresh.reset_ms) == (
        100,
        0,
        0,
        0,
    )
    assert fresh.as_of_ms == 5


def test_refill_is_continuous() -> None:
    """
    A bucket earns its rate at every moment, not at the end of a minute.
    """
    empty = Bucket(0, 0, 0, rate=600, capacity=1_000)

    assert bucket.refill(empty, 100) == Bucket(60_000, 100, 0, 600, 1_000)
    assert bucket.refill(empty, 100).remaining == 1


def test_a_clock_that_steps_back_earns_nothing_and_is_believed() -> None:
    """
    Nothing is earned twice, and earning goes on from the earlier moment.
    """
    late = Bucket(0, 50_000, 0, rate=60, capacity=100)
    back = bucket.refill(late, 10_000)

    assert (back.level_units, back.as_of_ms) == (0, 10_000)
    assert bucket.refill(back, 11_000).remaining == 1


@given(buckets(), st.integers(0, 10**14))
def test_no_number_leaves_the_exact_range(stored: Bucket, elapsed_ms: int) -> None:
    """
    However long a bucket was idle, every product stays below 2**53.
    """
    now_ms = stored.as_of_ms + elapsed_ms
    earning_ms = min(elapsed_ms, stored.reset_ms)
    full = bucket.refill(stored, now_ms)

    assert stored.reset_ms * stored.rate < EXACT
    assert stored.level_units + earning_ms * stored.rate < EXACT
    assert full.level_units == min(
        stored.level_units + elapsed_ms * stored.rate, stored.ceiling_units
    )


@given(buckets())
def test_reset_is_the_moment_when_it_is_full(stored: Bucket) -> None:
    """
    After `reset_ms` the bucket is full, and not a millisecond before.
    """
    at = stored.as_of_ms + stored.reset_ms

    assert bucket.refill(stored, at).level_units == stored.ceiling_units
    if stored.reset_ms:
        assert bucket.refill(stored, at - 1).level_units < stored.ceiling_units


@given(buckets(), st.integers(1, MAX_TOKENS))
def test_the_wait_is_exact(stored: Bucket, wanted: int) -> None:
    """
    Who waits as long as we say succeeds; a millisecond less does not do.
    """
    wanted = min(wanted, stored.capacity)
    wait_ms = bucket.wait_ms(stored, wanted)
    then = bucket.refill(stored, stored.as_of_ms + wait_ms)

    assert bucket.wait_ms(then, wanted) == 0
    assert then.level_units >= wanted * UNITS_PER_TOKEN
    if wait_ms:
        before = bucket.refill(stored, stored.as_of_ms + wait_ms - 1)
        assert bucket.wait_ms(before, wanted) == 1


def test_a_wait_below_a_millisecond_is_a_millisecond() -> None:
    """
    A wait is never rounded down to none (L13).
    """
    nearly = Bucket(UNITS_PER_TOKEN - 1, 0, 0, rate=10_000_000, capacity=10)

    assert bucket.wait_ms(nearly, 1) == 1


@given(buckets())
def test_nothing_always_fits(stored: Bucket) -> None:
    """
    A request that takes no tokens waits for none, whatever the debt (L20).
    """
    assert bucket.wait_ms(stored, 0) == 0


@given(buckets(), tokens)
def test_what_is_taken_and_given_back_changes_nothing(
    stored: Bucket, taken: int
) -> None:
    """
    A booking and its reverse cancel out, as long as there is room.
    """
    taken = min(taken, stored.capacity)
    if stored.level_units < (taken - MAX_TOKENS) * UNITS_PER_TOKEN:
        return
    booked = bucket.book(stored, debit=taken, reserve=taken)

    assert booked.level_units == stored.level_units - taken * UNITS_PER_TOKEN
    assert bucket.book(booked, debit=-taken, reserve=-taken) == stored


def test_settling_high_leaves_a_debt() -> None:
    """
    Tokens beyond what was there are gone all the same, and delay the next caller.
    """
    empty = Bucket(0, 0, 10, rate=60, capacity=100)
    owing = bucket.book(empty, debit=5, reserve=-10)

    assert (owing.level_units, owing.reserved) == (-5 * UNITS_PER_TOKEN, 0)
    assert bucket.wait_ms(owing, 1) == 6_000
    assert (owing.remaining, owing.used) == (0, 105)


def test_giving_back_never_overflows() -> None:
    """
    What comes back to a bucket that has refilled meanwhile is lost.
    """
    full = bucket.full(rate=60, capacity=100, now_ms=0)

    assert bucket.book(full, debit=-50, reserve=-50) == full


def test_debt_has_a_floor() -> None:
    """
    A debt that no figure could hold exactly is forgiven in part.
    """
    owing = Bucket(0, 0, 0, rate=60, capacity=100)
    for _ in range(3):
        owing = bucket.book(owing, debit=2 * MAX_TOKENS, reserve=0)

    assert owing.level_units == -MAX_TOKENS * UNITS_PER_TOKEN


def test_used_is_what_is_neither_left_nor_reserved() -> None:
    """
    A refused caller is told apart what is spent and what may come back.
    """
    stored = Bucket(30 * UNITS_PER_TOKEN + 1, 0, 50, rate=60, capacity=100)

    assert (stored.remaining, stored.reserved, stored.used) == (30, 50, 20)


def test_used_is_never_negative() -> None:
    """
    Long exchanges hold more than a refilled bucket misses: then nothing is spent.
    """
    stored = Bucket(90 * UNITS_PER_TOKEN, 0, 50, rate=60, capacity=100)

    assert stored.used == 0


@pytest.mark.parametrize(
    ("level", "capacity", "expected"),
    [
        (100, 1_000, 1_000),
        (100, 30, 30),
        (40, 1_000, 940),
        (80, 30, 10),
        (20, 30, -50),
        (-5, 30, -75),
        (-5, 1_000, 895),
        (100, 100, 100),
    ],
)
def test_a_changed_capacity(level: int, capacity: int, expected: int) -> None:
    """
    What was used stays used, and what was full stays full.
    """
    stored = Bucket(level * UNITS_PER_TOKEN, 7, 3, rate=60, capacity=100)

    assert bucket.retune(stored, 90, capacity) == Bucket(
        expected * UNITS_PER_TOKEN, 7, 3, 90, capacity
    )


@given(st.integers(-1_000, 1_000), capacities, capacities)
def test_a_change_that_is_taken_back_leaves_no_trace(
    less: int, first: int, second: int
) -> None:
    """
    Processors with two policies may take turns on one bucket.
    """
    level = min(first, first - less) * UNITS_PER_TOKEN
    stored = Bucket(level, 7, 3, rate=60, capacity=first)
    changed = bucket.retune(stored, 90, second)

    assert changed.level_units <= changed.ceiling_units
    assert bucket.retune(changed, 60, first) == stored


def test_debt_stays_in_the_exact_range_when_a_limit_is_lowered() -> None:
    """
    However much was used of however large a limit.
    """
    floor = -MAX_TOKENS * UNITS_PER_TOKEN
    stored = Bucket(floor, 7, 3, rate=60, capacity=MAX_TOKENS)

    assert bucket.retune(stored, 1, 1).level_units == floor


def test_amounts_are_bounded() -> None:
    """
    No figure of a provider can leave the range that is exact.
    """
    assert [bucket.bounded(n) for n in (-1, 0, 5, MAX_TOKENS, 10**18)] == [
        0,
        0,
        5,
        MAX_TOKENS,
        MAX_TOKENS,
    ]


@given(st.lists(st.integers(0, 40_000), min_size=2, max_size=40), capacities)
def test_any_minute_admits_capacity_and_refill_at_most(
    pauses_ms: list[int], capacity: int
) -> None:
    """
    In any 60 s no more is admitted than the capacity and what is earned (L11).
    """
    capacity = min(capacity, 1_000)
    stored, now_ms, admitted = bucket.full(capacity, capacity, 0), 0, []
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        stored = bucket.refill(stored, now_ms)
        if bucket.wait_ms(stored, stored.remaining) == 0:
            admitted.append((now_ms, stored.remaining))
            stored = bucket.book(stored, debit=stored.remaining, reserve=0)

    for start_ms, _ in admitted:
        window = [n for at, n in admitted if start_ms <= at < start_ms + 60_000]
        assert sum(window) <= 2 * capacity
