"""Quotas that have no room for a request that asks for all that a model can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tokenweir.config.name_pattern import all_covered
from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.core.policy import Axis, Model, Policy, Quota, Tenant
from tokenweir.core.price import (
    DEFAULT_TIER,
    PICOUSD_PER_NANOUSD,
    ModelPrice,
    TokenClass,
)

# What counts output.
_OF_OUTPUT = frozenset(
    {Axis.TOKENS, Axis.OUTPUT_TOKENS, Axis.BUDGET_TOKENS, Axis.BUDGET_USD}
)


class Room:
    """
    Compares the quotas of one *policy* with its models.

    Set *prices* to false if files of prices were not looked up.
    """

    def __init__(self, policy: Policy, *, prices: bool) -> None:
        self._caps = policy.caps
        self._pricing = policy.pricing if prices else None

    def too_small(
        self, quota: Quota, tenants: Sequence[Tenant], models: Sequence[Model]
    ) -> Iterator[str]:
        """
        Yield what is worth a look, if an enforced *quota* has too little room.

        *tenants* are those that have it, *models* those that it is for. What apps may ask
        for is only known of models whose maximum the policy says. Without a cap of its
        own no app is refused so.
        """
        if quota.shadow or quota.axis not in _OF_OUTPUT:
            return
        most = quota.capacity
        if quota.budget is not None:
            most = max(most, quota.budget.hard_limit or 0)
        needs = {
            model: self._needed(quota.axis, model, self._longest(model, quota, tenants))
            for model in models
            if model.maximum_is_known
        }
        model = max(needs, key=lambda each: needs[each], default=None)
        if model is not None and needs[model] > most:
            yield (
                f"has room for {_amount(quota.axis, most)}, and an answer of "
                f"{model.name} may take {_amount(quota.axis, needs[model])}: requests "
                "that ask for more than fits are refused for good. Raise it, or cap what "
                "apps may ask for (`caps`)"
            )

    def _longest(self, model: Model, quota: Quota, tenants: Sequence[Tenant]) -> int:
        """Return the longest answer that anybody may ask for, in tokens."""
        names = {tenant.name for tenant in tenants}
        lowered = (
            cap.output_tokens
            for cap in self._caps
            if cap.output_tokens is not None
            and (not cap.models or all_covered([model.name], cap.models))
            and (not cap.tenants or names <= set(cap.tenants))
            and (not cap.routes or set(quota.routes or (None,)) <= set(cap.routes))
        )
        return min(lowered, default=model.max_output_tokens)

    def _needed(self, axis: Axis, model: Model, tokens: int) -> int:
        """Return what an answer of so many *tokens* takes; 0: not known."""
        tokens = min(tokens, model.max_output_tokens)
        if axis is not Axis.BUDGET_USD:
            return tokens
        name = model.upstream_model or model.name
        price = self._pricing.price(model.provider, name) if self._pricing else None
        return 0 if price is None else _output_nanousd(price, tokens)


def _output_nanousd(price: ModelPrice, tokens: int) -> int:
    """Return what so many *tokens* cost by the newest price list, at the least."""
    lists = [prices for prices in price.lists if prices.tier == DEFAULT_TIER]
    rate = lists[-1].rates.of(TokenClass.OUTPUT) if lists else None
    return tokens * rate.base // PICOUSD_PER_NANOUSD if rate else 0


def _amount(axis: Axis, amount: int) -> str:
    if axis is Axis.BUDGET_USD:
        return f"${amount / NANOUSD_PER_USD:,.2f}"
    return f"{amount:,} tokens"
