"""
How long to wait before a dead child is started again, and when to give up.

A child that dies once, as when somebody kills it to see what happens, comes back
at once. One that dies again and again has a reason that no restart removes.
"""

from __future__ import annotations

from collections import deque

FIRST_DELAY_SECONDS = 0.5
MAX_DEATHS = 5
WINDOW_SECONDS = 60.0


class Backoff:
    """The deaths of one child in the last minute."""

    def __init__(self, first_delay_seconds: float = FIRST_DELAY_SECONDS) -> None:
        self._first_delay_seconds = first_delay_seconds
        self._deaths: deque[float] = deque()

    def after_death(self, now_seconds: float) -> float | None:
        """
        Return the seconds to wait before the next start, or None: give up.

        *now_seconds* is the time of the death by a clock that never steps back.
        """
        self._deaths.append(now_seconds)
        while self._deaths[0] <= now_seconds - WINDOW_SECONDS:
            self._deaths.popleft()
        if len(self._deaths) > MAX_DEATHS:
            return None
        return self._first_delay_seconds * 2.0 ** (len(self._deaths) - 1)
