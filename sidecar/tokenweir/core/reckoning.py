"""
What budgets' counters should say, told from what is written about exchanges.

Theory of operation
===================

There are two kinds of evidence. Records are of single exchanges and name their moment;
they come from the ledger's streams, which keep them for a week, and from wherever they
were exported to. Sums are of an hour and a group of exchanges, and are kept for much
longer. Both were written with the counters, so all three agree, unless one of them lost
something.

For each hour and group the evidence that tells of more exchanges is taken, and records
where both tell of as many: they say more of each.

What can't be told is not guessed. A counter is reckoned as a range, from what is sure to
the most that is possible, and every reason why the two differ is named (`Doubt`). So "it
may be so" is never taken for "it is so".

An exchange belongs to the window and to the hour in which it was reserved. What was
settled counts, whenever that was; what is held does not count yet.

All figures are as of *this* policy: a budget that is new is reckoned as if it had been
there all along. How much of it was spent under other policies is told (`elsewhere`).
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tokenweir.core.budgets import Budgets
from tokenweir.core.charges import Account, Charge, Spender, account, charges
from tokenweir.core.partition import tag_of
from tokenweir.core.policy import Axis, Policy, Quota
from tokenweir.core.record import HOUR_MS, hour_of
from tokenweir.core.usage_record import Exchange, Exchanges
from tokenweir.core.window import Calendar, Window, windows_at


class Doubt(enum.StrEnum):
    """Why a counter can't be reckoned exactly."""

    HOUR = "only an hour's sum is known, and the window begins or ends within it"
    DOWNGRADED = "exchanges were downgraded, and it is not known by which budget"
    USERS = "sums by end user are no longer kept for some of its hours"
    HELD = "exchanges have ended, says an export, and the ledger still holds them"


@dataclass(frozen=True, slots=True)
class Sum:
    """
    What one hour's exchanges of one group used.

    Attributes:
        hour: Since 1970 (UTC).
        spender: The group. Its user is None if some are named and no longer known.
        exchanges: Their number.
        downgraded: How many of them.
        tokens: All classes.
        cost_nanousd: Their cost.
    """

    hour: int
    spender: Spender
    exchanges: int
    downgraded: int
    tokens: int
    cost_nanousd: int


@dataclass(slots=True)
class Reckoned:
    """
    What a counter should say.

    Attributes:
        quota: The budget.
        partition: Whose.
        window: In which.
        low: What is sure, in nano-USD or tokens.
        high: The most that is possible.
        elsewhere: How much of *low* was spent under other policies, as records say.
        doubts: Why *low* is not *high*.
        sources: Where it is known from, such as ``"records"``.
    """

    quota: Quota
    partition: str
    window: Window
    low: int = 0
    high: int = 0
    elsewhere: int = 0
    doubts: set[Doubt] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Smear:
    """What some counters of a budget in a window count, nobody knows which."""

    amount: int = 0
    doubts: set[Doubt] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Use:
    spender: Spender
    begin_ms: int
    end_ms: int
    tokens: int
    cost_nanousd: int
    source: str
    exchange: Exchange | None = None


Windows = Callable[[Calendar], Sequence[Window]]
# Ids of the holds under each tag.
Held = Mapping[str, Collection[str]]
NOTHING_HELD: Held = MappingProxyType({})
# Of a group: tenant, key, model, provider, route; see `tokenweir.core.record.GROUP`.
_Group = tuple[int, str, str, str, str, str]


def windows_since(rule: Calendar, since_ms: int, now_ms: int) -> tuple[Window, ...]:
    """Return the windows that end after *since_ms*, up to the present one."""
    window = windows_at(rule, now_ms).current
    found = [window]
    while window.begin_ms > since_ms:
        window = windows_at(rule, window.begin_ms - 1).current
        found.append(window)
    return tuple(reversed(found))


class Reckoning:
    """
    Args:
        policy: Which budgets there are.
        windows: Those of a calendar that are looked at, in order.

    Attributes:
        accounts: By account and the beginning of the window.
        smears: By a quota's id and the beginning of the window.
    """

    def __init__(self, policy: Policy, windows: Windows) -> None:
        self.accounts: dict[tuple[Account, int], Reckoned] = {}
        self.smears: dict[tuple[str, int], Smear] = defaultdict(Smear)
        self._policy = policy
        self._budgets = Budgets(policy)
        self._windows = windows
        self._held = NOTHING_HELD
        self._charges: dict[Spender, tuple[Charge, ...]] = {}

    def reckon(
        self,
        exchanges: Exchanges,
        sums: Iterable[Sum],
        held: Held = NOTHING_HELD,
    ) -> None:
        """Count *exchanges* and *sums*, each hour and group by the better of the two."""
        self._held = held
        records: dict[_Group, list[Exchange]] = defaultdict(list)
        for exchange in exchanges:
            hour = hour_of(exchange.at_ms)
            records[_group(hour, exchange.spender)].append(exchange)
        rows: dict[_Group, list[Sum]] = defaultdict(list)
        for row in sums:
            rows[_group(row.hour, row.spender)].append(row)
        for group in {**records, **rows}:
            told = records.get(group, [])
            self._count_all(told)
            known = sum(map(exchanges.counted, told))
            if known < sum(row.exchanges for row in rows.get(group, ())):
                self._count_rest(told, rows[group])

    def _count_all(self, exchanges: Iterable[Exchange]) -> None:
        for exchange in exchanges:
            self._count(
                _Use(
                    exchange.spender,
                    exchange.at_ms,
                    exchange.at_ms + 1,
                    exchange.tokens,
                    exchange.cost_nanousd,
                    exchange.source,
                    exchange,
                )
            )

    def _count_rest(self, told: Iterable[Exchange], rows: Iterable[Sum]) -> None:
        """Count what *rows* tell beyond *told*."""
        by_user: dict[str | None, list[Exchange]] = defaultdict(list)
        rows = tuple(rows)
        named = {row.spender.user for row in rows}
        for exchange in told:
            user = exchange.spender.user
            by_user[user if user in named else None].append(exchange)
        for row in rows:
            known = by_user[row.spender.user]
            downgraded = sum(each.spender.downgraded_from != "" for each in known)
            asked = None if row.downgraded > downgraded else ""
            begin_ms = row.hour * HOUR_MS
            self._count(
                _Use(
                    replace(row.spender, downgraded_from=asked),
                    begin_ms,
                    begin_ms + HOUR_MS,
                    max(0, row.tokens - sum(each.tokens for each in known)),
                    max(0, row.cost_nanousd - sum(each.cost_nanousd for each in known)),
                    "sums",
                )
            )

    def _count(self, use: _Use) -> None:
        for charge in self._charged(use.spender):
            budget = charge.quota.budget
            assert budget is not None
            is_money = charge.quota.axis is Axis.BUDGET_USD
            amount = use.cost_nanousd if is_money else use.tokens
            if not amount:
                continue
            for window in self._windows(budget.calendar):
                if window.begin_ms < use.end_ms and use.begin_ms < window.end_ms:
                    self._charge(charge, window, use, amount)

    def _charge(self, charge: Charge, window: Window, use: _Use, amount: int) -> None:
        doubts = _doubts(charge, window, use)
        begin_ms = window.begin_ms
        if charge.partition is None:
            smear = self.smears[charge.quota.id, begin_ms]
            smear.amount += amount
            smear.doubts |= doubts
            return
        where = account(charge.quota, charge.partition, use.spender.tenant)
        if self._is_held(use.exchange, where.tag):
            if not self._is_known_to_have_ended(use):
                return
            doubts.add(Doubt.HELD)
        reckoned = self.accounts.get((where, begin_ms))
        if reckoned is None:
            reckoned = Reckoned(charge.quota, charge.partition, window)
            self.accounts[where, begin_ms] = reckoned
        reckoned.high += amount
        reckoned.doubts |= doubts
        reckoned.sources.add(use.source)
        if not doubts:
            reckoned.low += amount
            digest = use.exchange.policy if use.exchange else self._policy.digest
            reckoned.elsewhere += amount if digest != self._policy.digest else 0

    def _is_held(self, exchange: Exchange | None, tag: str) -> bool:
        return exchange is not None and exchange.hold_id in self._held.get(tag, ())

    def _is_known_to_have_ended(self, use: _Use) -> bool:
        """
        Tell if what the ledger still holds was settled, for all that is known.

        Under a tag of its own it was, if its tenant's tag holds it no longer or again:
        there the hold goes on, and counts as reserved. Otherwise only who has seen the
        settle of it elsewhere can know.
        """
        own = tag_of(use.spender.tenant)
        exchange = use.exchange
        return (
            exchange is not None
            and not exchange.is_lost
            and exchange.hold_id in self._held.get(own, ())
        )

    def _charged(self, spender: Spender) -> tuple[Charge, ...]:
        found = self._charges.get(spender)
        if found is None:
            budgets = self._budgets.of(spender.tenant, spender.key)
            found = self._charges[spender] = charges(self._policy, budgets, spender)
        return found


def _group(hour: int, spender: Spender) -> _Group:
    return (
        hour,
        spender.tenant,
        spender.key,
        spender.model,
        spender.provider,
        spender.route,
    )


def _doubts(charge: Charge, window: Window, use: _Use) -> set[Doubt]:
    doubts = set()
    if use.begin_ms < window.begin_ms or use.end_ms > window.end_ms:
        doubts.add(Doubt.HOUR)
    by_user = use.spender.user is None and "user" in charge.quota.partition
    if by_user:
        doubts.add(Doubt.USERS)
    if not charge.is_certain or (charge.partition is None and not by_user):
        doubts.add(Doubt.DOWNGRADED)
    return doubts
