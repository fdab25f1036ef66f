"""Tasks that outlive the call that began them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tokenweir.telemetry.hooks import Events

T = TypeVar("T")


class Background:
    """
    Keeps tasks alive, and reports those that break.

    A task that nothing refers to may be collected before it has run, so every
    one of them is referred to here until it is over.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run *work*; what it raises is reported, also if somebody awaits it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    async def join(self, seconds: float) -> int:
        """
        Wait until all are over, *seconds* at the most; return how many are not.

        Those that come meanwhile are waited for too: a count ends in a settle.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._tasks and (left := deadline - loop.time()) > 0:
            await asyncio.wait(tuple(self._tasks), timeout=left)
        return len(self._tasks)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._events.fault("background", error)
