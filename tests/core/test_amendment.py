"""How a counter is put right."""

from tokenweir.core.amendment import Amendment, amended
from tokenweir.core.budget import MAX_SPENT, Spending
from tokenweir.core.window import Window

WINDOW = Window(1_000, 2_000)


def amendment(seen: int, add: int) -> Amendment:
    """Of a budget of 1,000."""
    return Amendment("b", WINDOW, seen, add, 1_000, (50, 80))


def test_what_was_spent_meanwhile_stays() -> None:
    """The difference is added to whatever the counter says by now."""
    assert amended(Spending(2_000, 150, 30), amendment(100, 40), 20) == Spending(
        2_000, 190, 20
    )


def test_a_counter_that_is_gone_begins_anew() -> None:
    """At what is missing."""
    assert amended(None, amendment(0, 40), 0) == Spending(2_000, 40)


def test_thresholds_count_as_told() -> None:
    """They were told when that was spent; and what was told stays so."""
    assert amended(Spending(2_000, 100), amendment(100, 700), 0) == Spending(
        2_000, 800, 0, 80
    )
    assert amended(Spending(2_000, 600, 0, 80), amendment(600, -200), 0) == Spending(
        2_000, 400, 0, 80
    )


def test_one_that_was_set_back_is_left_alone() -> None:
    """What was seen no longer holds."""
    assert amended(Spending(2_000, 99), amendment(100, 40), 0) is None


def test_it_stays_within_what_can_be_counted() -> None:
    """Neither below nothing nor above the most."""
    assert amended(Spending(2_000, 5), amendment(5, -9), 0) == Spending(2_000)
    most = amended(Spending(2_000, 5), amendment(5, MAX_SPENT), 0)
    assert most is not None
    assert most.spent == MAX_SPENT
