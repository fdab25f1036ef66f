"""
The arithmetic of limits on exchanges in flight.

Each exchange has a slot of its own, with an expiry, so that a crash heals itself
and nobody else's traffic can keep a dead slot alive.

When a slot gets free is nobody's to promise. The wait that a refused caller is
told is an estimate: the median duration of the exchanges before, divided by the
number of slots. The median is a frugal one: a single number that moves towards
each new duration by an eighth of itself. It forgets, and needs no history.

WARNING: `ledger/lua/levels.lua` is this module's twin. Change both, and run
`tests/ledger/test_parity.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

UNKNOWN_WAIT_MS = 1_000  # before any exchange has ended
MIN_WAIT_MS = 200  # less, and refused callers hammer
MAX_DURATION_MS = 86_400_000  # longer ones are cut: a day bounds the arithmetic


def slot_names(hold_id: str, count: int) -> list[str]:
    """Return what the *count* slots of a hold are called: one after itself."""
    return [hold_id, *(f"{hold_id}/{n}" for n in range(1, count))][: max(1, count)]


@dataclass(slots=True)
class Slots:
    """
    Who holds a slot of one limit.

    Attributes:
        until_ms: When a slot expires, by hold id.
        median_ms: Of how long slots were held; None: unknown.
    """

    until_ms: dict[str, int] = field(default_factory=dict)
    median_ms: int | None = None

    def __bool__(self) -> bool:
        """Tell if there is anything to keep."""
        return bool(self.until_ms) or self.median_ms is not None

    def prune(self, now_ms: int) -> int:
        """Drop the slots that expired, and return how many are left."""
        self.until_ms = {
            hold_id: until_ms
            for hold_id, until_ms in self.until_ms.items()
            if until_ms > now_ms
        }
        return len(self.until_ms)

    def wait_ms(self, capacity: int) -> int:
        """Estimate how long until one of *capacity* slots gets free."""
        if self.median_ms is None:
            return UNKNOWN_WAIT_MS
        return max(MIN_WAIT_MS, -(-self.median_ms // capacity))

    def step_ms(self, capacity: int) -> int:
        """
        Estimate how far apart slots get free if all are held.

        Unknown: soon after another. Too soon costs a caller a second try, too late
        leaves slots empty.
        """
        if self.median_ms is None:
            return MIN_WAIT_MS
        return -(-self.median_ms // capacity)

    @property
    def reset_ms(self) -> int:
        """Estimate how long until all slots are free: as long as one is held."""
        return UNKNOWN_WAIT_MS if self.median_ms is None else self.median_ms

    def learn(self, duration_ms: int) -> None:
        """Take note that a slot was held for *duration_ms*, at least 1."""
        duration_ms = min(duration_ms, MAX_DURATION_MS)
        if self.median_ms is None:
            self.median_ms = duration_ms
            return
        step = max(1, self.median_ms // 8)
        if duration_ms > self.median_ms:
            self.median_ms = min(duration_ms, self.median_ms + step)
        else:
            self.median_ms = max(duration_ms, self.median_ms - step)
