"""
The arithmetic of budgets: what was spent in a calendar window.

Theory of operation
===================

A budget counts from zero in each window, in nano-USD or in tokens. What exchanges in
flight have reserved is kept apart from what was spent: a request fits if both and its
own worst case are within the capacity. So calls that run at the same time can't pass
together what one of them could not pass alone. Real costs that were underestimated
are spent all the same, and may bring a window above its capacity.

A window is the caller's to compute: the ledger has no calendar. Each call brings four
*turns*, the moments at which the windows before, around and after the caller's present
turn; the ledger's clock says in which of the three windows the call is. An
exchange is booked into the window in which it was reserved, whenever it ends.

*Thresholds* are shares of the capacity in percent. When what was spent passes one, it
is told, once a window.

WARNING: `ledger/lua/levels.lua` is this module's twin. Change both, and run
`tests/ledger/test_parity.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tokenweir.core.window import Window

NANOUSD_PER_USD = 10**9

# The most that a budget, a window's counter or one amount can be: 4.5 million USD in
# nano-USD. A capacity less what was spent and what is reserved stays within 2**53.
MAX_SPENT = 4_500_000 * NANOUSD_PER_USD

# How long a window's counter is kept after its end: for settles that come late, and
# for looking back at it.
KEPT_MS = 40 * 86_400_000

# Bounds of three windows that follow each other.
TURNS = 4


@dataclass(frozen=True, slots=True)
class Spending:
    """
    What became of a budget in one window.

    Attributes:
        end_ms: Of the window.
        spent: Settled, in nano-USD or tokens.
        reserved: Taken by exchanges in flight.
        told: The highest threshold that was told, in percent; 0: none.
    """

    end_ms: int
    spent: int = 0
    reserved: int = 0
    told: int = 0

    def remaining(self, capacity: int) -> int:
        """Return what of *capacity* can still be reserved."""
        return max(0, capacity - self.spent - self.reserved)


@dataclass(frozen=True, slots=True)
class Crossing:
    """
    What was spent has passed a threshold.

    Attributes:
        limit: The limit's key: its quota and its partition.
        percent: The highest threshold that was passed.
        spent: In nano-USD or tokens.
        capacity: Ditto.
        window: In which that is.
    """

    limit: str
    percent: int
    spent: int
    capacity: int
    window: Window


def window_at(turns: Sequence[int], moment_ms: int) -> Window | None:
    """Return the window between two of *turns* that *moment_ms* is in, if it is."""
    for start_ms, end_ms in pairwise(turns):
        if start_ms <= moment_ms < end_ms:
            return Window(start_ms, end_ms)
    return None


def middle(turns: Sequence[int]) -> Window:
    """Return the window that the caller of *turns* took for the present one."""
    return Window(turns[1], turns[2])


def fits(spending: Spending, capacity: int, requested: int) -> bool:
    """Tell if *requested* more can be reserved. What costs nothing always can."""
    return not requested or (requested <= capacity - spending.spent - spending.reserved)


def spend(spending: Spending, *, spent: int, reserve: int) -> Spending:
    """Return *spending* with so much more spent and reserved; both may be negative."""
    return replace(
        spending,
        spent=min(max(0, spending.spent + spent), MAX_SPENT),
        reserved=max(0, spending.reserved + reserve),
    )


def passed(spent: int, capacity: int, thresholds: Sequence[int]) -> int:
    """Return the highest of *thresholds* (percent) that *spent* has reached, or 0."""
    reached = [
        percent for percent in thresholds if spent >= _share_of(capacity, percent)
    ]
    return max(reached, default=0)


def affordable(amount: int) -> int:
    """Return *amount*, or the nearest that can be booked."""
    return min(max(0, amount), MAX_SPENT)


def _share_of(capacity: int, percent: int) -> int:
    # In two steps, since capacity * percent is more than a double can hold.
    return capacity // 100 * percent + capacity % 100 * percent // 100
