"""
Budgets of money that count nothing: their models have no price, or cost nothing.

Of a family of names it is not known what is called, so it may cost something.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenweir.core.policy import Model
from tokenweir.core.price import ModelPrice, Rates
from tokenweir.core.pricing import Pricing


def all_unpriced(models: Iterable[Model], pricing: Pricing) -> bool:
    """Tell if nobody knows what any of *models* costs."""
    return all(
        (name := _name(model)) is not None
        and pricing.price(model.provider, name) is None
        for model in models
    )


def all_free(models: Iterable[Model], pricing: Pricing) -> bool:
    """Tell if none of *models* ever costs anything."""
    return all(
        (name := _name(model)) is not None
        and (price := pricing.price(model.provider, name)) is not None
        and _is_free(price)
        for model in models
    )


def _name(model: Model) -> str | None:
    """Return what the provider calls *model*; None: it is whatever apps call it."""
    name = model.upstream_model or model.name
    return None if name.endswith("*") else name


def _is_free(price: ModelPrice) -> bool:
    return all(_costs_nothing(prices.rates) for prices in price.lists)


def _costs_nothing(rates: Rates) -> bool:
    steps = (step for rate in rates.by_class.values() for step in rate.steps)
    return not (
        rates.request_picousd
        or any(rate.base for rate in rates.by_class.values())
        or any(price for _, price in steps)
    )
