import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.slots import (
    MAX_DURATION_MS,
    MIN_WAIT_MS,
    UNKNOWN_WAIT_MS,
    Slots,
    slot_names,
)


def test_slots_expire_one_by_one() -> None:
    """
    Each slot has its own expiry: a crash heals itself, whatever others do (L06).
    """
    slots = Slots({"a": 10, "b": 20})

    assert slots.prune(9) == 2
    assert slots.prune(10) == 1
    assert slots.until_ms == {"b": 20}


def test_nothing_is_known_at_first() -> None:
    """
    Without any exchange that has ended the wait is a second.
    """
    slots = Slots()

    assert (slots.wait_ms(8), slots.reset_ms) == (UNKNOWN_WAIT_MS, UNKNOWN_WAIT_MS)
    assert not slots


@pytest.mark.parametrize(
    ("median_ms", "capacity", "wait_ms"),
    [(10_000, 4, 2_500), (10_001, 4, 2_501), (10_000, 1, 10_000), (1, 8, MIN_WAIT_MS)],
)
def test_the_wait_is_an_estimate(median_ms: int, capacity: int, wait_ms: int) -> None:
    """
    One of several slots gets free sooner than one of few; never at once.
    """
    slots = Slots(median_ms=median_ms)

    assert slots.wait_ms(capacity) == wait_ms
    assert slots.reset_ms == median_ms
    assert slots


def test_the_median_moves_towards_each_duration() -> None:
    """
    It begins with the first, and then moves by an eighth of itself at most.
    """
    slots = Slots()
    seen = []
    for duration_ms in (800, 10_000, 10_000, 10, 1_000, 1_000, 1_000):
        slots.learn(duration_ms)
        seen.append(slots.median_ms)

    assert seen == [800, 900, 1_012, 886, 996, 1_000, 1_000]


def test_a_small_median_moves_too() -> None:
    """
    A step is a millisecond at least.
    """
    slots = Slots(median_ms=1)
    slots.learn(9)

    assert slots.median_ms == 2


@given(st.lists(st.integers(1, 10**15), min_size=1))
def test_the_median_stays_among_the_durations(durations_ms: list[int]) -> None:
    """
    No series of durations leads out of their range, and a day bounds them all.
    """
    slots = Slots()
    for duration_ms in durations_ms:
        slots.learn(duration_ms)
    seen = [min(duration_ms, MAX_DURATION_MS) for duration_ms in durations_ms]

    assert slots.median_ms is not None
    assert min(seen) <= slots.median_ms <= max(seen)


def test_each_slot_of_a_hold_has_a_name() -> None:
    """
    The first is the hold's own.
    """
    assert slot_names("a", 0) == slot_names("a", 1) == ["a"]
    assert slot_names("a", 3) == ["a", "a/1", "a/2"]


def test_slots_get_free_one_after_the_other() -> None:
    """
    Evenly within the median, as far as anybody knows; unknown: soon.
    """
    slots = Slots()
    assert slots.step_ms(4) == MIN_WAIT_MS

    slots.learn(10)

    assert [slots.step_ms(capacity) for capacity in (1, 4, 20)] == [10, 3, 1]
