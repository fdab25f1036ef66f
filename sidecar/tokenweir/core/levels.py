"""
The levels of all limits under one tag: buckets, slots, budgets, by the limit's key.

A hold *moves* its limits: from what was debited for it so far to what shall have
been debited from now on, and from reserved to not reserved or back.

WARNING: `ledger/lua/levels.lua` is this module's twin. Change both, and run
`tests/ledger/test_parity.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tokenweir.core import bucket, budget, stagger
from tokenweir.core.bucket import Bucket
from tokenweir.core.budget import Crossing, Spending
from tokenweir.core.hold import Amounts, Limit, LimitState, amount_of
from tokenweir.core.holding import Holding, State, Taken, key_of
from tokenweir.core.policy import BUDGETS, Axis
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.slots import MAX_DURATION_MS, Slots, slot_names
from tokenweir.core.window import Window

# What has no level that is earned back.
_UNLEVELLED = BUDGETS | {Axis.CONCURRENCY}


@dataclass(slots=True)
class Levels:
    """
    Attributes:
        buckets: Of limits per minute, by `tokenweir.core.holding.key_of`.
        slots: Of limits on concurrency, ditto.
        spendings: Of budgets, by that key and the start of the window.
        crossings: Thresholds that were passed and not told yet.
        cursors: When the last refused caller was told to come back, by limit and queue.
    """

    buckets: dict[str, Bucket] = field(default_factory=dict)
    slots: dict[str, Slots] = field(default_factory=dict)
    spendings: dict[tuple[str, int], Spending] = field(default_factory=dict)
    crossings: list[Crossing] = field(default_factory=list)
    cursors: dict[str, int] = field(default_factory=dict)

    def failure(
        self, limit: Limit, amounts: Amounts, now_ms: int, slots: int = 1
    ) -> QuotaFailure | None:
        """
        Return why *amounts* do not fit into *limit* now; None: they do.

        *slots* is how many exchanges they are for.
        """
        requested = amount_of(limit.axis, amounts)
        if limit.axis is Axis.CONCURRENCY:
            taken = self._slots(key_of(limit))
            used, reserved = 0, taken.prune(now_ms)
            wait_ms = taken.wait_ms(limit.capacity)
            fits = reserved + slots <= limit.capacity
        elif limit.axis in BUDGETS:
            spending = self._spending(key_of(limit), _window(limit, now_ms))
            used, reserved = spending.spent, spending.reserved
            wait_ms = spending.end_ms - now_ms
            fits = budget.fits(spending, limit.most, requested)
        else:
            level = self._tuned(limit, now_ms)
            used, reserved = level.used, level.reserved
            wait_ms = bucket.wait_ms(level, requested)
            fits = wait_ms == 0
        if fits:
            return None
        return QuotaFailure(
            limit.quota,
            limit.axis,
            limit.partition,
            limit.most,
            used,
            reserved,
            requested,
            wait_ms,
            limit.shadow,
            limit.rate,
        )

    def staggered(
        self, limit: Limit, failure: QuotaFailure, now_ms: int
    ) -> QuotaFailure:
        """Return *failure* of *limit* with a moment to come back that is its own."""
        if not limit.staggered or limit.axis in BUDGETS:
            return failure
        key, wait_ms = key_of(limit), failure.wait_ms
        name = f"{key}|{limit.queue}" if limit.queue else key
        if limit.axis is Axis.CONCURRENCY:
            step = self._slots(key).step_ms(limit.capacity)
        else:
            step = stagger.step_ms(failure.requested, limit.rate)
        cursor = self.cursors.get(name, 0)
        place = stagger.place_ms(cursor, now_ms, wait_ms, step)
        self.cursors[name] = place
        return replace(failure, stagger_ms=place - now_ms - wait_ms)

    def state(self, limit: Limit, now_ms: int) -> LimitState:
        """Return how *limit* stands."""
        if limit.axis is Axis.CONCURRENCY:
            slots = self._slots(key_of(limit))
            left = limit.capacity - slots.prune(now_ms)
            return LimitState(limit, max(0, left), slots.reset_ms)
        if limit.axis in BUDGETS:
            spending = self._spending(key_of(limit), _window(limit, now_ms))
            left = spending.remaining(limit.capacity)
            return LimitState(limit, left, spending.end_ms - now_ms)
        level = self._tuned(limit, now_ms)
        return LimitState(limit, level.remaining, level.reset_ms)

    def retune(self, limits: Iterable[Limit], now_ms: int) -> None:
        """Give the buckets of *limits* the rate and capacity that hold now."""
        for limit in limits:
            if limit.axis not in _UNLEVELLED:
                self.buckets[key_of(limit)] = self._tuned(limit, now_ms)

    def rebase(self, limits: Iterable[Limit], now_ms: int) -> None:
        """
        Take the word of the clock and of the policy for *limits* that were refused.

        A refusal changes no level. But a bucket whose moment lies ahead would earn
        nothing until then, and one with the rate of an older policy would earn at
        that: the wait that was told would be wrong, again and again.
        """
        for limit in limits:
            stored = self.buckets.get(key_of(limit))
            if stored is not None and (
                stored.as_of_ms > now_ms
                or (stored.rate, stored.capacity) != (limit.rate, limit.capacity)
            ):
                self.buckets[key_of(limit)] = self._tuned(limit, now_ms)

    def move(
        self,
        hold_id: str,
        before: Holding,
        amounts: Amounts,
        until_ms: int | None,
        now_ms: int,
    ) -> tuple[Taken, ...]:
        """
        Debit the limits of *before* by *amounts* instead of by what they were.

        Args:
            hold_id: Whose slots they are.
            before: What was debited, and if it counts as reserved.
            amounts: What shall have been debited.
            until_ms: When slots expire; None: it is not held from now on.
            now_ms: The moment.

        Returns:
            What is debited now.
        """
        after = []
        for taken in before.taken:
            amount = amount_of(taken.axis, amounts)
            was_reserved = taken.taken if before.state is State.HELD else 0
            reserve = (0 if until_ms is None else amount) - was_reserved
            if taken.axis is Axis.CONCURRENCY:
                amount = before.slots
                self._occupy(taken, hold_id, amount, until_ms)
            elif taken.axis in BUDGETS:
                self._spend(taken, amount - taken.taken - reserve, reserve)
            else:
                self._book(taken, amount - taken.taken, reserve, now_ms)
            after.append(replace(taken, taken=amount))
        return tuple(after)

    def forget(self, now_ms: int) -> None:
        """Drop the buckets that have been full for a day, and windows long gone."""
        for key, stored in tuple(self.buckets.items()):
            idle_ms = now_ms - stored.as_of_ms
            if idle_ms > stored.reset_ms + MAX_DURATION_MS and not stored.reserved:
                del self.buckets[key]
        for name, spending in tuple(self.spendings.items()):
            if spending.end_ms + budget.KEPT_MS <= now_ms:
                del self.spendings[name]
        for key, moment in tuple(self.cursors.items()):
            if moment <= now_ms:
                del self.cursors[key]

    def learn(self, before: Holding, duration_ms: int) -> None:
        """Take note of how long the slots of *before* were held; 0: unknown."""
        for taken in before.taken:
            if taken.axis is Axis.CONCURRENCY and duration_ms:
                self._slots(taken.key).learn(duration_ms)

    def _occupy(
        self, taken: Taken, hold_id: str, count: int, until_ms: int | None
    ) -> None:
        slots = self._slots(taken.key)
        names = slot_names(hold_id, max(count, taken.taken))
        kept = 0 if until_ms is None else count
        for name in names[kept:]:
            slots.until_ms.pop(name, None)
        if until_ms is not None:
            slots.until_ms.update(dict.fromkeys(names[:kept], until_ms))

    def _spend(self, taken: Taken, spent: int, reserve: int) -> None:
        if not spent and not reserve:
            return
        window = taken.window
        spending = self._spending(taken.key, window)
        spending = budget.spend(spending, spent=spent, reserve=reserve)
        percent = budget.passed(spending.spent, taken.capacity, taken.thresholds)
        if percent > spending.told:
            spending = replace(spending, told=percent)
            self.crossings.append(
                Crossing(taken.key, percent, spending.spent, taken.capacity, window)
            )
        self.spendings[taken.key, window.begin_ms] = spending

    def _spending(self, key: str, window: Window) -> Spending:
        return self.spendings.get((key, window.begin_ms)) or Spending(window.end_ms)

    def _book(self, taken: Taken, debit: int, reserve: int, now_ms: int) -> None:
        if debit or reserve:
            stored = self.buckets.get(taken.key)
            if stored is None:
                stored = bucket.full(taken.rate, taken.capacity, now_ms)
            stored = bucket.refill(stored, now_ms)
            self.buckets[taken.key] = bucket.book(stored, debit=debit, reserve=reserve)

    def _tuned(self, limit: Limit, now_ms: int) -> Bucket:
        stored = self.buckets.get(key_of(limit))
        if stored is None:
            return bucket.full(limit.rate, limit.capacity, now_ms)
        return bucket.retune(bucket.refill(stored, now_ms), limit.rate, limit.capacity)

    def _slots(self, key: str) -> Slots:
        return self.slots.setdefault(key, Slots())


def _window(limit: Limit, now_ms: int) -> Window:
    window = budget.window_at(limit.turns, now_ms)
    assert window is not None, "a stale share is turned away before"
    return window
