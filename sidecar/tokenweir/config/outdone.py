"""
Quotas that never decide: another one refuses first whatever they would refuse.

That is so if the other one applies to all that a quota applies to, counts at least as
much, and has no more room.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenweir.config.compile_quota import EVERY_TENANT
from tokenweir.config.name_pattern import all_covered
from tokenweir.core.policy import (
    Axis,
    Budget,
    OnExceeded,
    OnLedgerFailure,
    Quota,
    Tenant,
)
from tokenweir.core.window import Per

# What counts at least as much as an axis.
_AT_LEAST = {
    Axis.INPUT_TOKENS: (Axis.INPUT_TOKENS, Axis.TOKENS),
    Axis.OUTPUT_TOKENS: (Axis.OUTPUT_TOKENS, Axis.TOKENS),
}
# Windows that a window is always inside of, if both begin by the same clock. No month
# is made of whole weeks.
_AROUND = {
    Per.HOUR: (Per.DAY, Per.WEEK, Per.MONTH),
    Per.DAY: (Per.WEEK, Per.MONTH),
}


def outdone_by(quota: Quota, tenants: Sequence[Tenant]) -> Quota | None:
    """Return a quota of all *tenants* that refuses whatever *quota* would, if any."""
    quotas = tenants[0].quotas
    for place, other in enumerate(quotas):
        if other.id == quota.id or not _outdoes(other, quota):
            continue
        # What every tenant has is also for tenants to come, without limits of their own.
        if _is_everybodys(quota) and not _is_everybodys(other):
            continue
        # Of two that are alike the first decides.
        if _outdoes(quota, other) and place > quotas.index(quota):
            continue
        if all(other in tenant.quotas for tenant in tenants):
            return other
    return None


def covers(other: Quota, quota: Quota) -> bool:
    """
    Tell if *other* refuses, and applies to all that *quota* applies to.

    Without a ledger, too: there one quota that must hold is enough to refuse.
    """
    return (
        not other.shadow
        and (quota.shadow or _holds(other) or not _holds(quota))
        and set(other.partition) <= set(quota.partition)
        and (
            not other.models
            or (bool(quota.models) and all_covered(quota.models, other.models))
        )
        and (
            not other.routes
            or (bool(quota.routes) and set(quota.routes) <= set(other.routes))
        )
    )


def _holds(quota: Quota) -> bool:
    return quota.on_ledger_failure is not OnLedgerFailure.OPEN


def _is_everybodys(quota: Quota) -> bool:
    return quota.id.startswith(f"{EVERY_TENANT}.")


def _outdoes(other: Quota, quota: Quota) -> bool:
    return (
        other.axis in _AT_LEAST.get(quota.axis, (quota.axis,))
        and other.rate <= quota.rate
        and other.capacity <= quota.capacity
        and covers(other, quota)
        and (
            quota.budget is None
            or other.budget is None
            or _turns_later(other.budget, quota.budget)
        )
    )


def _turns_later(other: Budget, budget: Budget) -> bool:
    """Tell if *other* blocks, and never forgets what *budget* still knows."""
    if other.on_exceeded is not OnExceeded.BLOCK:
        return False
    one, two = other.calendar, budget.calendar
    if one == two:
        return True
    return one.per in _AROUND.get(two.per, ()) and (one.zone, one.hour) == (
        two.zone,
        two.hour,
    )
