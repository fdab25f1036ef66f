"""
Slices of limits, out of which a processor admits by itself.

Theory of operation
===================

A slice is a hold that the ledger has granted for several exchanges at once. Whoever
has it gives parts of it away, one to each exchange, until what is left is too little
for the next one. What was given away never comes back: at its end an exchange is carved
out of the slice in the ledger (`tokenweir.core.tag`), and what it did not use goes to
the ledger's levels, where everybody has it. So the sum of what is given away is at most
what was leased, whatever happens in between, and no two parties need agree on what an
exchange still holds.

A slice is as large as what the same limits were asked for in about a second, but at
most a share of each limit, so that others find something too. If that is less than a few
exchanges, there is nothing to gain: then each asks the ledger.

A slice is used for a while only. Then, or once nobody asks any more, or once a budget's
window has turned, its rest is given back.

Times are of the caller's own clock, in ms, which never steps back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tokenweir.core.bucket import MAX_TOKENS
from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.hold import Amounts, Limit, LimitState, amount_of
from tokenweir.core.policy import BUDGETS, Axis

# For how long exchanges are admitted out of a slice. It lives longer in the ledger, by
# as much as a hold does: whoever is admitted last has that long to say that it lives.
AGE_MS = 10_000
# Without a taker for so long its rest is somebody else's.
IDLE_MS = 1_000
# After a refusal: limits that are nearly used up are asked one by one.
REST_MS = 1_000
# A window of a budget ends by the ledger's clock, which need not run like ours.
MARGIN_MS = 1_000

# How many exchanges a slice is for. Fewer save nothing.
LEAST, MOST = 4, 256
# A slice is at most this share of a limit, and so is the rest of all of them together.
SHARE = 16
_SECOND_MS = 1_000
_NOTHING = Amounts(0)


@dataclass(frozen=True, slots=True)
class Lot:
    """What a slice is asked to hold: for so many *exchanges*, so much in all."""

    exchanges: int
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class Slice:
    """
    What is left of a slice.

    Attributes:
        id: Of the hold in the ledger.
        exchanges: How many may still be admitted.
        free: What they may take, all together.
        made_ms: When it was asked for.
        used_ms: When it was taken from last.
        ends_ms: From when on nobody is admitted out of it.
        states: How the limits stood when it was granted.
    """

    id: str
    exchanges: int
    free: Amounts
    made_ms: int
    used_ms: int
    ends_ms: int
    states: tuple[LimitState, ...] = ()

    def fits(self, amounts: Amounts) -> bool:
        """Tell if an exchange of *amounts* is within it."""
        return self.exchanges > 0 and within(amounts, self.free)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to give back."""
        return not self.exchanges and self.free == _NOTHING

    def take(self, amounts: Amounts, now_ms: int) -> Slice:
        """Return what is left after an exchange that `fits`."""
        return replace(
            self,
            exchanges=self.exchanges - 1,
            free=less(self.free, amounts),
            used_ms=now_ms,
        )

    def is_over(self, now_ms: int) -> bool:
        """Tell if nobody is admitted out of it any more."""
        return now_ms >= self.ends_ms

    def is_idle(self, now_ms: int) -> bool:
        """Tell if nobody has taken from it for a while."""
        return now_ms - self.used_ms >= IDLE_MS

    def states_now(self) -> tuple[LimitState, ...]:
        """Return how the limits stand as far as is known: without others' doings."""
        return tuple(
            replace(state, remaining=state.remaining + self._left(state.limit))
            for state in self.states
        )

    def _left(self, limit: Limit) -> int:
        if limit.axis is Axis.CONCURRENCY:
            return self.exchanges
        return amount_of(limit.axis, self.free)


@dataclass(slots=True)
class Book:
    """
    What one processor has leased of one set of limits, and how much it is asked for.

    Attributes:
        limits: They.
        slice: Out of which exchanges are admitted, or None.
        usual: What an exchange takes, on average.
        rests_until_ms: Until then nothing is leased.
    """

    limits: tuple[Limit, ...]
    slice: Slice | None = None
    usual: Amounts = _NOTHING
    rests_until_ms: int = 0
    _second: int = 0
    _arrived: int = 0
    _arrived_before: int = 0

    def arrive(self, amounts: Amounts, now_ms: int) -> None:
        """Take note that an exchange of *amounts* asks to be admitted."""
        second = now_ms // _SECOND_MS
        if second != self._second:
            is_next = second == self._second + 1
            self._arrived_before = self._arrived if is_next else 0
            self._second, self._arrived = second, 0
        self._arrived += 1
        self.usual = _moved(self.usual, amounts) if self.usual.requests else amounts

    def take(self, amounts: Amounts, now_ms: int) -> Slice | None:
        """Admit an exchange, and return what it was taken out of; None: ask the ledger."""
        found = self.slice
        if found is None or found.is_over(now_ms) or not found.fits(amounts):
            return None
        self.slice = found.take(amounts, now_ms)
        return self.slice

    def lot(
        self, amounts: Amounts, now_ms: int, free_of: Callable[[Limit], int]
    ) -> Lot | None:
        """
        Return what to lease, if that is worth it now.

        Args:
            amounts: Of the exchange that waits for it.
            now_ms: The moment.
            free_of: What other slices of this processor have left of a limit.
        """
        if now_ms < self.rests_until_ms:
            return None
        count = min(MOST, max(self._arrived, self._arrived_before))
        for limit in self.limits:
            each = (
                1
                if limit.axis is Axis.CONCURRENCY
                else amount_of(limit.axis, self.usual)
            )
            room = limit.capacity // SHARE - free_of(limit)
            count = min(count, room // max(1, each))
        if count < LEAST:
            return None
        lot = most(times(self.usual, count), amounts)
        return Lot(count, lot) if _is_share(lot, self.limits) else None

    def refused(self, now_ms: int) -> None:
        """Lease nothing for a while: the ledger has no slice to give."""
        self.rests_until_ms = now_ms + REST_MS

    def swap(self, new: Slice | None) -> Slice | None:
        """Admit out of *new* from now on; return what is left of the one before."""
        old, self.slice = self.slice, new
        return old if old is not None and not old.is_empty else None

    def is_idle(self, now_ms: int) -> bool:
        """Tell if nothing was asked for in this second and the one before."""
        return self.slice is None and now_ms // _SECOND_MS > self._second + 1


def within(amounts: Amounts, most_of: Amounts) -> bool:
    """Tell if no figure of *amounts* is above that of *most_of*."""
    return less(amounts, most_of) == _NOTHING


def less(amounts: Amounts, other: Amounts) -> Amounts:
    """Return *amounts* without *other*, figure by figure, and never below zero."""
    return _each(amounts, other, lambda one, two: max(0, one - two))


def most(amounts: Amounts, other: Amounts) -> Amounts:
    """Return the larger of each figure."""
    return _each(amounts, other, max)


def times(amounts: Amounts, count: int) -> Amounts:
    """Return *count* times *amounts*, as far as that can be booked."""
    requests, given, made = (
        min(count * figure, MAX_TOKENS) for figure in _figures(amounts)[:3]
    )
    cost = min(count * amounts.cost_nanousd, MAX_SPENT)
    return Amounts(requests, given, made, cost)


def ends_ms(states: Sequence[LimitState], asked_ms: int) -> int:
    """Return until when a slice is used that was granted with *states*."""
    turns = [state.reset_ms for state in states if state.limit.axis in BUDGETS]
    return min([asked_ms + AGE_MS, *(asked_ms + turn - MARGIN_MS for turn in turns)])


def _is_share(lot: Amounts, limits: Sequence[Limit]) -> bool:
    return all(
        amount_of(limit.axis, lot) <= limit.capacity // SHARE
        for limit in limits
        if limit.axis is not Axis.CONCURRENCY
    )


def _moved(usual: Amounts, amounts: Amounts) -> Amounts:
    """Return an average that forgets: each exchange counts an eighth, rounded up."""
    return _each(usual, amounts, lambda one, two: one - (one - two) // 8)


def _figures(amounts: Amounts) -> tuple[int, int, int, int]:
    return (
        amounts.requests,
        amounts.input_tokens,
        amounts.output_tokens,
        amounts.cost_nanousd,
    )


def _each(amounts: Amounts, other: Amounts, of: Callable[[int, int], int]) -> Amounts:
    pairs = zip(_figures(amounts), _figures(other), strict=True)
    requests, given, made, cost = (of(one, two) for one, two in pairs)
    return Amounts(requests, given, made, cost)
