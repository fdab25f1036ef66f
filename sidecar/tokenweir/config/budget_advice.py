"""What is probably not meant about a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tokenweir.config.name_pattern import any_overlap
from tokenweir.core.name_pattern import matches as is_among
from tokenweir.core.policy import (
    ApiKey,
    Budget,
    Model,
    OnExceeded,
    Policy,
    Quota,
    Tenant,
)


class BudgetAdvice:
    """Looks at the budgets of one *policy*."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        # Those that may not call everything. There may be as many as budgets: tens of
        # thousands.
        self._keys: dict[str, list[ApiKey]] = {}
        for key in policy.keys.values():
            if key.models:
                self._keys.setdefault(key.tenant, []).append(key)

    def of(
        self, quota: Quota, tenants: Sequence[Tenant], models: Sequence[Model]
    ) -> Iterator[str]:
        """
        Yield what is worth a look about *quota*, if it is a budget.

        *tenants* are those that have it, *models* those that they may call under it.
        """
        budget = quota.budget
        if budget is None:
            return
        if quota.shadow and not budget.thresholds:
            yield (
                "has no `alerts`, so that in shadow mode nothing shows that it is spent"
            )
        if budget.on_exceeded is OnExceeded.BLOCK:
            return
        if budget.downgrade_to:
            keys = [key for one in tenants for key in self._keys.get(one.name, ())]
            yield from _chain(quota, budget, tenants, self._policy)
            yield from _barred_keys(quota, budget, keys)
            yield from _dialects(budget, models, self._policy)


def _chain(
    quota: Quota, budget: Budget, tenants: Sequence[Tenant], policy: Policy
) -> Iterator[str]:
    chain = set(budget.downgrade_to)
    known = (*policy.models, *(family.name for family in policy.model_families))
    if any(
        chain in ({*quota.models}, {*tenant.models}, {*known}) for tenant in tenants
    ):
        yield (
            "downgrades to no other models than those that it is for, so to nothing "
            "cheaper"
        )
    for name in budget.downgrade_to:
        barred = [
            tenant.name
            for tenant in tenants
            if tenant.models and not is_among(name, tenant.models)
        ]
        if barred:
            more = f" (nor {len(barred) - 1} more)" if len(barred) > 1 else ""
            yield f"downgrades to {name}, which tenant {barred[0]} may not call{more}"


def _barred_keys(quota: Quota, budget: Budget, keys: Iterable[ApiKey]) -> Iterator[str]:
    """Tell of keys that may call what the budget is for, but nothing cheaper."""
    barred = [
        key.id
        for key in keys
        if any_overlap(key.models, quota.models or ("*",))
        and not any(is_among(name, key.models) for name in budget.downgrade_to)
    ]
    if barred:
        more = f" (nor {len(barred) - 1} more)" if len(barred) > 1 else ""
        yield f"downgrades to no model that key {barred[0]} may call{more}"


def _dialects(budget: Budget, models: Sequence[Model], policy: Policy) -> Iterator[str]:
    """Compare what callers speak with what the cheaper models speak."""
    spoken = sorted({policy.providers[model.provider].dialect for model in models})
    answered = {
        name: policy.providers[model.provider].dialect
        for name in budget.downgrade_to
        if (model := policy.model(name)) is not None
    }
    for name, dialect in answered.items():
        if dialect not in spoken:
            yield (
                f"downgrades to {name}, which speaks {dialect}: none of the models that "
                "it is for does, so nothing is ever downgraded to that"
            )
    for dialect in spoken:
        if dialect not in answered.values():
            yield (
                f"downgrades to no model that speaks {dialect}: once it is spent, "
                "callers of that API are refused"
            )
