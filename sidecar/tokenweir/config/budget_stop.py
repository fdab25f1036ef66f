"""
Where spending stops.

A budget that would rather downgrade or throttle than block does not end what is spent,
it makes it slower. So something else has to: its own hard limit, or another budget.
That a policy has neither is seldom meant and costly, so it is a problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tokenweir.config.budget_entry import OnExceededEntry
from tokenweir.config.budget_fit import budget_unit
from tokenweir.config.name_pattern import all_covered, any_overlap
from tokenweir.config.problem import Path, Problem
from tokenweir.config.salvage import LeftOut
from tokenweir.config.scalar import TOKEN_ROUTES
from tokenweir.config.schema import RATE_FIELDS, PolicyFile, QuotaEntry

_EXAMPLES = {
    "usd": "{budget_usd: 1000, per: month}",
    "tokens": "{budget_tokens: 100000000, per: month}",
}


Placed = tuple[Path, QuotaEntry]


@dataclass(frozen=True, slots=True)
class _Scope:
    """
    What is enforced for one tenant.

    Attributes:
        tenant: Its name.
        quotas: With their places, its own first.
        bounds: Lists of models. Whatever it calls is in each of them.
    """

    tenant: str
    quotas: tuple[Placed, ...]
    bounds: tuple[Sequence[str], ...]


def endless(file: PolicyFile, left_out: LeftOut) -> Iterator[Problem]:
    """
    Yield budgets that nothing stops, and those that have nothing to throttle.

    Where quotas were *left out*, one of them may be what a budget needs: nothing is
    told there.
    """
    if left_out.inside(("quotas",)):
        return
    told: set[Path] = set()
    for name in file.tenants:
        if left_out.inside(("tenants", name, "quotas")):
            continue
        for problem in _of_tenant(_scope(file, name)):
            # A quota at the top is told for the first tenant only.
            if problem.path not in told:
                yield problem
            told.add(problem.path)


def _scope(file: PolicyFile, name: str) -> _Scope:
    tenant = file.tenants[name]
    lists: tuple[tuple[Path, Sequence[QuotaEntry]], ...] = (
        (("tenants", name, "quotas"), tenant.quotas),
        (("quotas",), file.quotas),
    )
    quotas = tuple(
        ((*place, index), quota)
        for place, entries in lists
        for index, quota in enumerate(entries)
        if quota.mode == "enforce"
    )
    bounds = (tenant.models or (), tuple(file.models))
    return _Scope(name, quotas, tuple(bound for bound in bounds if bound))


def _of_tenant(scope: _Scope) -> Iterator[Problem]:
    for path, budget in scope.quotas:
        entry, unit = budget.on_exceeded, budget_unit(budget)
        if entry is None or unit is None or _blocks(budget):
            continue
        whose = f" of tenant {scope.tenant}" if path[0] == "quotas" else ""
        place = (*path, "on_exceeded")
        if not _has_hard_limit(entry) and not _is_stopped(budget, scope):
            yield Problem(
                (*place, f"hard_limit_{unit}"),
                f"is missing, and nothing else stops these calls{whose}: set it, or "
                "add a budget that blocks and is for the same models and routes, such "
                f"as {_EXAMPLES[unit]}",
            )
        if entry.throttle_percent and not _has_rate(budget, scope):
            yield Problem(
                (*place, "throttle_percent"),
                f"has nothing to throttle{whose}: add a limit per minute that is for "
                "the same models and routes, such as {tokens_per_minute: 60000}",
            )


# === what stops a budget's calls ==================================================


def _is_stopped(budget: QuotaEntry, scope: _Scope) -> bool:
    return any(
        other is not budget and _ends(other) and _covers(other, budget, scope)
        for _, other in scope.quotas
    )


def _ends(budget: QuotaEntry) -> bool:
    """Tell if *budget* is one, and refuses sooner or later."""
    if budget_unit(budget) is None:
        return False
    entry = budget.on_exceeded
    return entry is None or _blocks(budget) or _has_hard_limit(entry)


def _blocks(budget: QuotaEntry) -> bool:
    entry = budget.on_exceeded
    return entry is None or not (entry.downgrade_to or entry.throttle_percent)


def _has_hard_limit(entry: OnExceededEntry) -> bool:
    return (entry.hard_limit_usd or entry.hard_limit_tokens) is not None


def _covers(other: QuotaEntry, budget: QuotaEntry, scope: _Scope) -> bool:
    """Tell if *other* limits all that *budget* is for."""
    # Apps choose the names of users, and could choose a new one for each call.
    if "user" in (other.partition or ()) and "user" not in (budget.partition or ()):
        return False
    routes = TOKEN_ROUTES.intersection(budget.routes or TOKEN_ROUTES)
    if other.routes and not routes <= {*other.routes}:
        return False
    bounds = (*([budget.models] if budget.models else ()), *scope.bounds)
    return not other.models or any(all_covered(bound, other.models) for bound in bounds)


# === what can be throttled ========================================================


def _has_rate(budget: QuotaEntry, scope: _Scope) -> bool:
    return any(
        rate.axis in RATE_FIELDS and _meet(rate, budget) for _, rate in scope.quotas
    )


def _meet(rate: QuotaEntry, budget: QuotaEntry) -> bool:
    """Tell if there are calls that both are for."""
    everywhere = TOKEN_ROUTES
    routes = everywhere.intersection(rate.routes or everywhere)
    return not routes.isdisjoint(budget.routes or everywhere) and any_overlap(
        rate.models or ("*",), budget.models or ("*",)
    )
