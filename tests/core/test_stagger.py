"""When refused callers are told to come back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.bucket import MAX_TOKENS
from tokenweir.core.stagger import PATIENCE_MS, WINDOW_MS, place_ms, room_ms, step_ms

NOW_MS = 1_700_000_000_000


def test_a_step_is_as_long_as_the_amount_takes_to_be_earned() -> None:
    """Rounded up, so that who comes one step later finds its amount earned."""
    assert step_ms(1, 60) == 1_000
    assert step_ms(8_200, 60_000) == 8_200
    assert step_ms(1, 7) == 8_572
    assert step_ms(1, MAX_TOKENS) == 1


def test_who_is_alone_is_told_its_wait() -> None:
    """Nobody was told before, or a moment that has passed: there is no offset."""
    for cursor_ms in (0, NOW_MS - 1, NOW_MS):
        assert place_ms(cursor_ms, NOW_MS, 700, 1_000) == NOW_MS + 700


def test_the_next_one_comes_a_step_later() -> None:
    """Ten that are refused at once are told ten moments, a step apart."""
    cursor_ms, told = 0, []
    for _ in range(10):
        cursor_ms = place_ms(cursor_ms, NOW_MS, 700, 1_000)
        told.append(cursor_ms - NOW_MS)

    assert told == list(range(700, 10_700, 1_000))


def test_a_wait_that_is_longer_needs_no_offset() -> None:
    """Who has to wait beyond the cursor anyway is told just that."""
    assert place_ms(NOW_MS + 500, NOW_MS, 9_000, 1_000) == NOW_MS + 9_000


def test_the_window_begins_again() -> None:
    """Who would be told more than a window comes at the beginning again."""
    cursor_ms, told = 0, []
    for _ in range(130):
        cursor_ms = place_ms(cursor_ms, NOW_MS, 1, 1_000)
        told.append(cursor_ms - NOW_MS - 1)

    assert max(told) == WINDOW_MS
    assert told[61] == told[122] == 0
    assert sorted(set(told)) == list(range(0, WINDOW_MS + 1, 1_000))


def test_nobody_is_made_to_outwait_its_sdk() -> None:
    """A wait that SDKs have patience for stays one; a longer one has a window."""
    assert room_ms(0) == WINDOW_MS
    assert room_ms(PATIENCE_MS - 1) == 1
    assert room_ms(PATIENCE_MS) == 0
    assert room_ms(PATIENCE_MS + 1) == WINDOW_MS


@given(
    cursor_ms=st.integers(0, 2 * NOW_MS),
    wait_ms=st.integers(0, 10**14),
    amount=st.integers(0, MAX_TOKENS),
    rate=st.integers(1, MAX_TOKENS),
)
def test_the_moment_is_within_a_window_of_the_wait(
    cursor_ms: int, wait_ms: int, amount: int, rate: int
) -> None:
    """Whatever the cursor, even of a clock that stepped back: the wait, and a window."""
    place = place_ms(cursor_ms, NOW_MS, wait_ms, step_ms(amount, rate))

    assert 0 <= place - NOW_MS - wait_ms <= room_ms(wait_ms) <= WINDOW_MS
