"""
One look at a ledger that works: the last minute, this hour, and what is in flight.

The hour comes from the rollups, as in every other report: reading an hour's records
again would be as much work as the hour's traffic was. Their size is that of the groups
in them, and they are all that knows refusals. The minute comes from the streams, see
`tokenweir.ledger.recent`; what is in flight from the holds, at most `MOST_HOLDS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tokenweir.core.holding import Holding
from tokenweir.core.partition import all_tags, tag_of
from tokenweir.core.policy import Axis
from tokenweir.core.record import hour_of
from tokenweir.ledger.live import InFlight
from tokenweir.ledger.recent import Figures, Group, LastMinute, Tailing
from tokenweir.ledger.store import Readable
from tokenweir.ledger.usage import NO_USER, GroupBy, usage

MOST_HOLDS = 1_000
# What an exchange in flight is told by, and what it has taken.
IN_FLIGHT = ("in_flight", "reserved_tokens", "reserved_nanousd")


class Living(Tailing, Protocol):
    """What is looked at: see `tokenweir.ledger.live.LiveReader`."""

    async def now_ms(self) -> int:
        """Return the time by the ledger's clock."""

    async def in_flight(self, tags: Sequence[str], most: int) -> InFlight:
        """Return the holds under *tags*, at most so many of them."""


@dataclass(frozen=True, slots=True)
class Picture:
    """
    How a ledger stands.

    Attributes:
        at_ms: When it was looked at, by its own clock.
        hour: Since 1970 (UTC): the one that runs.
        minute: Figures of the last minute, by group.
        minute_is_whole: No record of it was skipped.
        this_hour: Figures of this hour, refusals included, by group.
        flying: Of exchanges in flight: the figures `IN_FLIGHT`, by group.
        flying_is_whole: All holds were read.
        reserved: What exchanges in flight have taken, by limit.
    """

    at_ms: int
    hour: int
    minute: Mapping[Group, Figures]
    minute_is_whole: bool
    this_hour: Mapping[Group, Figures]
    flying: Mapping[Group, Figures]
    flying_is_whole: bool
    reserved: Mapping[str, int]


class Painter:
    """
    Looks at a ledger again and again.

    Args:
        store: Has the rollups.
        reader: Has the rest.
        by: What sums are kept apart by; no hours and no days.
        tenant: Only of this one; None: of all.
    """

    def __init__(
        self,
        store: Readable,
        reader: Living,
        by: Sequence[str],
        tenant: str | None = None,
    ) -> None:
        self._store = store
        self._reader = reader
        self._by = tuple(by)
        self._tenant = tenant
        self._tags = all_tags() if tenant is None else (tag_of(tenant),)
        self._minute = LastMinute(reader, self._tags, by, tenant=tenant)

    async def look(self) -> Picture:
        """
        Return how the ledger stands.

        Raises:
            LedgerUnavailableError: There was no answer in time; look again.
        """
        now_ms = await self._reader.now_ms()
        hour = hour_of(now_ms)
        minute = await self._minute.sums(now_ms)
        groups = [GroupBy[name.upper()] for name in self._by]
        this_hour = await usage(self._store, hour, hour, groups, tenant=self._tenant)
        flying = await self._reader.in_flight(self._tags, MOST_HOLDS)
        own = [each for each in flying.holdings if self._is_own(each)]
        return Picture(
            at_ms=now_ms,
            hour=hour,
            minute=minute,
            minute_is_whole=self._minute.is_whole(now_ms),
            this_hour=this_hour,
            flying=self._by_group(own),
            flying_is_whole=flying.count <= MOST_HOLDS,
            reserved=_by_limit(own),
        )

    def _is_own(self, holding: Holding) -> bool:
        # What is held under a shared limit's tag has no labels: it is here already.
        return self._tenant in (None, holding.labels.get("tenant"))

    def _by_group(self, holdings: Sequence[Holding]) -> dict[Group, Figures]:
        found: dict[Group, Counter[str]] = {}
        for holding in holdings:
            if holding.labels:
                names = tuple(
                    holding.labels.get(name, "") or (NO_USER if name == "user" else "")
                    for name in self._by
                )
                amounts = holding.amounts
                tokens = amounts.input_tokens + amounts.output_tokens
                figures = (1, tokens, amounts.cost_nanousd)
                found.setdefault(names, Counter()).update(
                    dict(zip(IN_FLIGHT, figures, strict=True))
                )
        return {group: dict(figures) for group, figures in found.items()}


def _by_limit(holdings: Sequence[Holding]) -> dict[str, int]:
    reserved: Counter[str] = Counter()
    for holding in holdings:
        for taken in holding.taken:
            is_slot = taken.axis is Axis.CONCURRENCY
            reserved[taken.key] += 1 if is_slot else taken.taken
    return dict(reserved)
