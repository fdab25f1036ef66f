"""Prices as the core works with them."""

from __future__ import annotations

from collections.abc import Sequence

from tokenweir.config.prices.book import PriceBook
from tokenweir.config.prices.overlay import Overlay
from tokenweir.config.prices.sellers import SellerBook
from tokenweir.config.schema import PolicyFile
from tokenweir.core.price import flat_price
from tokenweir.core.pricing import Pricing

_CEILING = "ceiling"


def compile_pricing(file: PolicyFile, overlays: Sequence[Overlay]) -> Pricing:
    """Return what *file* says of prices; *overlays* are the files that it names."""
    entry = file.prices
    urls = {
        name: f"{provider.base_url.scheme}://{provider.base_url.host}"
        f"{provider.base_url.path_prefix}"
        for name, provider in file.providers.items()
    }
    named = {
        name: provider.priced_as
        for name, provider in file.providers.items()
        if provider.priced_as
    }
    ceiling = None
    if entry.ceiling is not None:
        sides = (
            entry.ceiling.input_usd_per_million,
            entry.ceiling.output_usd_per_million,
        )
        ceiling = flat_price(_CEILING, "policy", sides)
    book = SellerBook(PriceBook(overlays), urls, named)
    return Pricing(book, ceiling, entry.marginal)
