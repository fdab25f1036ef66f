"""
Looking at a ledger while it works: what has just been written, and what is in flight.

Every read is bounded, so that no watcher slows down those who work: a server answers
one command after the other. Only what `deploy/redis` lets a reader do is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenweir.core.holding import Holding, State
from tokenweir.ledger import keys, wire
from tokenweir.ledger.formats import require_known
from tokenweir.ledger.link import Link
from tokenweir.telemetry.hooks import LedgerEvents

Record = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A usage *record* as a stream has it, by its *id*, ``"<ms>-<number>"``."""

    id: str
    record: Record

    @property
    def at_ms(self) -> int:
        """When it was written, by the ledger's clock."""
        return int(self.id.partition("-")[0])


@dataclass(frozen=True, slots=True)
class InFlight:
    """
    Holds that nobody has accounted for.

    Attributes:
        count: How many there are; one under several tags counts under each.
        holdings: As many as were read.
    """

    count: int
    holdings: Sequence[Holding]


class LiveReader:
    """
    Reads a ledger in Redis or Valkey.

    Its methods raise `tokenweir.core.errors.LedgerUnavailableError` if there was no
    answer in time.

    Args:
        url: See `tokenweir.ledger.address`.
        events: Told of calls and of faults.
    """

    def __init__(self, url: str, events: LedgerEvents) -> None:
        self._link = Link(url, events)

    async def now_ms(self) -> int:
        """Return the time by the ledger's clock."""
        ((seconds, microseconds),) = await self._link.read([("TIME",)])
        return int(seconds) * 1_000 + int(microseconds) // 1_000

    async def entries(
        self, after: Mapping[str, str], count: int
    ) -> dict[str, list[Entry]]:
        """Return the next entries, at most *count* of each tag, *after* that of an id."""
        await require_known(self._link, after)
        commands = [
            ("XRANGE", keys.records(tag), f"({entry}", "+", "COUNT", count)
            for tag, entry in after.items()
        ]
        replies = await self._link.read(commands)
        return {
            tag: [Entry(entry.decode(), _texts(record)) for entry, record in found]
            for tag, found in zip(after, replies, strict=True)
        }

    async def in_flight(self, tags: Sequence[str], most: int) -> InFlight:
        """Return the holds under *tags*, at most so many of them."""
        await require_known(self._link, tags)
        counts = await self._link.read([("ZCARD", keys.holds(tag)) for tag in tags])
        left = most
        ranges = []
        for tag, count in zip(tags, counts, strict=True):
            if wanted := min(count, left):
                ranges.append((tag, wanted))
                left -= wanted
        indexes = await self._link.read(
            [("ZRANGE", keys.holds(tag), 0, wanted - 1) for tag, wanted in ranges]
        )
        names = [
            keys.hold(tag, hold_id.decode())
            for (tag, _), index in zip(ranges, indexes, strict=True)
            for hold_id in index
        ]
        hashes = await self._link.read([("HGETALL", name) for name in names])
        # One that ended between the two reads is a tombstone by now, or gone.
        found = [wire.holding_of(_texts(fields)) for fields in hashes if fields]
        held = [holding for holding in found if holding.state is State.HELD]
        return InFlight(sum(counts), held)

    async def close(self) -> None:
        """Give connections back."""
        await self._link.close()


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): text.decode() for name, text in fields.items()}
