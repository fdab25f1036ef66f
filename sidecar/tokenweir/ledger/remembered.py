"""
What the ledger took last, for as long as it may forget it.

Redis answers before its replicas have heard, and before it is on a disk. So a server that
takes over, or that has restarted, may not know of what was answered in the last moments
of the one before. Settles and cancels are idempotent by hold id: they are said again, and
what was not forgotten changes nothing.

Nothing is forgotten while the ledger is away, for then nothing is added. Whoever takes
what is kept, and has said it again, adds it anew: the server that took over may be lost as
well, before others have heard of it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

# Replicas are milliseconds behind, a disk a second (`appendfsync everysec`), and a
# primary that was cut off is found out within `sentinel.WATCH_SECONDS` and the time that
# Sentinels take.
KEPT_SECONDS = 10.0
# About 10 MB of holds and settlements.
MOST = 5_000

T = TypeVar("T")


class Remembered(Generic[T]):
    """
    Args:
        clock: In seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: deque[tuple[float, T]] = deque(maxlen=MOST)

    def add(self, what: T) -> None:
        """Keep *what* was taken just now, and forget what is too old."""
        self._forget()
        self._kept.append((self._clock(), what))

    def take(self) -> list[T]:
        """Give away what is kept, the oldest first."""
        kept = [what for _, what in self._kept]
        self._kept.clear()
        return kept

    def _forget(self) -> None:
        oldest = self._clock() - KEPT_SECONDS
        while self._kept and self._kept[0][0] < oldest:
            self._kept.popleft()
