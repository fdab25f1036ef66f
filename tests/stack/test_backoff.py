"""When a dead child is started again."""

from __future__ import annotations

from tokenweir.stack.backoff import MAX_DEATHS, WINDOW_SECONDS, Backoff


def test_each_death_within_the_window_doubles_the_delay() -> None:
    """A child that dies again soon waits longer."""
    backoff = Backoff()

    assert [backoff.after_death(second) for second in (0, 1, 3, 7, 15)] == [
        0.5,
        1,
        2,
        4,
        8,
    ]


def test_too_many_deaths_end_it() -> None:
    """The sixth death within a minute is the last."""
    backoff = Backoff()
    for second in range(MAX_DEATHS):
        assert backoff.after_death(second) is not None

    assert backoff.after_death(WINDOW_SECONDS - 1) is None


def test_old_deaths_are_forgotten() -> None:
    """A death a minute ago no longer counts, however many there were."""
    backoff = Backoff()
    for second in range(MAX_DEATHS):
        backoff.after_death(second)

    assert backoff.after_death(MAX_DEATHS - 1 + WINDOW_SECONDS) == 0.5


def test_the_first_delay_can_be_chosen() -> None:
    """All delays are multiples of the first."""
    backoff = Backoff(first_delay_seconds=0.01)

    assert [backoff.after_death(0), backoff.after_death(0)] == [0.01, 0.02]
