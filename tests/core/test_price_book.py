"""A book that is empty has no prices: tests/core/test_pricing.py asks others."""

from tokenweir.core.price_book import NO_PRICES


def test_an_empty_book() -> None:
    """What is in no book has no price, which is not 0."""
    assert NO_PRICES.find("openai", "gpt-4o") is None
    assert NO_PRICES.answered("openai", "gpt-4o", "gpt-4o-2024-08-06") is None
