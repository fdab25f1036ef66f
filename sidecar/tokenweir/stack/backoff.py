"""
How long to wait before a dead child is started again, and when to give up.

A child that dies once, as when somebody kills it to see what happens, comes back
at once. One that dies again and again, or does not even start any more, has a
reason that no restart removes.
"""

from __future__ import annotations

FIRST_DELAY_SECONDS = 0.5
MAX_DEATHS = 5
HEALTHY_SECONDS = 60.0


class Backoff:
    """The deaths of one child since it was last healthy for a while."""

    def __init__(self, first_delay_seconds: float = FIRST_DELAY_SECONDS) -> None:
        self._first_delay_seconds = first_delay_seconds
        self._deaths = 0

    def after_death(self, healthy_seconds: float) -> float | None:
        """
        Return the seconds to wait before the next start, or None: give up.

        *healthy_seconds* is for how long the child did its work before it died; 0 if
        it did not get there.
        """
        if healthy_seconds >= HEALTHY_SECONDS:
            self._deaths = 0
        self._deaths += 1
        if self._deaths > MAX_DEATHS:
            return None
        return self._first_delay_seconds * 2.0 ** (self._deaths - 1)
