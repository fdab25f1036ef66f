"""
Comparing budgets' counters with what is written about exchanges.

The order matters, for exchanges go on: first the hourly sums are read, then counters and
holds, tag by tag, with the newest record of that very moment, and then the records up to
that one. So records never know less than sums, and of a tenant's own limits just what
their counters have counted. Limits that tenants share lie under other tags: they are
looked at twice, before and after, and what was settled meanwhile makes a range of them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from tokenweir.core.budget import Spending
from tokenweir.core.budgets import Budgets
from tokenweir.core.charges import Account, Spender
from tokenweir.core.finding import Counter, Finding, Verdict, compare
from tokenweir.core.partition import all_tags
from tokenweir.core.policy import Policy
from tokenweir.core.reckoning import (
    NOTHING_HELD,
    Held,
    Reckoning,
    Sum,
    windows_since,
)
from tokenweir.core.record import CLASSES, HOUR_MS, hour_of
from tokenweir.core.usage_record import Exchange, Exchanges, exchange_of
from tokenweir.core.window import Calendar, Window
from tokenweir.ledger.inspector import CounterName, Look
from tokenweir.ledger.store import Readable
from tokenweir.ledger.usage import FORGOTTEN_USER, NO_USER, GroupBy, usage

# All that tells sums apart.
BY = (
    GroupBy.TENANT,
    GroupBy.KEY,
    GroupBy.MODEL,
    GroupBy.PROVIDER,
    GroupBy.ROUTE,
    GroupBy.USER,
    GroupBy.HOUR,
)
# A counter that nobody had heard of may come into being while others are looked at.
PASSES = 3
_SHARED = "tw:s"

Names = dict[str, set[CounterName]]
Looks = Mapping[str, Look]


class Inspectable(Protocol):
    """What `tokenweir.ledger.inspector.Inspector` can do, without changing anything."""

    async def now_ms(self) -> int:
        """Return the moment, by the ledger's clock."""

    async def counters(self) -> Names:
        """Return which counters of budgets there are, by tag."""

    async def look(self, tag: str, counters: Sequence[CounterName]) -> Look:
        """Return what is under *tag* at one moment."""

    def records(
        self, tag: str, since_ms: int, last: str
    ) -> AsyncIterator[tuple[str, Mapping[str, str]]]:
        """Yield the records under *tag* up to the entry *last*, with their ids."""


@dataclass(frozen=True, slots=True)
class Audit:
    """
    What was found.

    Attributes:
        now_ms: When, by the ledger's clock.
        findings: Of each counter and each account.
        sums: Evidence: how many hourly sums there were.
        exchanges: Ditto: exchanges of which there is a record.
        exported: How many of them are best known from an export.
    """

    now_ms: int
    findings: tuple[Finding, ...] = ()
    sums: int = 0
    exchanges: int = 0
    exported: int = 0

    @property
    def agrees(self) -> bool:
        """Whether every counter is proven to be right."""
        return all(each.verdict is Verdict.AGREES for each in self.findings)


@dataclass
class Auditor:
    """
    Compares once.

    Attributes:
        inspectable: Tells counters, holds and records.
        readable: Tells hourly sums.
        policy: Tells which budgets there are.
        exported: What is known from elsewhere.
        since_ms: Windows that end after this moment are looked at; None: open ones.
    """

    inspectable: Inspectable
    readable: Readable
    policy: Policy
    exported: Iterable[Exchange] = ()
    since_ms: int | None = None
    _windows: dict[Calendar, tuple[Window, ...]] = field(default_factory=dict)
    _now_ms: int = 0

    async def audit(self) -> Audit:
        """
        Compare.

        Raises:
            LedgerUnavailableError: There was no answer.
            UsageRecordError: A record in a stream is none.
        """
        self._now_ms = await self.inspectable.now_ms()
        begin_ms = self._begin_ms()
        sums = await self._sums(begin_ms)
        exchanges = Exchanges()
        for exchange in self.exported:
            if exchange.at_ms >= begin_ms:
                exchanges.add(exchange)
        names = self._named(await self.inspectable.counters())
        expected = self._reckoning(exchanges, sums, NOTHING_HELD)
        _add(names, expected)
        for number in range(PASSES):
            before = await self._look(names, shared=True)
            own = await self._look(names, shared=False)
            # What was read in an earlier pass is no news to it.
            await self._read(own, begin_ms, exchanges)
            after = await self._look(names, shared=True)
            looks = {**after, **own}
            held = {tag: look.holds for tag, look in looks.items()}
            reckoning = self._reckoning(exchanges, sums, held)
            if not _add(names, reckoning) or number == PASSES - 1:
                break
        counters = _counters({**before, **own}, looks)
        return Audit(
            self._now_ms,
            tuple(compare(self.policy, self._of, reckoning, counters)),
            len(sums),
            len(exchanges.by_hold),
            sum(each.source == "export" for each in exchanges),
        )

    def _of(self, calendar: Calendar) -> tuple[Window, ...]:
        """Return the windows of *calendar* that are looked at."""
        found = self._windows.get(calendar)
        if found is None:
            since_ms = self._since_ms()
            found = windows_since(calendar, since_ms, self._now_ms)
            self._windows[calendar] = found
        return found

    def _since_ms(self) -> int:
        return self._now_ms if self.since_ms is None else self.since_ms

    def _begin_ms(self) -> int:
        """Return the beginning of the first hour that matters."""
        begins = [
            self._of(quota.budget.calendar)[0].begin_ms
            for quota in Budgets(self.policy).all
            if quota.budget is not None
        ]
        return hour_of(min(begins, default=self._since_ms())) * HOUR_MS

    async def _sums(self, begin_ms: int) -> list[Sum]:
        first, last = hour_of(begin_ms), hour_of(self._now_ms)
        found = await usage(self.readable, first, last, BY)
        # Sums of former versions tell neither provider nor route.
        provider = BY.index(GroupBy.PROVIDER)
        return [
            _sum(names, figures) for names, figures in found.items() if names[provider]
        ]

    def _named(self, counters: Names) -> Names:
        """Return a copy of *counters* that can be added to."""
        names: Names = defaultdict(set)
        for tag in all_tags():
            names[tag] = set(counters.get(tag, ()))
        return names

    def _reckoning(
        self, exchanges: Exchanges, sums: Iterable[Sum], held: Held
    ) -> Reckoning:
        reckoning = Reckoning(self.policy, self._of)
        reckoning.reckon(exchanges, sums, held)
        return reckoning

    async def _look(self, names: Names, *, shared: bool) -> Looks:
        tags = [tag for tag in names if tag.startswith(_SHARED) is shared]
        looks = await asyncio.gather(*(self._one(tag, names[tag]) for tag in tags))
        return dict(zip(tags, looks, strict=True))

    async def _one(self, tag: str, names: Iterable[CounterName]) -> Look:
        look = await self.inspectable.look(tag, sorted(names))
        since_ms = self._since_ms()
        # Windows that ended before are nobody's business.
        return Look(
            look.last_record,
            {
                name: spending
                for name, spending in look.spendings.items()
                if spending.end_ms > since_ms
            },
            look.taken,
            look.holds,
        )

    async def _read(self, looks: Looks, begin_ms: int, into: Exchanges) -> None:
        for tag, look in looks.items():
            if look.last_record:
                records = self.inspectable.records(tag, begin_ms, look.last_record)
                async for entry, record in records:
                    exchange = exchange_of(record, entry)
                    if exchange.at_ms >= begin_ms:
                        into.add(exchange)


def _add(names: Names, reckoning: Reckoning) -> bool:
    """Add the accounts of *reckoning* to *names*; tell if any was missing."""
    missing = False
    for where, begin_ms in reckoning.accounts:
        if (where.key, begin_ms) not in names[where.tag]:
            names[where.tag].add((where.key, begin_ms))
            missing = True
    return missing


def _counters(first: Looks, last: Looks) -> dict[tuple[Account, int], Counter]:
    counters = {}
    for tag, look in first.items():
        later = last[tag]
        for key, begin_ms in {**look.spendings, **later.spendings}:
            name = key, begin_ms
            now = later.spendings.get(name)
            then = look.spendings.get(name) or Spending(now.end_ms if now else 0)
            now = now or then
            counters[Account(tag, key), begin_ms] = Counter(
                now.end_ms,
                min(then.spent, now.spent),
                max(then.spent, now.spent),
                now.reserved,
                later.taken.get(name, 0),
            )
    return counters


def _sum(names: tuple[str, ...], figures: Mapping[str, int]) -> Sum:
    tenant, key, model, provider, route, user, hour = names
    asked = None if figures.get("downgraded") else ""
    spender = Spender(
        tenant,
        key,
        {NO_USER: "", FORGOTTEN_USER: None}.get(user, user),
        route,
        model,
        provider,
        asked,
    )
    return Sum(
        hour_of(round(datetime.fromisoformat(hour).timestamp()) * 1_000),
        spender,
        figures.get("exchanges", 0),
        figures.get("downgraded", 0),
        sum(figures.get(name, 0) for name in CLASSES),
        figures.get("cost_nanousd", 0),
    )
