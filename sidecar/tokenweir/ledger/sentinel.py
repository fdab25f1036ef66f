"""
Connections to the server that Sentinels call the primary.

Each new connection goes to whom they name at that moment; of many that are made at
once one asks for all. While connections are used, each Sentinel is asked about every
`WATCH_SECONDS` besides. A primary that is cut off from them need not be cut off from us,
and one that was replaced as planned answers for some ten seconds more, until Sentinels
make a replica of it: both would go on taking what nobody will know of. Once another is
named, no connection to the former one is used again, and that counts as a loss even if
there is none any more: see `tokenweir.ledger.servers.Servers.losses`.

Sentinels learn of a switch one after the other, so for a moment they disagree. What one
says for the first time since it said something else is news, and followed; what it has
said all along is none. So nobody goes back to a former primary for a Sentinel that is
behind, or cut off from the others, unless most of them say so together.

To ask is enough, and no slower than to subscribe to `+switch-master`: who leads a
failover names the new primary before it announces it.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

from tokenweir.ending import end_tasks, within
from tokenweir.ledger.address import Address, HostPort
from tokenweir.ledger.node import Node, node_at
from tokenweir.ledger.pool import PatientPool

WATCH_SECONDS = 1.0
# Processors that were started together need not ask together.
_SHORTEST_PART, _LONGEST_PART = 0.75, 1.25
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
        self._told: dict[Node, HostPort] = {}
        self._named: HostPort | None = None

    @property
    def named(self) -> HostPort | None:
        """Where the primary is, as far as anybody has been asked."""
        return self._named

    async def primary(self) -> HostPort:
        """Return where the primary is. Raises: PrimaryUnknownError."""
        if self._lookup is None or self._lookup.done():
            self._lookup = asyncio.create_task(self._look_up())
        return await asyncio.shield(self._lookup)

    async def look(self) -> None:
        """Ask each Sentinel; `named` changes with the first that has news."""
        nodes = tuple(self._nodes)
        answer = await asyncio.gather(*(self._hear(node) for node in nodes))
        said = [
            self._told[node] for node, has in zip(nodes, answer, strict=True) if has
        ]
        if 2 * len(said) > len(nodes) and len(set(said)) == 1:
            self._named = said[0]

    async def close(self) -> None:
        """Give connections back."""
        await end_tasks(self._lookup)
        for node in self._nodes:
            await node.close()

    async def _look_up(self) -> HostPort:
        why: Exception | None = None
        for node in tuple(self._nodes):
            try:
                told = await self._asked(node)
            except _NO_ANSWER as error:
                # That we are turned away is what somebody has to do something about.
                why = error if isinstance(error, _TURNED_AWAY) else why or error
                continue
            # The next question is for the one who has just answered.
            self._nodes.remove(node)
            self._nodes.insert(0, node)
            # Who was never heard before is asked if nobody else answers.
            return self._follow(node, told, is_news=self._told.get(node) != told)
        if isinstance(why, _TURNED_AWAY):
            raise why
        raise PrimaryUnknownError("no Sentinel names a primary") from why

    async def _hear(self, node: Node) -> bool:
        """Ask *node*; tell if it answers."""
        try:
            told = await self._asked(node)
        except _NO_ANSWER:
            return False
        self._follow(node, told, is_news=self._told.get(node, told) != told)
        return True

    def _follow(self, node: Node, told: HostPort, *, is_news: bool) -> HostPort:
        """Note what *node* has *told*; return where the primary is."""
        self._told[node] = told
        if is_news or self._named is None:
            self._named = told
        return self._named

    async def _asked(self, node: Node) -> HostPort:
        # All wait for a look-up that is under way, so it must end.
        question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        told = await within(ASK_SECONDS, node.execute(*question))
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
        self._followed: HostPort | None = None
        self._look_at = 0.0
        self._watch: asyncio.Task[None] | None = None

    async def ensure_connection(self, connection: Any) -> None:
        """See `PatientPool`."""
        self._watch_over()
        await super().ensure_connection(connection)

    def keeps(self, connection: Any) -> bool:
        """See `PatientPool`."""
        self._watch_over()
        return super().keeps(connection)

    async def aclose(self) -> None:
        """See `PatientPool`."""
        await end_tasks(self._watch)
        await super().aclose()
        await self._sentinels.close()

    def _is_outdated(self, connection: Any) -> bool:
        is_elsewhere = (connection.host, connection.port) != self._sentinels.named
        return is_elsewhere or super()._is_outdated(connection)

    async def _connect(self, connection: Any) -> None:
        connection.host, connection.port = await self._sentinels.primary()
        await self._leave_former()
        await super()._connect(connection)

    def _watch_over(self) -> None:
        now = time.monotonic()
        if now >= self._look_at and (self._watch is None or self._watch.done()):
            part = random.uniform(_SHORTEST_PART, _LONGEST_PART)  # noqa: S311 - no secret
            self._look_at = now + WATCH_SECONDS * part
            self._watch = asyncio.create_task(self._look())

    async def _look(self) -> None:
        await self._sentinels.look()
        await self._leave_former()

    async def _leave_former(self) -> None:
        """Drop connections to the former primary, if another is named than was."""
        former, self._followed = self._followed, self._sentinels.named
        if former not in (None, self._followed):
            await self.outdate(time.monotonic())
