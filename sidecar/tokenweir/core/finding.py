"""What the comparison of a budget's counter with the evidence says."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tokenweir.core.amendment import Amendment
from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.budgets import Budgets
from tokenweir.core.charges import Account
from tokenweir.core.policy import Policy, Quota
from tokenweir.core.reckoning import Doubt, Reckoned, Reckoning, Windows
from tokenweir.core.window import Window


class Verdict(enum.StrEnum):
    """Of a counter."""

    AGREES = "agrees"
    TOO_LOW = "too low"
    TOO_HIGH = "too high"
    HOLDS_DIFFER = "holds differ"  # what is reserved is not what holds have taken
    UNKNOWN = "can't tell"
    GONE = "no such budget"  # not in this policy, or with other windows


@dataclass(frozen=True, slots=True)
class Counter:
    """
    What a counter was seen to say.

    Attributes:
        end_ms: Of its window.
        low: What was spent, at a first look.
        high: Ditto, at a last; more, if exchanges were settled meanwhile.
        reserved: Taken by exchanges in flight.
        held: What holds have taken, at that very moment.
    """

    end_ms: int
    low: int = 0
    high: int = 0
    reserved: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A counter and what is known of it.

    Attributes:
        account: Where it is.
        window: Which one.
        verdict: What the comparison says.
        counter: What it says.
        low: What it should say: at least.
        high: At most.
        quota: The budget; None: there is none in this policy.
        partition: Whose it is, as its key says.
        elsewhere: See `tokenweir.core.reckoning.Reckoned`.
        doubts: Why *low* and *high* differ.
        sources: See `tokenweir.core.reckoning.Reckoned`.
    """

    account: Account
    window: Window
    verdict: Verdict
    counter: Counter
    low: int = 0
    high: int = 0
    quota: Quota | None = None
    partition: str = ""
    elsewhere: int = 0
    doubts: frozenset[Doubt] = field(default_factory=frozenset)
    sources: frozenset[str] = field(default_factory=frozenset)

    @property
    def difference(self) -> int:
        """What must be added to the counter, for sure; negative: taken away."""
        if self.quota is None:
            return 0
        if self.counter.high < self.low:
            return self.low - self.counter.high
        return min(0, self.high - self.counter.low)

    def amendment(self, *, allow_decrease: bool) -> Amendment | None:
        """Return what puts the counter right; None: nothing has to be done, or can."""
        add = self.difference if allow_decrease else max(0, self.difference)
        counter, quota = self.counter, self.quota
        if quota is None or not (add or counter.reserved != counter.held):
            return None
        thresholds = quota.budget.thresholds if quota.budget else ()
        return Amendment(
            self.account.key,
            self.window,
            counter.low,
            add,
            quota.capacity,
            thresholds,
        )


def compare(
    policy: Policy,
    windows: Windows,
    reckoning: Reckoning,
    counters: Mapping[tuple[Account, int], Counter],
) -> list[Finding]:
    """
    Return what is found of each counter and of each account, those of no use left out.

    Args:
        policy: Which budgets there are.
        windows: Those that were looked at, by calendar.
        reckoning: What counters should say.
        counters: What they say, by account and the beginning of the window.
    """
    known = dict(reckoning.accounts)
    quotas = {(quota.id, str(quota.axis)): quota for quota in Budgets(policy).all}
    for name in counters:
        if name not in known and (blank := _blank(quotas, windows, *name)):
            known[name] = blank
    found = []
    for name in sorted(
        {**known, **counters}, key=lambda each: (each[0].key, each[1], each[0].tag)
    ):
        where, begin_ms = name
        reckoned = known.get(name)
        if reckoned is None:
            found.append(_gone(where, begin_ms, counters[name]))
            continue
        counter = counters.get(name) or Counter(reckoned.window.end_ms)
        finding = _judged(where, reckoned, reckoning, counter)
        if counter != Counter(counter.end_ms) or finding.high:
            found.append(finding)
    return found


def _blank(
    quotas: Mapping[tuple[str, str], Quota],
    windows: Windows,
    where: Account,
    begin_ms: int,
) -> Reckoned | None:
    """Return the budget of a counter that there is no evidence of, if there is one."""
    quota_id, axis, partition = _parts(where.key)
    quota = quotas.get((quota_id, axis))
    if quota is None or quota.budget is None:
        return None
    for window in windows(quota.budget.calendar):
        if window.begin_ms == begin_ms:
            return Reckoned(quota, partition, window)
    return None


def _parts(key: str) -> tuple[str, str, str]:
    quota, _, rest = key.partition("|")
    axis, _, partition = rest.partition("|")
    return quota, axis, partition


def _gone(where: Account, begin_ms: int, counter: Counter) -> Finding:
    window = Window(begin_ms, counter.end_ms)
    partition = _parts(where.key)[2]
    return Finding(where, window, Verdict.GONE, counter, partition=partition)


def _judged(
    where: Account, reckoned: Reckoned, reckoning: Reckoning, counter: Counter
) -> Finding:
    smear = reckoning.smears.get((reckoned.quota.id, reckoned.window.begin_ms))
    doubts: Iterable[Doubt] = reckoned.doubts | (smear.doubts if smear else set())
    low = min(reckoned.low, MAX_SPENT)
    high = min(reckoned.high + (smear.amount if smear else 0), MAX_SPENT)
    return Finding(
        where,
        reckoned.window,
        _verdict(low, high, counter),
        counter,
        low,
        high,
        reckoned.quota,
        reckoned.partition,
        reckoned.elsewhere,
        frozenset(doubts),
        frozenset(reckoned.sources),
    )


def _verdict(low: int, high: int, counter: Counter) -> Verdict:
    if counter.high < low:
        return Verdict.TOO_LOW
    if counter.low > high:
        return Verdict.TOO_HIGH
    if counter.reserved != counter.held:
        return Verdict.HOLDS_DIFFER
    if low == high and counter.low == counter.high:
        return Verdict.AGREES
    return Verdict.UNKNOWN
