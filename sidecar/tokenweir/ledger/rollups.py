"""
Comparing hourly sums with records, and rebuilding them.

Sums and the newest record of a tag are looked at in one moment, and then the records up
to that one: so what is settled meanwhile is in neither, and an hour that is not over is
compared as exactly as any other. Whoever puts a sum right says what it was found to say.
If it says anything else by then, nothing is done, and it is looked at anew: so nothing is
ever added twice, whoever writes beside.

Tag by tag, so that the records of one are in memory at a time, and what was exported.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

from tokenweir.core.partition import tag_of
from tokenweir.core.record import HOUR_MS, hour_of
from tokenweir.core.rollups import (
    Recorded,
    RollupFinding,
    RollupVerdict,
    compare_hour,
    recorded,
)
from tokenweir.ledger.inspector import HourLook
from tokenweir.ledger.keys import ROLLUP_KEPT_MS, USERS_KEPT_MS

# How often a sum is looked at that changes while it is put right.
PASSES = 5
# Sums of one call: some milliseconds of the server's time.
BATCH = 200

_ByTag = dict[str, list[Recorded]]


class SumsInspectable(Protocol):
    """What `tokenweir.ledger.inspector.Inspector` can do about sums."""

    async def now_ms(self) -> int:
        """Return the moment, by the ledger's clock."""

    async def hours(self, first: int, last: int) -> dict[str, set[int]]:
        """Return which hours have sums, by tag; of all tags that have anything."""

    async def hour(self, tag: str, hour: int) -> HourLook:
        """Return the sums of an hour."""

    def records(
        self, tag: str, since_ms: int, last: str
    ) -> AsyncIterator[tuple[str, Mapping[str, str]]]:
        """Yield the records under *tag* up to the entry *last*, with their ids."""

    async def mend(
        self, tag: str, hour: int, findings: Sequence[RollupFinding]
    ) -> list[bool]:
        """Have sums say what they should; return of each if that was done."""


@dataclass(frozen=True, slots=True)
class RollupAudit:
    """
    What was found.

    Attributes:
        now_ms: When, by the ledger's clock.
        first_hour: Since 1970 (UTC): from then on.
        verdicts: How many sums there are of each; before a rebuild.
        differing: Those that do not say what they should; ditto.
        left: After a rebuild: those that differ still, since they changed all the time.
    """

    now_ms: int
    first_hour: int
    verdicts: Mapping[RollupVerdict, int] = field(default_factory=dict)
    differing: tuple[RollupFinding, ...] = ()
    left: tuple[RollupFinding, ...] = ()


@dataclass
class RollupAuditor:
    """
    Compares once, or rebuilds.

    Attributes:
        inspectable: Tells sums and records.
        days_ms: Hours that began within this time are looked at.
        exported: What is known from elsewhere.
    """

    inspectable: SumsInspectable
    days_ms: int
    exported: Iterable[Recorded] = ()
    _now_ms: int = 0
    _known: _ByTag = field(default_factory=dict)

    async def audit(self) -> RollupAudit:
        """
        Compare.

        Raises:
            LedgerUnavailableError: There was no answer.
            UsageRecordError: A record in a stream is none.
        """
        return await self._run(mends=False)

    async def rebuild(self) -> RollupAudit:
        """
        Compare, and have sums say what they should; what no record tells stays.

        Raises: as `audit`. What was done is done, and the next one does not find it.
        """
        return await self._run(mends=True)

    async def _run(self, *, mends: bool) -> RollupAudit:
        hours = await self._begin()
        verdicts: Counter[RollupVerdict] = Counter()
        differing: list[RollupFinding] = []
        left: list[RollupFinding] = []
        for tag in sorted({*hours, *self._known}):
            found = await self._of_tag(tag, hours.get(tag, set()), widely=True)
            verdicts.update(each.verdict for each in found)
            differing += _differing(found)
            if mends:
                left += await self._mended(tag, _differing(found))
        return RollupAudit(
            self._now_ms,
            self._first_hour,
            dict(verdicts),
            tuple(differing),
            tuple(left),
        )

    @property
    def _first_hour(self) -> int:
        return hour_of(max(0, self._now_ms - min(self.days_ms, ROLLUP_KEPT_MS)))

    async def _begin(self) -> dict[str, set[int]]:
        """Return which hours have sums, by tag."""
        self._now_ms = await self.inspectable.now_ms()
        by_tag: _ByTag = defaultdict(list)
        for each in self.exported:
            if hour_of(each.exchange.at_ms) >= self._first_hour:
                by_tag[tag_of(each.exchange.spender.tenant)].append(each)
        self._known = dict(by_tag)
        last = hour_of(self._now_ms)
        return await self.inspectable.hours(self._first_hour, last)

    async def _of_tag(
        self, tag: str, hours: AbstractSet[int], *, widely: bool
    ) -> list[RollupFinding]:
        """
        Return what is found under *tag*, of *hours*.

        *widely*: also of hours that only records tell of.
        """
        told = await self._records(tag, self._first_hour * HOUR_MS, "+")
        if widely:
            hours = hours | {
                hour_of(each.exchange.at_ms) for each in self._told(tag, told)
            }
        looks = {
            hour: await self.inspectable.hour(tag, hour)
            for hour in sorted(hours)
            if hour >= self._first_hour
        }
        # Only what was written meanwhile: until a sum is put right it may not change.
        read = max((each.exchange.entry for each in told), default=(0, 0))
        newest = max((_entry(look.last_record) for look in looks.values()), default=())
        if newest > read:
            last = "{}-{}".format(*newest)
            more = await self._records(
                tag, max(read[0], self._first_hour * HOUR_MS), last
            )
            told += [each for each in more if each.exchange.entry > read]
        return self._compared(tag, looks, told)

    def _compared(
        self, tag: str, looks: Mapping[int, HourLook], told: Iterable[Recorded]
    ) -> list[RollupFinding]:
        by_hour: dict[int, list[Recorded]] = defaultdict(list)
        for each in self._told(tag, told):
            by_hour[hour_of(each.exchange.at_ms)].append(each)
        found: list[RollupFinding] = []
        for hour, look in looks.items():
            last = _entry(look.last_record)
            seen = [
                each
                for each in by_hour[hour]
                if each.exchange.source == "export" or each.exchange.entry <= last
            ]
            has_users = self._now_ms < hour * HOUR_MS + USERS_KEPT_MS
            users = look.users if has_users else None
            found += compare_hour(hour, look.sums, users, seen)
        return found

    def _told(self, tag: str, told: Iterable[Recorded]) -> list[Recorded]:
        return [*self._known.get(tag, ()), *told]

    async def _records(self, tag: str, since_ms: int, last: str) -> list[Recorded]:
        records = self.inspectable.records(tag, since_ms, last)
        return [recorded(record, entry) async for entry, record in records]

    async def _mended(self, tag: str, left: list[RollupFinding]) -> list[RollupFinding]:
        """Have sums under *tag* say what they should; return what differs still."""
        for _ in range(PASSES):
            if not left:
                break
            # The newest first: it is the one that others write to.
            hours = {
                hour
                for hour in sorted({each.hour for each in left}, reverse=True)
                if not await self._mend(tag, hour, left)
            }
            left = (
                _differing(await self._of_tag(tag, hours, widely=False))
                if hours
                else []
            )
        return left

    async def _mend(self, tag: str, hour: int, found: Sequence[RollupFinding]) -> bool:
        """Tell if all that differs of an *hour* was put right."""
        own = [each for each in found if each.hour == hour]
        done: list[bool] = []
        for start in range(0, len(own), BATCH):
            batch = own[start : start + BATCH]
            done += await self.inspectable.mend(tag, hour, batch)
        return all(done)


def _differing(found: Iterable[RollupFinding]) -> list[RollupFinding]:
    return [each for each in found if each.verdict is RollupVerdict.DIFFERS]


def _entry(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split("-"))) if name else ()
