"""Counting in a window, to the last nano-USD."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.budget import (
    MAX_SPENT,
    Spending,
    affordable,
    fits,
    middle,
    passed,
    spend,
    window_at,
)
from tokenweir.core.window import Window

TURNS = (100, 200, 300, 400)
AMOUNTS = st.integers(0, MAX_SPENT)


@pytest.mark.parametrize(
    ("moment_ms", "window"),
    [
        (99, None),
        (100, Window(100, 200)),
        (199, Window(100, 200)),
        (200, Window(200, 300)),
        (399, Window(300, 400)),
        (400, None),
    ],
)
def test_a_moment_is_in_one_window(moment_ms: int, window: Window | None) -> None:
    """A window has its first moment, and not its last."""
    assert window_at(TURNS, moment_ms) == window


def test_the_middle_window_is_the_callers_present() -> None:
    """The windows before and after are there for clocks that differ."""
    assert middle(TURNS) == Window(200, 300)


def test_what_is_reserved_counts_as_if_it_were_spent() -> None:
    """So that calls at the same time can't pass together what one could not alone."""
    spending = Spending(300, spent=40, reserved=50)

    assert fits(spending, 100, 10)
    assert not fits(spending, 100, 11)
    assert spending.remaining(100) == 10


def test_what_costs_nothing_always_fits() -> None:
    """An exhausted budget of money does not stop a model that is free."""
    assert fits(Spending(300, spent=900), 100, 0)
    assert Spending(300, spent=900).remaining(100) == 0


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_every_figure_is_exact_in_a_double(
    capacity: int, spent: int, reserved: int, requested: int
) -> None:
    """The scripts compute with doubles: nothing leaves 2**53."""
    left = capacity - spent - reserved

    assert abs(left) < 2**53
    assert int(float(capacity) - float(spent) - float(reserved)) == left
    assert fits(Spending(300, spent, reserved), capacity, requested) is (
        requested <= left or requested == 0
    )


def test_spending_stays_within_its_bounds() -> None:
    """A correction takes back what was there, and no more; sums end at the most."""
    spending = Spending(300, spent=10, reserved=5, told=50)

    assert spend(spending, spent=-4, reserve=-5) == Spending(300, 6, 0, 50)
    assert spend(spending, spent=-11, reserve=-6) == Spending(300, 0, 0, 50)
    assert spend(spending, spent=MAX_SPENT, reserve=0).spent == MAX_SPENT


@given(st.integers(1, MAX_SPENT), st.integers(1, 100))
def test_a_threshold_is_passed_at_its_share(capacity: int, percent: int) -> None:
    """It is told as soon as that share of the capacity is spent, not before."""
    share = capacity * percent // 100

    assert capacity // 100 * percent + capacity % 100 * percent // 100 == share
    assert passed(share, capacity, (percent,)) == percent
    assert share == 0 or passed(share - 1, capacity, (percent,)) == 0


def test_only_the_highest_threshold_is_told() -> None:
    """One jump from nothing to 90 % is one event."""
    assert passed(90, 100, (50, 80, 95)) == 80
    assert passed(49, 100, (50, 80, 95)) == 0
    assert passed(49, 100, ()) == 0


@pytest.mark.parametrize(
    ("amount", "booked"), [(-1, 0), (0, 0), (7, 7), (MAX_SPENT + 1, MAX_SPENT)]
)
def test_amounts_are_bounded(amount: int, booked: int) -> None:
    """What can't be booked becomes the nearest that can."""
    assert affordable(amount) == booked


def test_a_spending_is_a_value() -> None:
    """Two windows that read the same are the same."""
    assert replace(Spending(300), spent=1) == Spending(300, 1)
