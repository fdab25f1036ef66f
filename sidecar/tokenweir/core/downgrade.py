"""
What is tried once a budget is spent: a cheaper model, or a slower pace.

An exchange begins with its first *attempt*: the model that the app named, held
against every quota. If the ledger denies it, and every quota that failed is a budget
that would rather downgrade or throttle than block, there is another one. In it the
budgets that failed are *relaxed*: they record what is spent, and refuse it only above
their hard limit. Every other quota holds as before, at the other model's price. Any
failure that is not such a budget's refuses, and so does the end of the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tokenweir.core.policy import OnExceeded, Quota
from tokenweir.core.rejection import QuotaFailure


@dataclass(frozen=True, slots=True)
class Attempt:
    """
    One try to be admitted.

    Attributes:
        model: As the app or the policy names it.
        number: 0 for the first.
        relaxed: Ids of the budgets that are spent.
        chain: Cheaper models that are left to try.
        tried: Those that were.
    """

    model: str
    number: int = 0
    relaxed: frozenset[str] = frozenset()
    chain: tuple[str, ...] = ()
    tried: frozenset[str] = frozenset()


def next_attempt(
    attempt: Attempt, failures: Iterable[QuotaFailure], quotas: Mapping[str, Quota]
) -> Attempt | None:
    """
    Return what to try after *attempt* was denied; None: refuse.

    Args:
        attempt: What was tried.
        failures: All that the ledger named; not empty.
        quotas: Those that apply to the caller, by id.
    """
    failed = {failure.quota: quotas.get(failure.quota) for failure in failures}
    budgets = {
        name: quota.budget
        for name, quota in failed.items()
        if quota is not None
        and quota.budget is not None
        and quota.budget.on_exceeded is not OnExceeded.BLOCK
    }
    if len(budgets) < len(failed):
        return None
    after = replace(
        attempt,
        number=attempt.number + 1,
        relaxed=attempt.relaxed.union(budgets),
        tried=attempt.tried | {attempt.model},
    )
    is_slower_enough = not attempt.relaxed.intersection(budgets) and all(
        budget.on_exceeded is OnExceeded.THROTTLE for budget in budgets.values()
    )
    if is_slower_enough:
        return after
    more = [model for budget in budgets.values() for model in budget.downgrade_to]
    return with_next_model(after, more)


def with_next_model(attempt: Attempt, more: Iterable[str] = ()) -> Attempt | None:
    """Return *attempt* with the next model of its chain and *more*; None: no more."""
    left = [
        model
        for model in dict.fromkeys((*attempt.chain, *more))
        if model not in attempt.tried
    ]
    if not left:
        return None
    model, *rest = left
    return replace(
        attempt, model=model, chain=tuple(rest), tried=attempt.tried | {model}
    )
