"""
The way from a URL to whoever has the ledger: one server, or many.

Everything of ours that speaks to Redis does so through what `connect` returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tokenweir.ledger.address import Kind, address_of
from tokenweir.ledger.cluster import Cluster
from tokenweir.ledger.lane import Lane
from tokenweir.ledger.node import Command, Node, no_retry, node_at
from tokenweir.ledger.sentinel import SentinelPool, Sentinels


class Servers(Protocol):
    """
    One server, or all of a Cluster.

    Methods raise what redis-py does if there is no answer. What has no answer may have
    been carried out: it is never repeated here.
    """

    @property
    def losses(self) -> int:
        """
        A number that changes whenever what servers were told may have been lost.

        That is: connections were, or another server is asked than before.
        """

    def lane(self, key: str) -> Lane | None:
        """
        Return what a call about *key* may be sent on now, see `tokenweir.ledger.lane`.

        None: it is not known, or not connected, yet: `call` waits for it.
        """

    async def call(self, key: str, command: bytes, seconds: float) -> Any:
        """
        Return what is answered to *command*, packed, about *key*.

        For what is asked often: calls share a connection. A server's error is raised;
        what has no answer after so many *seconds* ends with `TimeoutError`.
        """

    async def execute(self, *command: str | int | bytes) -> Any:
        """Return what is answered to *command*; a server's error is raised."""

    async def pipelined(self, commands: Sequence[Command]) -> list[Any]:
        """Return what is answered to each of *commands*, errors among them."""

    async def nodes(self) -> Sequence[Node]:
        """Return the servers that have the keys, each once."""

    def doubt(self) -> None:
        """Take note that a call on a `lane` had no answer: addresses may be old."""

    async def drop(self, since: float) -> None:
        """
        Use no connection any more that there is now: addresses are looked up again.

        Calls that are under way keep theirs until they end. *since* is when the call
        began that shows the need (`time.monotonic`): see `PatientPool.outdate`.
        """

    async def close(self) -> None:
        """Give connections back."""


def connect(url: str) -> Servers:
    """
    Return who is at *url*; connections are made as they are needed.

    Raises: LedgerUrlError.
    """
    address = address_of(url)
    match address.kind:
        case Kind.CLUSTER:
            return Cluster(address)
        case Kind.SENTINEL:
            pool = SentinelPool(Sentinels(address), **address.options, retry=no_retry())
            return Node(pool)
        case Kind.SERVER:
            return node_at(next(iter(address.hosts), None), address.options)
