"""
From usage and prices to money, in whole nano-USD (10^-9 USD).

A cost is the sum over disjoint classes of tokens, each at its own price, rounded up
once. Where prices rise with the length of the input, all of a request pays the price
of its whole input, as providers charge today; *marginal*, each input token pays that
of its place in the prompt, and what is generated that of the last place.

What is reserved is an upper bound: whichever way the tokens fall into classes, up to
whatever length the input comes and whichever tier serves it, the cost is no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tokenweir.core.price import (
    DEFAULT_TIER,
    INPUT_CLASSES,
    OUTPUT_CLASSES,
    PICOUSD_PER_NANOUSD,
    ModelPrice,
    Rates,
    TokenClass,
    Unpriced,
    WhyUnpriced,
    tier_named,
)
from tokenweir.core.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class Demand:
    """
    The most that a request can use.

    Attributes:
        input_tokens: As estimated.
        output_tokens: The ceiling, over all choices.
        classes: Those that the tokens can be of; None: all that have a price.
    """

    input_tokens: int
    output_tokens: int
    classes: frozenset[TokenClass] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """
    What decides on the price list that counts.

    Attributes:
        now_ms: When the exchange began.
        tier: The response's tier of service, as `tier_named` writes it.
        marginal: Input beyond a step pays more, not all of it.
    """

    now_ms: int
    tier: str = DEFAULT_TIER
    marginal: bool = False


def cost_nanousd(
    usage: TokenUsage, price: ModelPrice, served: Served
) -> int | Unpriced:
    """
    Return what *usage* costs, rounded up; `Unpriced` if a part of it has no price.

    A class that was not used needs no price.
    """
    rates = price.rates(served.now_ms, served.tier)
    if rates is None:
        return Unpriced(WhyUnpriced.TIER, price.model, served.tier)
    total_picousd, place, length = rates.request_picousd, 0, usage.total_input_tokens
    for token_class in (*INPUT_CLASSES, *OUTPUT_CLASSES):
        tokens = getattr(usage, token_class.value)
        if not tokens:
            continue
        rate = rates.of(token_class)
        if rate is None:
            return Unpriced(WhyUnpriced.TOKEN_CLASS, price.model, token_class)
        if served.marginal and token_class in INPUT_CLASSES:
            total_picousd += rate.between(place, place + tokens)
            place += tokens
        else:
            total_picousd += tokens * rate.at(length)
    return _rounded_up(total_picousd)


def worst_cost_nanousd(
    demand: Demand, price: ModelPrice, now_ms: int, tiers: Iterable[str] | None = None
) -> int | Unpriced:
    """
    Return the most that *demand* can cost: what is reserved.

    *tiers* are those that may serve it; None: all that have a price.
    """
    costs = [0]
    for tier in price.tiers(now_ms) if tiers is None else sorted(tiers):
        rates = price.rates(now_ms, tier)
        if rates is None:
            return Unpriced(WhyUnpriced.TIER, price.model, tier)
        for token_class in _needed(demand):
            if rates.of(token_class) is None:
                return Unpriced(WhyUnpriced.TOKEN_CLASS, price.model, token_class)
        total_picousd = (
            rates.request_picousd
            + demand.input_tokens * _dearest(rates, INPUT_CLASSES, demand)
            + demand.output_tokens * _dearest(rates, OUTPUT_CLASSES, demand)
        )
        costs.append(_rounded_up(total_picousd))
    return max(costs)


def tiers_for(requested: str | None) -> frozenset[str] | None:
    """
    Return the tiers that may serve a request for the tier *requested*.

    None: any. Without a wish, the provider's project settings decide. A wish may be
    served by the default tier all the same.
    """
    name = (requested or "auto").strip().lower()
    if name == "auto":
        return None
    if name == "standard_only":
        return frozenset({DEFAULT_TIER})
    return frozenset({DEFAULT_TIER, tier_named(name)})


def _needed(demand: Demand) -> Iterator[TokenClass]:
    """Yield the classes that must have a price, in a fixed order."""
    wanted = demand.classes or {TokenClass.INPUT, TokenClass.OUTPUT}
    for side, tokens in (
        (INPUT_CLASSES, demand.input_tokens),
        (OUTPUT_CLASSES, demand.output_tokens),
    ):
        if tokens:
            yield from (token_class for token_class in side if token_class in wanted)


def _dearest(rates: Rates, side: tuple[TokenClass, ...], demand: Demand) -> int:
    """Return the highest price that a token of *side* can have."""
    prices = [
        rate.highest(demand.input_tokens)
        for token_class in side
        if demand.classes is None or token_class in demand.classes
        if (rate := rates.of(token_class)) is not None
    ]
    return max(prices, default=0)


def _rounded_up(picousd: int) -> int:
    return -(-picousd // PICOUSD_PER_NANOUSD)
