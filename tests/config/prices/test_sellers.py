"""Prices are asked for by the policy's names of providers."""

from __future__ import annotations

from decimal import Decimal

from tokenweir.config.prices.book import PriceBook
from tokenweir.config.prices.overlay import read_overlay
from tokenweir.config.prices.sellers import SellerBook

URLS = {"direct": "https://api.openai.com", "own": "http://10.0.0.5:8000"}
OVERLAY = read_overlay({"x": {"input_cost_per_token": Decimal("1e-6")}}, "ours")


def test_the_price_of_a_model() -> None:
    """None is no price; what answered counts if it is another make of the model."""
    book = SellerBook(PriceBook(), URLS, {})
    asked = book.find("direct", "gpt-4o")
    answered = book.answered("direct", "gpt-4o", "gpt-4o-2024-05-13")

    assert asked is not None
    assert asked.model == "openai/gpt-4o"
    assert answered is not None
    assert answered.model == "openai/gpt-4o-2024-05-13"
    assert book.find("own", "x") is None
    assert book.answered("own", "x", "y") is None


def test_who_sells_it() -> None:
    """The policy's word counts, then the address."""
    book = SellerBook(PriceBook(), URLS, {"direct": "azure"})
    price = book.find("direct", "gpt-4o")

    assert price is not None
    assert price.model == "azure/gpt-4o"


def test_who_is_not_known_by_an_address_is_by_name() -> None:
    """A machine of one's own does not sell at the maker's price."""
    book = SellerBook(PriceBook(), URLS | {"openai": "http://127.0.0.1:9"}, {})
    named = book.find("openai", "gpt-4o")

    assert book.find("own", "gpt-4o") is None
    assert named is not None
    assert named.model == "openai/gpt-4o"


def test_books_that_know_the_same_are_equal() -> None:
    """So a policy that was read again is not taken for another one."""
    one, other = (
        SellerBook(PriceBook([OVERLAY]), URLS, {"own": "azure"}) for _ in range(2)
    )
    one.find("direct", "gpt-4o")

    assert one == other
    assert hash(one) == hash(other)
    assert one != SellerBook(PriceBook(), URLS, {"own": "azure"})
    assert one != SellerBook(PriceBook([OVERLAY]), {}, {"own": "azure"})
    assert one != SellerBook(PriceBook([OVERLAY]), URLS, {})
    assert one != URLS
