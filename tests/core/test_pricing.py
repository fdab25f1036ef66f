"""What an exchange costs, and what follows without a price."""

from dataclasses import replace

import pytest

from tests.prices import CEILING, price, pricing
from tokenweir.core.pricing import NO_PRICING, Answered, Pricing
from tokenweir.core.usage import TokenUsage

USAGE = TokenUsage(input_tokens=10, output_tokens=5)
ANSWERED = Answered("openai", "gpt", None, None, 0, 777)
KNOWN = pricing(gpt=price(2, 8, flex=True), gpt_2024=price(3, 9))


def test_a_known_price() -> None:
    """Each class at its own price, in nano-USD."""
    assert KNOWN.cost(USAGE, ANSWERED) == (10 * 2 + 5 * 8, True)


def test_the_make_that_answered() -> None:
    """What the answer calls the model tells which make of it that was."""
    exact = replace(ANSWERED, answered="gpt-2024")
    stranger = replace(ANSWERED, answered="mini")

    assert KNOWN.cost(USAGE, exact) == (10 * 3 + 5 * 9, True)
    assert KNOWN.cost(USAGE, stranger) == (60, True)


def test_the_tier_that_answered() -> None:
    """The response's tier of service counts, however it is spelled (B09)."""
    assert KNOWN.cost(USAGE, replace(ANSWERED, tier="flex")) == (30, True)
    assert KNOWN.cost(USAGE, replace(ANSWERED, tier="Default")) == (60, True)


@pytest.mark.parametrize(
    "answered",
    [replace(ANSWERED, tier="priority"), replace(ANSWERED, model="new")],
)
def test_what_has_no_price_is_never_free(answered: Answered) -> None:
    """It costs what was reserved, or the ceiling if that is more (B06)."""
    assert KNOWN.cost(USAGE, answered) == (777, False)


def test_a_tier_without_a_price_costs_the_ceiling_if_that_is_more() -> None:
    """The default tier's price is not taken for another's."""
    ceiling = replace(KNOWN, ceiling=CEILING)
    answered = replace(ANSWERED, tier="priority", reserved_nanousd=5)

    assert ceiling.cost(TokenUsage(input_tokens=100), answered) == (900, False)
    assert ceiling.cost(TokenUsage(audio_input_tokens=1), answered) == (9, False)


def test_the_ceiling_is_a_price() -> None:
    """A policy may say what a model costs whose price nobody knows."""
    ceiling = replace(KNOWN, ceiling=CEILING)

    assert ceiling.price("openai", "new") == CEILING
    assert ceiling.cost(USAGE, replace(ANSWERED, model="new")) == (90 + 450, True)
    assert KNOWN.price("openai", "new") is None


def test_nothing_used_costs_nothing() -> None:
    """Also where there is no price."""
    assert KNOWN.cost(TokenUsage(), replace(ANSWERED, model="new")) == (0, True)


def test_without_any_prices_there_is_no_cost() -> None:
    """Who knows no prices at all is not told at each answer."""
    assert NO_PRICING.cost(USAGE, ANSWERED) == (0, True)
    assert Pricing() == NO_PRICING
