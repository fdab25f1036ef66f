"""Prices that are easy to compute with."""

from types import MappingProxyType

from tokenweir.core.price import (
    ModelPrice,
    PriceList,
    Rate,
    Rates,
    TokenClass,
    flat_price,
)
from tokenweir.core.pricing import Pricing

NANO = 1_000  # pico-USD in a nano-USD


class Book:
    """A `tokenweir.core.price_book.PriceBook` of what it was given, by model."""

    def __init__(self, **prices: ModelPrice) -> None:
        self._prices = {name.replace("_", "-"): each for name, each in prices.items()}

    def find(self, provider: str, model: str) -> ModelPrice | None:
        """See `PriceBook`."""
        assert provider
        return self._prices.get(model)

    def answered(self, provider: str, model: str, by: str | None) -> ModelPrice | None:
        """See `PriceBook`; an answer's name counts if it begins with the model's."""
        exact = by and by.startswith(model) and self._prices.get(by)
        return exact or self.find(provider, model)


def price(input_nanousd: int, output_nanousd: int, *, flex: bool = False) -> ModelPrice:
    """A price by the token, and half of it where *flex* is served."""
    lists = [
        PriceList(
            Rates(
                MappingProxyType(
                    {
                        TokenClass.INPUT: Rate(input_nanousd * NANO // share),
                        TokenClass.OUTPUT: Rate(output_nanousd * NANO // share),
                    }
                )
            ),
            tier,
        )
        for tier, share in (("default", 1), ("flex", 2))[: 1 + flex]
    ]
    return ModelPrice("test/model", "test", tuple(lists))


def pricing(**prices: ModelPrice) -> Pricing:
    """Prices without a ceiling."""
    return Pricing(Book(**prices))


CEILING = flat_price("ceiling", "policy", (9 * NANO, 90 * NANO))
