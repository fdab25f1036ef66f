"""
The connection that all calls to one server share, and those that come before and after.

There is one at a time that calls are sent on. Whoever finds none has one made, or waits
for the one that is being made. If that takes long, as where a server takes connections
and says nothing, or where the host is gone that Sentinels have named, the next caller
has another one begun: whichever is ready first is used. `PatientPool` bounds how many
are begun, and finishes each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError

from tokenweir.ledger.lane import Lane
from tokenweir.ledger.pool import PatientPool

# As long as callers wait for one another's connection: a little more than a call may
# take.
PATIENCE_SECONDS = 0.25


class Lanes:
    """
    Args:
        pool: Connections to the server.
    """

    def __init__(self, pool: PatientPool) -> None:
        self._pool = pool
        self._lane: Lane | None = None
        self._all: set[Lane] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opening: asyncio.Task[Lane] | None = None
        self._began = 0.0
        self._is_closed = False

    @property
    def current(self) -> Lane | None:
        """What calls may be sent on now; None: see `open`."""
        self.leave_outdated()
        return self._lane

    def leave_outdated(self) -> None:
        """Have calls use another connection, if this one is broken or outdated."""
        lane = self._lane
        if lane is None or (lane.is_open and self._pool.keeps(lane.connection)):
            return
        self._lane = None
        if lane.is_open:  # to a server that is none any more
            self._pool.losses += 1
            lane.retire()

    async def open(self) -> Lane:
        """
        Return what calls may be sent on, once there is such.

        A caller who is cancelled leaves it at work. Raises what redis-py does.
        """
        if (lane := self.current) is not None:
            return lane
        now = asyncio.get_running_loop().time()
        opening = self._opening
        if opening is None or opening.done() or now - self._began > PATIENCE_SECONDS:
            opening = self._opening = self._task(self._open())
            self._began = now
        await asyncio.wait([opening])
        if opening.cancelled():
            raise RedisConnectionError("is being closed")
        if (error := opening.exception()) is not None:
            # Its traceback would grow with everybody who is told.
            raise error.with_traceback(None)
        return opening.result()

    async def close(self) -> None:
        """Let the calls that are under way end, and give the connections back."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        for lane in tuple(self._all):
            lane.retire()
            await lane.closed()
        self._lane = None
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open(self) -> Lane:
        get: Callable[[], Awaitable[Any]] = self._pool.get_connection
        connection = await get()
        if (lane := self.current) is not None or self._is_closed:
            await self._pool.release(connection)
            if lane is None:
                raise RedisConnectionError("is being closed")
            return lane
        if not await self._pool.is_usable(connection):
            await self._pool.release(connection)
            raise RedisConnectionError("was lost before it was used")
        lane = self._lane = Lane.over(connection, self._ended)
        self._all.add(lane)
        return lane

    def _ended(self, lane: Lane) -> None:
        # What it has brought may be lost, if the server is.
        self._pool.losses += 1
        self._all.discard(lane)
        self._task(self._give_back(lane.connection))

    async def _give_back(self, connection: Any) -> None:
        await connection.disconnect(nowait=True)
        await self._pool.release(connection)

    def _task(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Whoever waited for it may be gone: then nobody else asks how it ended.
        if not task.cancelled():
            task.exception()
