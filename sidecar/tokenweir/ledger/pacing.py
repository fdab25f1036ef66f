"""
How often a server is connected to: so that no fleet keeps down what it waits for.

A server that has just come back is met by every processor that has missed it. So:

* no more than `MAX_A_SECOND` connections are begun within a second;
* after one that failed nobody connects for a while, which doubles from
  `FIRST_PAUSE_SECONDS` to `LONGEST_PAUSE_SECONDS`, each a random part shorter: else all
  processors would come at the same moments;
* then one tries, alone, until it succeeds.

Who may not connect is told at once what the last one was told. To wait would help
nobody: calls have deadlines, and what has ended meanwhile is settled later anyway.
"""

from __future__ import annotations

import random
import time
from collections import deque

from redis.exceptions import ConnectionError as RedisConnectionError

# As many as there can be at once: whoever has lost all of them may replace them.
MAX_A_SECOND = 32
FIRST_PAUSE_SECONDS = 0.025
LONGEST_PAUSE_SECONDS = 1.0
_SHORTEST_PART = 0.5


class Pacer:
    """What bounds the connections of one pool to one server."""

    def __init__(self) -> None:
        self._begun: deque[float] = deque(maxlen=MAX_A_SECOND)
        self._failures = 0
        self._why: BaseException | None = None
        self._next_at = 0.0
        self._is_tried = False

    def begin(self) -> None:
        """
        Return if a connection may be made now; `end` it.

        Raises:
            RedisConnectionError: It may not: what the last one failed with, if it did.
        """
        now = time.monotonic()
        if self._why is not None and (self._is_tried or now < self._next_at):
            # Its traceback would grow with everybody who is told.
            raise self._why.with_traceback(None)
        is_full = len(self._begun) == self._begun.maxlen
        if is_full and now - self._begun[0] < 1.0:
            raise RedisConnectionError("too many connections were made just now")
        self._begun.append(now)
        self._is_tried = True

    def end(self, error: BaseException | None) -> None:
        """Say that a connection was made, or what it failed with."""
        self._is_tried = False
        if error is None:
            self._failures, self._why = 0, None
            return
        self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Say that the server is in no state to be connected to, by its *error*."""
        now = time.monotonic()
        if self._why is None or now >= self._next_at:
            pause = min(
                FIRST_PAUSE_SECONDS * 2.0**self._failures, LONGEST_PAUSE_SECONDS
            )
            part = random.uniform(_SHORTEST_PART, 1.0)  # noqa: S311 - no secret
            self._next_at = now + pause * part
            # Beyond the longest pause there is nothing to count.
            self._failures = min(self._failures + 1, 16)
        self._why = error
