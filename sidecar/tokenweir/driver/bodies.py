"""
Reads large request bodies off the event loop.

There is one thread for all of them, since more would only share one interpreter. So
callers get it by turns, not in the order in which they came: however many bodies one
tenant sends, another waits for the one that is being read, and for one of each other
tenant. Who has not got its turn in time has cost nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class BodyThread:
    """Does what takes long for one caller after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "bodies")
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._busy_for: str | None = None

    async def read(self, whose: str, work: Callable[[], T]) -> T:
        """Return what *work* returns, or raise what it raises, when it is its turn."""
        await self._turn(whose)
        loop = asyncio.get_running_loop()
        reading = self._thread.submit(work)

        def pass_on(_: Future[T]) -> None:
            # Not before: a thread goes on, whether its caller waits for it or not.
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._pass_on)

        reading.add_done_callback(pass_on)
        return await asyncio.wrap_future(reading)

    async def _turn(self, whose: str) -> None:
        if self._busy_for is None:
            self._busy_for = whose
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(whose, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came in the same moment
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Let another caller have the next turn, if another waits."""
        before, self._busy_for = self._busy_for, None
        while self._waiting and self._busy_for is None:
            others = (each for each in self._waiting if each != before)
            whose = next(others, before)
            assert whose is not None
            turns = self._waiting.pop(whose)
            turn = turns.popleft()
            if turns:  # behind all others
                self._waiting[whose] = turns
            if not turn.done():  # else its caller has left
                self._busy_for = whose
                turn.set_result(None)
