"""
Connections that are finished once they were begun.

To connect takes more round trips than a call does (TLS, greeting, client's name),
and so can take longer than a call may. If it were given up together with the call,
a ledger at some distance would never be reached again after the first connection
was lost: each call would begin to connect, and each would be too late.

So what was begun for a call that could not wait is finished for the next one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import ConnectionPool

# For all of it: an answer that comes later is from a server that is not well.
CONNECT_SECONDS = 5.0

# How many may go on without a call that waits for them: a server that takes
# connections and says nothing must not collect more.
MAX_UNFINISHED = 32


class PatientPool(ConnectionPool):
    """A redis-py pool whose connections outlive the calls that began them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unfinished: dict[Any, asyncio.Task[None]] = {}
        self._returns: set[asyncio.Task[None]] = set()

    async def ensure_connection(self, connection: Any) -> None:
        """Connect, unless that is done; a caller who is cancelled leaves it at work."""
        if connection.is_connected or len(self._unfinished) >= MAX_UNFINISHED:
            await super().ensure_connection(connection)
            return
        connecting = asyncio.create_task(self._connect(connection))
        self._unfinished[connection] = connecting
        connecting.add_done_callback(lambda _: self._unfinished.pop(connection, None))
        await asyncio.shield(connecting)

    async def release(self, connection: Any) -> None:
        """Take *connection* back; one that is being connected, once that has ended."""
        connecting = self._unfinished.get(connection)
        if connecting is None:
            await super().release(connection)
        else:
            connecting.add_done_callback(lambda _: self._return(connection))

    async def aclose(self) -> None:
        """Give up what is not finished, and close all connections."""
        unfinished = tuple(self._unfinished.values())
        for connecting in unfinished:
            connecting.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await asyncio.gather(*self._returns)
        await super().aclose()

    async def _connect(self, connection: Any) -> None:
        async with asyncio.timeout(CONNECT_SECONDS):
            await super().ensure_connection(connection)

    def _return(self, connection: Any) -> None:
        returning = asyncio.create_task(super().release(connection))
        self._returns.add(returning)
        returning.add_done_callback(self._returns.discard)
