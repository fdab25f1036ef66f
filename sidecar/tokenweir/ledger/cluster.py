"""
The nodes of a Cluster: each call goes to the one that has its slot.

What a call may do when it is sent elsewhere, since it has not been carried out:

* MOVED: ask the node that is named; the map is put right, and read anew soon.
* ASK: the slot is on its way to another node; ask that one, this once.
* TRYAGAIN: a part of the tag is here and a part there. Wait a little, a few times: calls
  that change a tag are refused on both sides until it has moved as a whole, see
  `tokenweir.ledger.keys.guard`.

Nothing else is repeated: it may have been carried out. But whenever a node gives no
answer the map is read anew, in the background, by one at a time and not more often than
every `REFRESH_SECONDS`: many calls that fail at once ask once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tokenweir.ending import end_tasks, within
from tokenweir.ledger.address import Address, HostPort
from tokenweir.ledger.lane import Lane
from tokenweir.ledger.node import Command, Node, node_at
from tokenweir.ledger.slot_map import SlotMap, slot_map_of, slot_of, slot_of_key

REFRESH_SECONDS = 0.5
# Of each node that is asked for the map.
ASK_SECONDS = 1.0
# A slot that moves answers with ASK and TRYAGAIN by turns. The pauses, each a step longer
# than the one before, are together shorter than a call may take.
MAX_REDIRECTIONS = 8
PAUSE_SECONDS = 0.005

# After these the map may be an old one; CancelledError: the deadline has passed.
_LOST = (
    RedisConnectionError,
    RedisTimeoutError,
    ClusterDownError,
    OSError,
    TimeoutError,
    asyncio.CancelledError,
)


# Asks a node, and says ASKING first or not.
Send = Callable[[Node, bool], Awaitable[Any]]


class NoNodeError(RedisConnectionError):
    """No node of the Cluster has this slot, as far as its nodes know."""


class Cluster:
    """
    Args:
        address: Of some nodes.
    """

    def __init__(self, address: Address) -> None:
        self._options = address.options
        self._seeds = address.hosts
        self._nodes: dict[HostPort, Node] = {}
        self._slots: SlotMap = []
        self._primaries: list[HostPort] = []
        self._reading: asyncio.Task[None] | None = None
        self._read_at = 0.0
        self._first = 0
        self._losses = 0
        self._retiring: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def execute(self, *command: str | int | bytes) -> Any:
        """Return what the node says that has the command's slot, or any if none."""
        slot = slot_of(command)
        if slot is None:
            return await self._by_any(command)

        def send(node: Node, is_asking: bool) -> Awaitable[Any]:  # noqa: FBT001
            return (node.asking if is_asking else node.execute)(*command)

        return await self._at_owner(slot, send)

    def lane(self, key: str) -> Lane | None:
        """See `tokenweir.ledger.servers.Servers`."""
        host = self._slots[slot_of_key(key)] if self._slots else None
        node = None if host is None else self._nodes.get(host)
        return None if node is None else node.lane(key)

    async def call(self, key: str, command: bytes, seconds: float) -> Any:
        """See `tokenweir.ledger.servers.Servers`."""

        def send(node: Node, is_asking: bool) -> Awaitable[Any]:  # noqa: FBT001
            return node.call(key, command, seconds, is_asking=is_asking)

        return await self._at_owner(slot_of_key(key), send)

    async def _at_owner(self, slot: int, send: Send) -> Any:
        """Return what is answered by the node that has *slot*, found out by asking."""
        node, is_asking, tries = await self._owner(slot), False, 0
        while True:
            try:
                return await self._heard(send(node, is_asking))
            except (AskError, TryAgainError) as error:
                tries += 1
                if tries > MAX_REDIRECTIONS:
                    raise
                if isinstance(error, AskError):
                    node, is_asking = self._named(error, node, slot)
                else:
                    await asyncio.sleep(PAUSE_SECONDS * tries)
                    node, is_asking = await self._owner(slot), False

    async def pipelined(self, commands: Sequence[Command]) -> list[Any]:
        """Return what is answered to each of *commands*, errors among them."""
        groups: dict[Node, list[int]] = defaultdict(list)
        for number, command in enumerate(commands):
            slot = slot_of(command)
            node = (await self.nodes())[0] if slot is None else await self._owner(slot)
            groups[node].append(number)
        calls = [
            self._send_all(node, [commands[number] for number in numbers])
            for node, numbers in groups.items()
        ]
        # Whatever becomes of one node, the others are asked to the end.
        found = await asyncio.gather(*calls, return_exceptions=True)
        replies: dict[int, Any] = {}
        for numbers, told in zip(groups.values(), found, strict=True):
            if isinstance(told, BaseException):
                raise told
            replies.update(zip(numbers, told, strict=True))
        return [
            await self._followed(command, replies[number])
            for number, command in enumerate(commands)
        ]

    async def nodes(self) -> Sequence[Node]:
        """Return all primaries, one that answered lately first."""
        await self._map_read()
        hosts = self._primaries
        if not hosts:
            raise NoNodeError("no node has any slot")
        first = self._first % len(hosts)
        return [self._node(host) for host in (*hosts[first:], *hosts[:first])]

    @property
    def losses(self) -> int:
        """See `tokenweir.ledger.servers.Servers`."""
        return self._losses + sum(node.losses for node in self._nodes.values())

    def doubt(self) -> None:
        """See `tokenweir.ledger.servers.Servers`."""
        self._read_soon()

    async def drop(self, since: float) -> None:
        """See `tokenweir.ledger.servers.Servers`."""
        for node in tuple(self._nodes.values()):
            await node.drop(since)
        self._read_soon()

    async def close(self) -> None:
        """Give connections back."""
        self._is_closed = True
        await end_tasks(*self._retiring, self._reading)
        for node in self._nodes.values():
            await node.close()

    async def _by_any(self, command: Command) -> Any:
        nodes = await self.nodes()
        for node in nodes:
            try:
                return await self._heard(node.execute(*command))
            except _LOST as error:
                self._first += 1
                if node is nodes[-1] or isinstance(error, asyncio.CancelledError):
                    raise
        raise NoNodeError("there is no node")

    async def _heard(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except _LOST:
            self._read_soon()
            raise

    async def _send_all(self, node: Node, commands: Sequence[Command]) -> list[Any]:
        try:
            return await node.pipelined(commands)
        except _LOST:
            self._read_soon()
            raise

    async def _followed(self, command: Command, reply: Any) -> Any:
        """Return *reply*, or what is answered where it says to ask."""
        if not isinstance(reply, AskError | TryAgainError):
            return reply
        try:
            return await self.execute(*command)
        except ResponseError as error:
            return error

    async def _owner(self, slot: int) -> Node:
        await self._map_read()
        host = self._slots[slot]
        if host is None:
            self._read_soon()
            raise NoNodeError("no node has this slot")
        return self._node(host)

    def _named(self, error: AskError, asked: Node, slot: int) -> tuple[Node, bool]:
        """Return the node that *error* names, and whether it is to be told ASKING."""
        host = (error.host or asked.host, error.port)
        if isinstance(error, MovedError):
            self._slots[slot] = host
            self._read_soon()
            return self._node(host), False
        return self._node(host), True

    def _node(self, host: HostPort) -> Node:
        node = self._nodes.get(host)
        if node is None:
            node = self._nodes[host] = node_at(host, self._options)
        return node

    # === the map ===============================================================

    async def _map_read(self) -> None:
        """Return once there is a map. A caller that is cancelled leaves it at work."""
        if not self._slots:
            await asyncio.shield(self._read())

    def _read_soon(self) -> None:
        is_due = time.monotonic() - self._read_at >= REFRESH_SECONDS
        if is_due and not self._is_closed:
            self._read()

    def _read(self) -> asyncio.Task[None]:
        if self._reading is None or self._reading.done():
            self._read_at = time.monotonic()
            self._reading = asyncio.create_task(self._read_map())
            self._reading.add_done_callback(_retrieve)
        return self._reading

    async def _read_map(self) -> None:
        """Ask one node after the other. Raises what the last one did."""
        hosts = list(self._nodes)
        random.shuffle(hosts)
        why: Exception = NoNodeError("there is no node")
        for host in dict.fromkeys((*hosts, *self._seeds)):
            try:
                # All wait for a map that is being read, so that must end.
                question = self._node(host).execute("CLUSTER", "SLOTS")
                reply = await within(ASK_SECONDS, question)
                self._use(slot_map_of(reply, host))
            except (RedisError, OSError, TimeoutError) as error:
                why = error
            else:
                return
        raise why

    def _use(self, slots: SlotMap) -> None:
        self._slots = slots
        self._primaries = [host for host in dict.fromkeys(slots) if host is not None]
        for host in self._nodes.keys() - set(self._primaries):
            node = self._nodes.pop(host)
            # Whoever has its slots now need not have heard of all that it was told.
            self._losses += node.losses + 1
            retiring = asyncio.create_task(node.retire())
            self._retiring.add(retiring)
            retiring.add_done_callback(self._retired)

    def _retired(self, retiring: asyncio.Task[None]) -> None:
        self._retiring.discard(retiring)
        # As little need be known of what it was told last.
        self._losses += 1


def _retrieve(reading: asyncio.Task[None]) -> None:
    # Whoever waited for it may be gone: then nobody else asks how it ended.
    if not reading.cancelled():
        reading.exception()
