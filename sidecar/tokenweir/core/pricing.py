"""
What an exchange costs: which price list counts, and what is done without one.

The model is the one that the policy sent the request to; what the answer calls it only
tells which make of that model it was.

What has no price costs what was reserved for it, the worst case, or the ceiling, and
says so by a flag. Where no budget of money applies nothing was reserved: then its cost
is 0 with that flag, which means not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenweir.core.budget import affordable
from tokenweir.core.cost import Served, cost_nanousd
from tokenweir.core.price import ModelPrice, tier_named
from tokenweir.core.price_book import NO_PRICES, PriceBook
from tokenweir.core.usage import TokenUsage

# Flag of an exchange that nobody knows the cost of.
UNPRICED = "unpriced"


@dataclass(frozen=True, slots=True)
class Answered:
    """
    What decides on the price.

    Attributes:
        provider: As the policy names it.
        model: What the request was sent to, as the provider names it.
        answered: The model that the answer names, or None.
        tier: The tier of service that the answer names, or None.
        started_ms: When the exchange began.
        reserved_nanousd: What was reserved for it.
    """

    provider: str
    model: str
    answered: str | None
    tier: str | None
    started_ms: int
    reserved_nanousd: int


@dataclass(frozen=True, slots=True)
class Pricing:
    """
    Attributes:
        prices: What models cost.
        ceiling: Of models that have no price; None: they are refused where money is
            limited.
        marginal: Input beyond a step of a price list pays more, not all of it.
    """

    prices: PriceBook = NO_PRICES
    ceiling: ModelPrice | None = None
    marginal: bool = False

    def price(self, provider: str, model: str) -> ModelPrice | None:
        """Return what *model* of *provider* costs, the ceiling if nobody knows."""
        return self.prices.find(provider, model) or self.ceiling

    def cost(self, usage: TokenUsage, answered: Answered) -> tuple[int, bool]:
        """Return what *usage* cost, in nano-USD, and if there was a price for it."""
        if not usage.total_tokens or self == NO_PRICING:
            return 0, True
        served = Served(
            answered.started_ms, tier_named(answered.tier), marginal=self.marginal
        )
        price = self.prices.answered(
            answered.provider, answered.model, answered.answered
        )
        price = price or self.ceiling
        cost = None if price is None else cost_nanousd(usage, price, served)
        if isinstance(cost, int):
            return affordable(cost), True
        return affordable(self._without_price(usage, answered)), False

    def _without_price(self, usage: TokenUsage, answered: Answered) -> int:
        ceiling = 0
        if self.ceiling is not None:
            cost = cost_nanousd(usage, self.ceiling, Served(answered.started_ms))
            ceiling = cost if isinstance(cost, int) else 0
        return max(ceiling, answered.reserved_nanousd)


# Nothing has a price, and nothing limits money.
NO_PRICING = Pricing()
