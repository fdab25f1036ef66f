"""What a model of a policy costs, in a line of `tokenweir check`."""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.cli.money import dollars
from tokenweir.core.policy import Model
from tokenweir.core.price import (
    DEFAULT_TIER,
    PICOUSD_PER_USD,
    TOKENS_PER_MILLION,
    ModelPrice,
    TokenClass,
)
from tokenweir.core.pricing import Pricing

_SIDES = ((TokenClass.INPUT, "in"), (TokenClass.OUTPUT, "out"))


def price_text(model: Model, pricing: Pricing, now_ms: int) -> str | None:
    """
    Return the price of *model* and its source, or that there is none.

    None: it stands for a family of names, and nobody knows which will be called.
    """
    name = model.upstream_model or model.name
    if name.endswith("*"):
        return None
    price = pricing.prices.find(model.provider, name)
    if price is not None:
        return f"{_amounts(price, now_ms)}, from {price.source}"
    if pricing.ceiling is not None:
        return f"no price, so the ceiling: {_amounts(pricing.ceiling, now_ms)}"
    return "no price"


def _amounts(price: ModelPrice, now_ms: int) -> str:
    told = " and ".join(_sides(price, now_ms))
    return f"{told} for a million tokens" if told else "priced by other tiers only"


def _sides(price: ModelPrice, now_ms: int) -> Iterator[str]:
    rates = price.rates(now_ms, DEFAULT_TIER)
    for token_class, word in _SIDES:
        rate = None if rates is None else rates.of(token_class)
        if rate is not None:
            usd = dollars(rate.base, PICOUSD_PER_USD // TOKENS_PER_MILLION)
            yield f"${usd} {word}"
