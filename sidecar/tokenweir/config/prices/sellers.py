"""The price book as the core asks it: by the policy's names of providers."""

from __future__ import annotations

from collections.abc import Mapping

from tokenweir.config.prices.book import PriceBook
from tokenweir.core.price import ModelPrice, Unpriced


class SellerBook:
    """
    A `tokenweir.core.price_book.PriceBook`.

    Args:
        book: All prices.
        urls: Of the policy's providers, by name: they tell whose prices count.
        named: Who a provider is to price lists, where the policy says so.
    """

    def __init__(
        self, book: PriceBook, urls: Mapping[str, str], named: Mapping[str, str]
    ) -> None:
        self._book = book
        self._urls = dict(urls)
        self._named = dict(named)
        self._sellers: dict[str, str] = dict(named)

    def __eq__(self, other: object) -> bool:
        """Tell if *other* knows the same prices, whatever was asked of it."""
        return (
            isinstance(other, SellerBook)
            and self._book == other._book
            and (self._urls, self._named) == (other._urls, other._named)
        )

    def __hash__(self) -> int:
        return hash((self._book, *sorted(self._urls)))

    def find(self, provider: str, model: str) -> ModelPrice | None:
        """See `tokenweir.core.price_book.PriceBook`."""
        return _known(self._book.price(model, self._seller(provider)))

    def answered(self, provider: str, model: str, by: str | None) -> ModelPrice | None:
        """See `tokenweir.core.price_book.PriceBook`."""
        return _known(self._book.answered(model, by, self._seller(provider)))

    def _seller(self, provider: str) -> str:
        # Not before it is needed: whoever knows the URLs is slow to open.
        if provider not in self._sellers:
            # Whoever is not known by its URL is not the maker of what it runs: only
            # an overlay has its prices, unless its name is a known provider's.
            url = self._urls.get(provider, "")
            self._sellers[provider] = self._book.provider_of(url) or provider
        return self._sellers[provider]


def _known(price: ModelPrice | Unpriced) -> ModelPrice | None:
    return None if isinstance(price, Unpriced) else price
