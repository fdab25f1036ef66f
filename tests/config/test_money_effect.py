"""Budgets of money whose models have no price, or cost nothing, are told apart."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from tokenweir.config.money_effect import all_free, all_unpriced
from tokenweir.core.policy import Model
from tokenweir.core.price import (
    ModelPrice,
    PriceList,
    Rate,
    Rates,
    TokenClass,
    flat_price,
)
from tokenweir.core.pricing import NO_PRICING, Pricing

MODEL = Model("m", "o")
FAMILY = Model("m*", "o")
RENAMED = Model("m*", "o", upstream_model="m")


def pricing(rates: Rates) -> Pricing:
    """Return prices that are the same for all."""
    return Pricing(ceiling=ModelPrice("any", "test", (PriceList(rates),)))


def by_input(rate: Rate, request: int = 0) -> Rates:
    """Return *rate* for input, and a price for each *request*."""
    return Rates(MappingProxyType({TokenClass.INPUT: rate}), request)


def test_unpriced() -> None:
    """Nobody knows what any costs. Of a family nobody knows what is called."""
    known = Pricing(ceiling=flat_price("any", "test", (0, 0)))

    assert all_unpriced([MODEL, RENAMED], NO_PRICING)
    assert not all_unpriced([MODEL, FAMILY], NO_PRICING)
    assert not all_unpriced([MODEL], known)


@pytest.mark.parametrize(
    ("rates", "free"),
    [
        (by_input(Rate(0)), True),
        (by_input(Rate(1)), False),
        (by_input(Rate(0, ((9, 0),))), True),
        (by_input(Rate(0, ((9, 1),))), False),
        (by_input(Rate(0), request=1), False),
    ],
)
def test_free(rates: Rates, free: bool) -> None:
    """No token of any kind costs anything, nor does a request."""
    assert all_free([MODEL, RENAMED], pricing(rates)) is free
    assert not all_free([MODEL, FAMILY], pricing(rates))


def test_what_has_no_price_is_not_free() -> None:
    """It is not known what it costs."""
    assert not all_free([MODEL], NO_PRICING)
