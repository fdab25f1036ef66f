"""
The arithmetic of limits per minute.

Theory of operation
===================

A bucket refills continuously at *rate* per minute and holds at most *capacity*.
An exchange takes its worst case when it begins, and replaces it by the real
figure when it ends. A real figure that is higher drives the level below zero:
the tokens are gone, and the debt delays the next caller rather than failing one
that is already being answered.

The level is kept in units of 1/60,000 token, because

    elapsed [ms] * rate [tokens/min] = earned [tokens / 60,000]

is then a product of integers: nothing is ever rounded. The Lua twin works with
doubles and agrees exactly as long as every number stays below 2**53. So numbers
are range-checked where they enter, debt has a floor, and the elapsed time is
cut to the time until full *before* it is multiplied: a bucket of ten million
tokens a minute that was idle for years would overflow otherwise.

A bucket that nobody knows is full. So one that is full, with nothing reserved,
may be forgotten at any time.

When a limit is changed, what was used of it stays used, exchanges in flight included:
the level moves by as much as the capacity does. So a full bucket stays full, one that
has used more than a lowered limit is in debt, and a change that is taken back leaves
no trace. The last matters most: while a new policy spreads over the fleet, processors
with the old and with the new one take turns on the same bucket, and a rule that forgave
anything when one of them lowers the limit would forgive it at each turn.

Beside the level goes *reserved*: what of it exchanges in flight have taken. It
decides nothing; it tells a refused caller apart "spent" from "may come back".

WARNING: `ledger/lua/levels.lua` is this module's twin. Change both, and run
`tests/ledger/test_parity.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

UNITS_PER_TOKEN = 60_000  # milliseconds per minute; see above

# The most that a capacity, a rate, or an amount of one kind can be. So a level, a
# debt and a booking are at most 6e14, 6e14 and 24e14 units: all sums and differences
# stay below 2**53 (9e15). What is reserved is the sum of holds that fitted: it grows
# by one capacity and what is earned meanwhile.
MAX_TOKENS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """
    How a limit stood at a moment.

    Attributes:
        level_units: In 1/60,000 token; below zero: debt.
        as_of_ms: The moment.
        reserved: Tokens taken by exchanges that have not ended.
        rate: Tokens per minute, at least 1.
        capacity: Tokens, at least 1.
    """

    level_units: int
    as_of_ms: int
    reserved: int
    rate: int
    capacity: int

    @property
    def ceiling_units(self) -> int:
        """The level of a full bucket."""
        return self.capacity * UNITS_PER_TOKEN

    @property
    def remaining(self) -> int:
        """Whole tokens that can be taken."""
        return max(0, self.level_units // UNITS_PER_TOKEN)

    @property
    def used(self) -> int:
        """Tokens that were settled and are not yet earned back."""
        level = self.level_units // UNITS_PER_TOKEN
        return max(0, self.capacity - level - self.reserved)

    @property
    def reset_ms(self) -> int:
        """Time until full, rounded up."""
        return -((self.level_units - self.ceiling_units) // self.rate)


def full(rate: int, capacity: int, now_ms: int) -> Bucket:
    """Return the bucket of a limit that nobody has taken from."""
    return Bucket(capacity * UNITS_PER_TOKEN, now_ms, 0, rate, capacity)


def refill(bucket: Bucket, now_ms: int) -> Bucket:
    """
    Return *bucket* as it stands at *now_ms*.

    A clock that stepped back earns nothing, and its time is taken: else nothing
    would be earned until it has caught up.
    """
    elapsed_ms = min(max(0, now_ms - bucket.as_of_ms), bucket.reset_ms)
    level = bucket.level_units + elapsed_ms * bucket.rate
    return replace(
        bucket, level_units=min(level, bucket.ceiling_units), as_of_ms=now_ms
    )


def retune(bucket: Bucket, rate: int, capacity: int) -> Bucket:
    """
    Return *bucket* under a changed rate or capacity, from its moment on.

    What was used stays used. Debt beyond `MAX_TOKENS` is forgiven.
    """
    more_units = (capacity - bucket.capacity) * UNITS_PER_TOKEN
    level = max(-MAX_TOKENS * UNITS_PER_TOKEN, bucket.level_units + more_units)
    return replace(bucket, level_units=level, rate=rate, capacity=capacity)


def wait_ms(bucket: Bucket, tokens: int) -> int:
    """
    Return how long until *tokens* fit if nobody else takes any; 0: they fit now.

    Rounded up: who waits exactly this long succeeds. Nothing (0 tokens) always
    fits, debt or not. More than the capacity never fits: that is for the caller
    to check.
    """
    lacking = tokens * UNITS_PER_TOKEN - bucket.level_units
    if tokens == 0 or lacking <= 0:
        return 0
    return -(-lacking // bucket.rate)


def book(bucket: Bucket, *, debit: int, reserve: int) -> Bucket:
    """
    Return *bucket* less *debit* tokens, with *reserve* more of them in flight.

    Both may be negative. Debt beyond `MAX_TOKENS` is forgiven.
    """
    level = bucket.level_units - debit * UNITS_PER_TOKEN
    return replace(
        bucket,
        level_units=max(
            -MAX_TOKENS * UNITS_PER_TOKEN, min(level, bucket.ceiling_units)
        ),
        reserved=max(0, bucket.reserved + reserve),
    )


def bounded(tokens: int) -> int:
    """Return *tokens*, or the nearest amount that can be booked."""
    return min(max(0, tokens), MAX_TOKENS)
