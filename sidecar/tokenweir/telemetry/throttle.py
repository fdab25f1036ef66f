"""
Bounds how many lines of one kind are written.

What anybody can cause, such as a call with an unknown key, or what comes at every call
once it comes at all, such as a bug, would fill a disk and hide all other lines. So a few
in a while are written, and the next one tells how many were not. Metrics count all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MOST_LINES = 20
WINDOW_S = 10.0


@dataclass(slots=True)
class _Window:
    began_at: float
    written: int = 0
    left_out: int = 0


class Throttle:
    """
    Counts lines by kind. There must be few kinds: one is never forgotten.

    Args:
        clock: Seconds; it may be set back.
        most: Lines of a kind in a window.
        window_s: Its length.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        most: int = MOST_LINES,
        window_s: float = WINDOW_S,
    ) -> None:
        self._clock = clock
        self._most = most
        self._window_s = window_s
        self._windows: dict[str, _Window] = {}

    def admit(self, kind: str) -> int | None:
        """
        Tell if a line of *kind* is to be written.

        Returns:
            How many were left out before it; None: leave this one out, too.
        """
        now = self._clock()
        window = self._windows.setdefault(kind, _Window(now))
        if not 0 <= now - window.began_at < self._window_s:
            window.began_at, window.written = now, 0
        if window.written >= self._most:
            window.left_out += 1
            return None
        window.written += 1
        left_out, window.left_out = window.left_out, 0
        return left_out
