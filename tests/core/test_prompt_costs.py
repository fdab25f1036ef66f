"""What the parts of a prompt have cost."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import NOW_MS
from tests.prices import CEILING, NANO, Book, price, pricing
from tokenweir.core.price import ModelPrice, PriceList, Rate, Rates, TokenClass
from tokenweir.core.pricing import NO_PRICING, Answered, Pricing
from tokenweir.core.prompt_costs import prompt_costs
from tokenweir.core.prompt_part import Kind, PromptCost, PromptPart, PromptParts
from tokenweir.core.usage import Source, TokenUsage

TOOLS = PromptPart(Kind.TOOLS, "a" * 16, 200)
SYSTEM = PromptPart(Kind.SYSTEM, "b" * 16, 500)
PROMPT = PromptParts((TOOLS, SYSTEM), 1_000)
ANSWERED = Answered("openai", "m", None, None, NOW_MS, 0)
CACHING = ModelPrice(
    "m",
    "test",
    (
        PriceList(
            Rates(
                MappingProxyType(
                    {
                        TokenClass.INPUT: Rate(10 * NANO, ((1_000, 20 * NANO),)),
                        TokenClass.CACHED_INPUT: Rate(NANO),
                        TokenClass.CACHE_WRITE: Rate(15 * NANO),
                    }
                )
            )
        ),
    ),
)


def costs(
    usage: TokenUsage,
    prices: Pricing | None = None,
    prompt: PromptParts | None = PROMPT,
    answered: Answered = ANSWERED,
    source: Source = Source.REPORTED,
) -> dict[Kind, PromptCost]:
    """Return what each part cost, by kind."""
    prices = pricing(m=CACHING) if prices is None else prices
    found = prompt_costs(prompt, prices, usage, answered, source)
    return {part.kind: cost for part, cost in found}


def test_shares_of_the_input() -> None:
    """As many of the tokens as the part has of the bytes, at what input costs."""
    assert costs(TokenUsage(input_tokens=100, output_tokens=900)) == {
        Kind.TOOLS: PromptCost(1, 20, 20, 0, 100, 200),
        Kind.SYSTEM: PromptCost(1, 50, 50, 0, 100, 500),
    }


def test_a_cache_holds_the_beginning() -> None:
    """Cached tokens fall to the first parts first."""
    assert costs(TokenUsage(input_tokens=60, cached_input_tokens=40)) == {
        Kind.TOOLS: PromptCost(1, 20, 20, 20, 100, 20),
        Kind.SYSTEM: PromptCost(1, 50, 50, 20, 100, 20 + 300),
    }


def test_all_cached_and_none_fresh() -> None:
    """Then nothing costs what fresh input does."""
    assert costs(TokenUsage(cached_input_tokens=100))[Kind.SYSTEM] == (
        PromptCost(1, 50, 50, 50, 100, 50)
    )


@pytest.mark.parametrize("source", [Source.COUNTED, Source.ESTIMATED])
def test_what_nobody_reported(source: Source) -> None:
    """It costs as it is charged; what came from a cache is not known of it."""
    found = costs(TokenUsage(input_tokens=100), source=source)

    assert found[Kind.TOOLS] == PromptCost(1, 20, 0, 0, 100, 200)


def test_what_is_written_to_a_cache_costs_more() -> None:
    """All that is not read from it costs alike."""
    usage = TokenUsage(input_tokens=50, cache_write_tokens=50)

    assert costs(usage)[Kind.SYSTEM].cost_nanousd == 50 * 1_250 // 100


@pytest.mark.parametrize(("marginal", "each"), [(False, 20), (True, 15)])
def test_long_inputs(marginal: bool, each: int) -> None:
    """Their higher price counts as it does in the cost of the whole."""
    prices = replace(pricing(m=CACHING), marginal=marginal)
    cost = costs(TokenUsage(input_tokens=2_000), prices)[Kind.SYSTEM]

    assert cost == PromptCost(1, 1_000, 1_000, 0, 2_000, 1_000 * each)


def test_without_a_price() -> None:
    """Tokens are told all the same; the ceiling is a price."""
    usage = TokenUsage(input_tokens=100)
    unknown = PromptCost(1, 50, 50, 0, 100, 0)

    assert costs(usage, NO_PRICING)[Kind.SYSTEM] == unknown
    assert costs(usage, answered=replace(ANSWERED, tier="flex"))[Kind.SYSTEM] == unknown
    assert costs(usage, Pricing(Book(), CEILING))[Kind.SYSTEM].cost_nanousd == 450
    flex = replace(ANSWERED, tier="flex")
    halved = costs(usage, pricing(m=price(10, 0, flex=True)), answered=flex)
    assert halved[Kind.SYSTEM].cost_nanousd == 250


@pytest.mark.parametrize(
    ("prompt", "usage"),
    [
        (None, TokenUsage(input_tokens=9)),
        (PROMPT, TokenUsage()),
        (PromptParts((), 0), TokenUsage(input_tokens=9)),
        (PromptParts((), 9), TokenUsage(input_tokens=9)),
    ],
)
def test_nothing_to_tell(prompt: PromptParts | None, usage: TokenUsage) -> None:
    """Nobody asks, nothing was used, or nothing repeats."""
    assert costs(usage, prompt=prompt) == {}


few = st.integers(0, 10_000)


@given(few, few, few, st.lists(few, max_size=3), few)
def test_parts_are_never_more_than_the_whole(
    fresh: int, cached: int, written: int, sizes: list[int], rest: int
) -> None:
    """Neither in tokens, nor in cached ones, nor in money."""
    kinds = zip(Kind, sizes, strict=False)
    parts = tuple(PromptPart(kind, "0" * 16, size) for kind, size in kinds)
    prompt = PromptParts(parts, sum(sizes) + rest)
    usage = TokenUsage(
        input_tokens=fresh, cached_input_tokens=cached, cache_write_tokens=written
    )
    prices = pricing(m=CACHING)
    found = sum(costs(usage, prices, prompt).values(), PromptCost())

    assert found.tokens <= usage.total_input_tokens
    assert found.reported_tokens == found.tokens
    assert found.cached_tokens <= cached
    assert found.cost_nanousd <= prices.cost(usage, ANSWERED)[0]
