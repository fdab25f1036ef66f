"""
A budget in words, as `tokenweir check` tells it.

    $50.00 a day (America/New_York, from 06:00), then downgrades to fast, at most $80.00
"""

from __future__ import annotations

from calendar import day_name
from collections.abc import Iterable, Iterator

from tokenweir.core.policy import Axis, Budget, OnExceeded
from tokenweir.core.window import Calendar, Per
from tokenweir.extproc.budget_wording import amount


def window_text(axis: Axis, capacity: int, calendar: Calendar) -> str:
    """Return how much there is, for how long, and by whose calendar."""
    article = "an" if calendar.per is Per.HOUR else "a"
    beginning = " at ".join(_beginning(calendar))
    since = f", from {beginning}" if beginning else ""
    return f"{amount(axis, capacity)} {article} {calendar.per} ({calendar.zone}{since})"


def after_text(axis: Axis, budget: Budget) -> str:
    """Return what follows once the budget is spent, and what is told before."""
    match budget.on_exceeded:
        case OnExceeded.BLOCK:
            follows = "then blocks"
        case OnExceeded.DOWNGRADE:
            follows = f"then downgrades to {_chain(budget.downgrade_to)}"
        case OnExceeded.THROTTLE:
            follows = f"then throttles to {budget.throttle_percent}%"
    parts = [follows]
    if budget.hard_limit is not None:
        parts.append(f"at most {amount(axis, budget.hard_limit)}")
    alerts = "/".join(map(str, budget.thresholds))
    parts.append(f"alerts at {alerts}%" if alerts else "no alerts")
    return ", ".join(parts)


def _beginning(calendar: Calendar) -> Iterator[str]:
    """Yield when windows begin, unless it is when everybody thinks that they do."""
    if calendar.per is Per.WEEK and calendar.weekday:
        yield day_name[calendar.weekday]
    if calendar.per is Per.MONTH and calendar.day > 1:
        yield f"day {calendar.day}"
    if calendar.per is not Per.HOUR and calendar.hour:
        yield f"{calendar.hour:02}:00"


def _chain(models: Iterable[str]) -> str:
    return ", else ".join(models)
