"""
Connections that are finished once they were begun.

To connect takes more round trips than a call does (TLS, greeting, client's name),
and so can take longer than a call may. If it were given up together with the call,
a ledger at some distance would never be reached again after the first connection
was lost: each call would begin to connect, and each would be too late.

So what was begun for a call that could not wait is finished for the next one. How often
one is begun is bounded: see `tokenweir.ledger.pacing`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from redis.asyncio import ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from tokenweir.ending import end_tasks, within
from tokenweir.ledger.pacing import Pacer

# For all of it: an answer that comes later is from a server that is not well.
CONNECT_SECONDS = 5.0

# How many may be under way: a server that takes connections and says nothing must not
# collect more.
MAX_UNFINISHED = 32


class PatientPool(ConnectionPool):
    """
    A redis-py pool whose connections outlive the calls that began them.

    Attributes:
        losses: How many connections were lost, or left for those to another server.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.losses = 0
        self._pacer = Pacer()
        self._unfinished: dict[Any, asyncio.Task[None]] = {}
        self._returns: set[asyncio.Task[None]] = set()
        self._made_at: dict[Any, float] = {}
        self._outdated_at = 0.0

    async def ensure_connection(self, connection: Any) -> None:
        """
        Connect, unless that is done; a caller who is cancelled leaves it at work.

        Raises:
            RedisConnectionError: Too many are at it already, or the last one has just
                failed. To wait here would help nobody: redis-py may lose a cancellation
                while it connects, so it must never connect in a call that has a
                deadline.
        """
        if connection.is_connected and await self.is_usable(connection):
            return
        if len(self._unfinished) >= MAX_UNFINISHED:
            raise RedisConnectionError("too many connections are being made")
        self._pacer.begin()
        connecting = asyncio.create_task(self._connect(connection))
        self._unfinished[connection] = connecting
        connecting.add_done_callback(lambda task: self._ended(connection, task))
        await asyncio.shield(connecting)

    async def release(self, connection: Any) -> None:
        """Take *connection* back; one that is being connected, once that has ended."""
        connecting = self._unfinished.get(connection)
        if connecting is None:
            if connection.is_connected and self._is_outdated(connection):
                # What it has just been told may be lost, and nobody need use it again.
                self.losses += 1
                await connection.disconnect(nowait=True)
            await super().release(connection)
        else:
            connecting.add_done_callback(lambda _: self._return(connection))

    def slow_down(self, error: BaseException) -> None:
        """Make no connection for a while: the server says that it can't work yet."""
        self._pacer.fail(error)

    async def outdate(self, since: float) -> None:
        """
        Leave all connections that there are; those that are in use, after that.

        Calls that were under way together find out one after the other that their
        server is none any more. So nothing is done for one that has begun, at *since*
        (`time.monotonic`), before that was done last.
        """
        if since >= self._outdated_at:
            self._outdated_at = time.monotonic()
            self.losses += 1
            for connection in tuple(self._available_connections):
                # At once: redis-py's own `disconnect` of a pool closes later what
                # somebody may use by then.
                if connection in self._available_connections:
                    await connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        """Give up what is not finished, and close all connections."""
        await end_tasks(*self._unfinished.values())
        await asyncio.gather(*self._returns)
        await super().aclose()

    def keeps(self, connection: Any) -> bool:
        """Tell if another call may be made on *connection*, which is in use."""
        return not self._is_outdated(connection)

    async def is_usable(self, connection: Any) -> bool:
        """Tell if a connection is still one; if not, it is closed."""
        is_told_more: Callable[[], bool] = self.maint_notifications_enabled
        with contextlib.suppress(RedisError, OSError):
            # What is there to read without a question is the end, or a lost answer.
            is_quiet = is_told_more() or not await connection.can_read()
            if is_quiet and not self._is_outdated(connection):
                return True
        self.losses += 1
        await connection.disconnect(nowait=True)
        return False

    def _is_outdated(self, connection: Any) -> bool:
        """Tell if *connection* is to a server that is none any more."""
        return self._made_at.get(connection, 0.0) < self._outdated_at

    async def _connect(self, connection: Any) -> None:
        try:
            await within(CONNECT_SECONDS, super().ensure_connection(connection))
        except TimeoutError:
            # Whoever still reads from it does so no longer.
            await connection.disconnect(nowait=True)
            raise

    def _ended(self, connection: Any, connecting: asyncio.Task[None]) -> None:
        self._unfinished.pop(connection, None)
        self._made_at[connection] = time.monotonic()
        if connecting.cancelled():
            self._pacer.end(RedisConnectionError("was given up"))
        else:  # whoever waited for it may be gone: then nobody else asks how it ended
            self._pacer.end(connecting.exception())

    def _return(self, connection: Any) -> None:
        returning = asyncio.create_task(super().release(connection))
        self._returns.add(returning)
        returning.add_done_callback(self._returns.discard)
