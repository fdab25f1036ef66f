"""When a dead child is started again."""

from __future__ import annotations

from tokenweir.stack.backoff import HEALTHY_SECONDS, MAX_DEATHS, Backoff


def test_each_death_doubles_the_delay() -> None:
    """A child that dies again soon waits longer, until it is given up."""
    backoff = Backoff()
    delays = [backoff.after_death(1) for _ in range(MAX_DEATHS + 1)]

    assert delays == [0.5, 1, 2, 4, 8, None]


def test_who_was_healthy_begins_anew() -> None:
    """Deaths before a long healthy life no longer count."""
    backoff = Backoff()
    for _ in range(MAX_DEATHS):
        backoff.after_death(0)

    assert backoff.after_death(HEALTHY_SECONDS) == 0.5
    assert backoff.after_death(HEALTHY_SECONDS - 1) == 1


def test_the_first_delay_can_be_chosen() -> None:
    """All delays are multiples of the first."""
    backoff = Backoff(first_delay_seconds=0.01)

    assert [backoff.after_death(0), backoff.after_death(0)] == [0.01, 0.02]
