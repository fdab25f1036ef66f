"""
How a budget's counter is put right, beside the exchanges that go on.

What was found to be missing is added to what the counter says by then, so that no settle
in between is lost. What is reserved is set to what holds have taken, at that moment.

A counter that says less than when it was looked at was set back meanwhile, or is amended
by somebody else: then nothing is done, and it has to be looked at again.

WARNING: `ledger/lua/amend.lua` is this module's twin. Change both.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenweir.core.budget import MAX_SPENT, Spending, passed
from tokenweir.core.window import Window


@dataclass(frozen=True, slots=True)
class Amendment:
    """
    What is to be done to a counter.

    Attributes:
        key: Names the limit.
        window: In which.
        seen: What it was found to have spent at most.
        add: What has to be added; negative: taken away.
        capacity: Of the budget: thresholds are shares of it.
        thresholds: In percent. Those that what was spent has reached count as told: they
            were, when it was spent.
    """

    key: str
    window: Window
    seen: int
    add: int
    capacity: int
    thresholds: tuple[int, ...] = ()


def amended(
    spending: Spending | None, amendment: Amendment, held: int
) -> Spending | None:
    """
    Return *spending* (None: there is no counter) put right.

    *held* is what holds have taken of it. None: it was set back meanwhile.
    """
    window = amendment.window
    before = spending or Spending(window.end_ms)
    if before.spent < amendment.seen:
        return None
    spent = min(max(0, before.spent + amendment.add), MAX_SPENT)
    reached = passed(spent, amendment.capacity, amendment.thresholds)
    return Spending(before.end_ms, spent, held, max(before.told, reached))
