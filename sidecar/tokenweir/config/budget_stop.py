"""
Where spending stops.

A budget that would rather downgrade or throttle than block does not end what is spent,
it makes it slower. So something else has to: its own hard limit, or another budget.
That a policy has neither is seldom meant and costly, so it is a problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

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
    What is enforced for one tenant, or for one of its keys.

    Attributes:
        tenant: Its name.
        judged: With their places: those that are to be stopped.
        quotas: All that apply, those among them.
        bounds: Lists of models. Whatever it calls is in each of them.
    """

    tenant: str
    judged: tuple[Placed, ...]
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
        of_tenant = _scope(file, name)
        scopes = [of_tenant, *_key_scopes(file, left_out, of_tenant)]
        for problem in chain.from_iterable(map(_in_scope, scopes)):
            # A quota at the top is told for the first tenant only.
            if problem.path not in told:
                yield problem
            told.add(problem.path)


def _scope(file: PolicyFile, name: str) -> _Scope:
    tenant = file.tenants[name]
    quotas = (
        *_enforced(tenant.quotas, ("tenants", name, "quotas")),
        *_enforced(file.quotas, ("quotas",)),
    )
    bounds = (tenant.models or (), tuple(file.models))
    return _Scope(name, quotas, quotas, tuple(bound for bound in bounds if bound))


def _key_scopes(
    file: PolicyFile, left_out: LeftOut, tenant: _Scope
) -> Iterator[_Scope]:
    """Yield one for each key of *tenant* that has quotas."""
    for index, key in enumerate(file.tenants[tenant.tenant].keys):
        path: Path = ("tenants", tenant.tenant, "keys", index, "quotas")
        judged = tuple(_enforced(key.quotas, path))
        # Its place in the file may be another one.
        if judged and not left_out.inside(left_out.original(path)):
            bounds = (*([key.models] if key.models else ()), *tenant.bounds)
            quotas = judged + tenant.quotas
            yield _Scope(tenant.tenant, judged, quotas, bounds)


def _enforced(entries: Sequence[QuotaEntry], place: Path) -> Iterator[Placed]:
    for index, quota in enumerate(entries):
        if quota.mode == "enforce":
            yield (*place, index), quota


def _in_scope(scope: _Scope) -> Iterator[Problem]:
    for path, budget in scope.judged:
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
