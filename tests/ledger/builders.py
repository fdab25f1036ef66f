"""Short ways to say what a ledger is asked, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tokenweir.core.bucket import UNITS_PER_TOKEN, refill
from tokenweir.core.budget import Crossing
from tokenweir.core.hold import (
    Amounts,
    Hold,
    Limit,
    Outcome,
    Part,
    Settlement,
    Subject,
)
from tokenweir.core.holding import State, key_of
from tokenweir.core.policy import Axis
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.ledger.store import Snapshot

START_MS = 1_700_000_000_000
TAG = "tw:017"
WORST_CASE = Amounts(requests=1, input_tokens=40, output_tokens=60)
SUBJECT = Subject("acme", "acme-ci", "ann", "chat_completions", "gpt-4o", "openai")


@dataclass
class Clock:
    """A clock that tests set."""

    now_ms: int = START_MS

    def __call__(self) -> int:
        """Return the moment."""
        return self.now_ms


@dataclass
class Recorder:
    """Takes the ledger's events."""

    calls: list[tuple[str, bool]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    evictions: list[str] = field(default_factory=list)
    seconds: float = 0.0
    reaped: int = 0
    spooled: list[int] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)
    faults: list[tuple[str, BaseException]] = field(default_factory=list)

    def ledger_call(
        self, verb: str, seconds: float, *, failed: bool, reason: str = ""
    ) -> None:
        """A call ended."""
        self.calls.append((verb, failed))
        self.seconds += seconds
        if failed:
            self.reasons.append(reason)

    def ledger_evicts(self, policy: str) -> None:
        """The server was asked."""
        self.evictions.append(policy)

    def holds_reaped(self, count: int) -> None:
        """Holds were reaped."""
        self.reaped += count

    def budget_crossed(self, crossing: Crossing) -> None:
        """A threshold was passed."""
        self.crossings.append(crossing)

    def spool_size(self, waiting: int) -> None:
        """So many wait."""
        self.spooled.append(waiting)

    def fault(self, where: str, error: BaseException) -> None:
        """Something broke."""
        self.faults.append((where, error))


def tokens(
    capacity: int, rate: int | None = None, *, quota: str = "tpm", shadow: bool = False
) -> Limit:
    """A limit on tokens per minute."""
    rate = capacity if rate is None else rate
    return Limit(quota, Axis.TOKENS, "tenant=acme", rate, capacity, shadow)


def requests(capacity: int, *, quota: str = "rpm", shadow: bool = False) -> Limit:
    """A limit on requests per minute."""
    return Limit(quota, Axis.REQUESTS, "tenant=acme", capacity, capacity, shadow)


def concurrency(slots: int, *, quota: str = "slots", shadow: bool = False) -> Limit:
    """A limit on exchanges in flight."""
    return Limit(quota, Axis.CONCURRENCY, "tenant=acme", 0, slots, shadow)


def turns(now_ms: int = START_MS, days: int = 1) -> tuple[int, ...]:
    """The bounds of yesterday, today and tomorrow, in UTC."""
    length_ms = days * 86_400_000
    start_ms = now_ms - now_ms % length_ms
    return tuple(start_ms + n * length_ms for n in (-1, 0, 1, 2))


def budget(
    nanousd: int,
    *,
    quota: str = "budget",
    shadow: bool = False,
    thresholds: tuple[int, ...] = (50, 80, 95),
    now_ms: int = START_MS,
) -> Limit:
    """A limit on money a day."""
    return Limit(
        quota,
        Axis.BUDGET_USD,
        "tenant=acme",
        0,
        nanousd,
        shadow,
        turns(now_ms),
        thresholds,
    )


def hold(
    number: int,
    *limits: Limit,
    amounts: Amounts = WORST_CASE,
    epoch: str = "0",
    made_ms: int = START_MS,
) -> Hold:
    """The *number*-th hold, of 100 tokens, on limits of one tag."""
    name = f"{epoch}-{made_ms:x}-{number:04x}"
    return Hold(name, (Part(TAG, limits),), amounts, SUBJECT)


def used(
    input_tokens: int, output_tokens: int, *, attempts: int = 1, duration_ms: int = 0
) -> Settlement:
    """What a completed exchange used, as its provider reported it."""
    usage = TokenUsage(input_tokens=input_tokens, output_tokens=output_tokens)
    return Settlement(
        usage,
        Source.REPORTED,
        Outcome.COMPLETED,
        attempts,
        200,
        duration_ms=duration_ms,
    )


def level_of(snapshot: Snapshot, limit: Limit, now_ms: int) -> int:
    """The whole tokens that are left of *limit* at *now_ms*, debt included."""
    stored = snapshot.buckets.get(key_of(limit))
    if stored is None:
        return limit.capacity
    return refill(stored, now_ms).level_units // UNITS_PER_TOKEN


def reserved_of(snapshot: Snapshot, limit: Limit) -> int:
    """What exchanges in flight have taken of *limit*."""
    key = key_of(limit)
    if limit.axis is Axis.CONCURRENCY:
        slots = snapshot.slots.get(key)
        return len(slots.until_ms) if slots else 0
    stored = snapshot.buckets.get(key)
    return stored.reserved if stored else 0


def comparable(snapshot: Snapshot, now_ms: int) -> Snapshot:
    """
    *snapshot* without what a store may forget or keep as it likes.

    That is: tombstones whose time is over, buckets that are full with nothing
    reserved, and the answers of reserves.
    """
    return replace(
        snapshot,
        buckets={
            key: stored
            for key, stored in snapshot.buckets.items()
            if stored.reserved
            or refill(stored, now_ms).level_units < stored.ceiling_units
        },
        holdings={
            hold_id: replace(holding, answer=None)
            for hold_id, holding in snapshot.holdings.items()
            if holding.state is State.HELD or holding.until_ms > now_ms
        },
    )
