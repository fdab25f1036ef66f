"""
One server: its connections, and no more calls at once than it can do.

Calls of scripts, of which exchanges make many, share one connection: see
`tokenweir.ledger.lanes`. Everything else has connections of its own.

Errors are for others to judge, so redis-py repeats nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError

from tokenweir.ledger.address import HostPort, Options
from tokenweir.ledger.lane import Lane
from tokenweir.ledger.lanes import Lanes
from tokenweir.ledger.pool import PatientPool

# At once. More calls than that wait for each other: one Redis thread runs them all.
MAX_CONNECTIONS = 32

# How many commands go out together, so that no reply has to be kept waiting long.
BATCH = 128

Command = Sequence[str | int | bytes]


class Node:
    """
    Args:
        pool: Connections to the server; closed with this.

    Attributes:
        host: Its name, if it has one that is known.
    """

    def __init__(self, pool: PatientPool, host: str = "") -> None:
        self.host = host
        self._pool = pool
        self._lanes = Lanes(pool)
        self._client = Redis.from_pool(pool)
        self._execute: Callable[..., Awaitable[Any]] = self._client.execute_command
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)

    def lane(self, key: str) -> Lane | None:  # noqa: ARG002 - all keys are here
        """See `tokenweir.ledger.servers.Servers`."""
        return self._lanes.current

    async def call(
        self,
        key: str,  # noqa: ARG002 - all keys are here
        command: bytes,
        seconds: float,
        *,
        is_asking: bool = False,
    ) -> Any:
        """
        See `tokenweir.ledger.servers.Servers`.

        *is_asking*: the key is only just being given to this server.
        """
        lane = self._lanes.current or await self._lanes.open()
        return await lane.send(command, seconds, is_asking=is_asking)

    async def execute(self, *command: str | int | bytes) -> Any:
        """Return what the server answers. Raises what redis-py does."""
        async with self._free:
            try:
                return await self._execute(*command)
            except BusyLoadingError as error:  # redis-py hangs up after it
                self._pool.slow_down(error)
                raise

    async def asking(self, *command: str | int | bytes) -> Any:
        """Ditto, of a slot that this server is only just being given."""
        _, reply = await self.pipelined([("ASKING",), command])
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def pipelined(self, commands: Sequence[Command]) -> list[Any]:
        """Return what the server answers to each of *commands*, errors among them."""
        replies: list[Any] = []
        async with self._free:
            for start in range(0, len(commands), BATCH):
                pipeline = self._client.pipeline(transaction=False)
                for command in commands[start : start + BATCH]:
                    execute: Callable[..., Any] = pipeline.execute_command
                    execute(*command)
                replies += await pipeline.execute(raise_on_error=False)
        return replies

    async def nodes(self) -> Sequence[Node]:
        """Return all servers: this one."""
        return (self,)

    def doubt(self) -> None:
        """See `tokenweir.ledger.servers.Servers`: there is only one address."""

    @property
    def losses(self) -> int:
        """How often what it had been told may have been lost: see `PatientPool`."""
        return self._pool.losses

    async def drop(self, since: float) -> None:
        """See `tokenweir.ledger.servers.Servers`."""
        await self._pool.outdate(since)
        self._lanes.leave_outdated()

    async def retire(self) -> None:
        """Close once the calls that are under way have ended."""
        for _ in range(MAX_CONNECTIONS):
            await self._free.acquire()
        await self.close()

    async def close(self) -> None:
        """Give connections back."""
        await self._lanes.close()
        await self._client.aclose()
        await self._pool.aclose()


def node_at(host: HostPort | None, options: Options) -> Node:
    """Return the server at *host*; None: where *options* say."""
    where = {} if host is None else {"host": host[0], "port": host[1]}
    pool = PatientPool(**options, **where, retry=no_retry())
    return Node(pool, host[0] if host else "")


def no_retry() -> Retry:
    """Return what repeats nothing."""
    return Retry(NoBackoff(), 0)
