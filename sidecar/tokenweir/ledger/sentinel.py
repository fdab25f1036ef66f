"""
Connections to the server that Sentinels call the primary.

Each new connection goes to whom they name at that moment; of many that are made at
once one asks for all. While connections are used, Sentinels are asked every
`WATCH_SECONDS` besides: a primary that is cut off from them need not be cut off from us,
and would go on taking what nobody will know of. Once they name another, no connection to
the former one is used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

from tokenweir.ledger.address import Address, HostPort
from tokenweir.ledger.node import Node, node_at
from tokenweir.ledger.pool import PatientPool

WATCH_SECONDS = 2.0
# Of each Sentinel: one that is gone must not keep those behind it from being asked.
ASK_SECONDS = 1.0

# None, or none that makes sense: of a service that a Sentinel does not know it says nil.
_NO_ANSWER = (
    *(RedisError, OSError, TimeoutError),
    *(AttributeError, IndexError, TypeError, ValueError),
)


_TURNED_AWAY = (AuthenticationError, NoPermissionError)


class PrimaryUnknownError(RedisConnectionError):
    """No Sentinel names a primary: none answers, or none knows the service."""


class Sentinels:
    """
    Args:
        address: Of Sentinels.
    """

    def __init__(self, address: Address) -> None:
        self._service = address.service
        options = address.sentinel_options
        self._nodes = [node_at(host, options) for host in address.hosts]
        self._lookup: asyncio.Task[HostPort] | None = None

    async def primary(self) -> HostPort:
        """Return where the primary is. Raises: PrimaryUnknownError."""
        if self._lookup is None or self._lookup.done():
            self._lookup = asyncio.create_task(self._look_up())
        return await asyncio.shield(self._lookup)

    async def close(self) -> None:
        """Give connections back."""
        if self._lookup is not None:
            self._lookup.cancel()
            await asyncio.gather(self._lookup, return_exceptions=True)
        for node in self._nodes:
            await node.close()

    async def _look_up(self) -> HostPort:
        why: Exception | None = None
        for node in tuple(self._nodes):
            try:
                primary = await self._asked(node)
            except _NO_ANSWER as error:
                # That we are turned away is what somebody has to do something about.
                why = error if isinstance(error, _TURNED_AWAY) else why or error
                continue
            # The next question is for the one who has just answered.
            self._nodes.remove(node)
            self._nodes.insert(0, node)
            return primary
        if isinstance(why, _TURNED_AWAY):
            raise why
        raise PrimaryUnknownError("no Sentinel names a primary") from why

    async def _asked(self, node: Node) -> HostPort:
        async with asyncio.timeout(ASK_SECONDS):
            told = await node.execute(
                "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service
            )
        return told[0].decode(), int(told[1])


class SentinelPool(PatientPool):
    """
    Connections to the primary.

    Args:
        sentinels: Name it.
        options: What redis-py makes a connection with, but for the host.
    """

    def __init__(self, sentinels: Sentinels, **options: Any) -> None:
        super().__init__(**options)
        self._sentinels = sentinels
        self._primary: HostPort = ("", 0)
        self._asked_at = 0.0
        self._watch: asyncio.Task[None] | None = None

    async def ensure_connection(self, connection: Any) -> None:
        """See `PatientPool`."""
        self._watch_over()
        await super().ensure_connection(connection)

    async def aclose(self) -> None:
        """See `PatientPool`."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await super().aclose()
        await self._sentinels.close()

    def _is_outdated(self, connection: Any) -> bool:
        is_elsewhere = (connection.host, connection.port) != self._primary
        return is_elsewhere or super()._is_outdated(connection)

    async def _connect(self, connection: Any) -> None:
        await self._ask()
        connection.host, connection.port = self._primary
        await super()._connect(connection)

    def _watch_over(self) -> None:
        is_due = time.monotonic() - self._asked_at >= WATCH_SECONDS
        if is_due and (self._watch is None or self._watch.done()):
            self._watch = asyncio.create_task(self._look())

    async def _look(self) -> None:
        with contextlib.suppress(PrimaryUnknownError):
            await self._ask()

    async def _ask(self) -> None:
        self._asked_at = time.monotonic()
        self._primary = await self._sentinels.primary()
