"""Costs are exact, rounded up once, and never above what was reserved."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.cost import (
    Demand,
    Served,
    cost_nanousd,
    tiers_for,
    worst_cost_nanousd,
)
from tokenweir.core.dialects import anthropic_usage, openai_usage
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.price import (
    INPUT_CLASSES,
    OUTPUT_CLASSES,
    ModelPrice,
    PriceList,
    Rate,
    Rates,
    TokenClass,
    Unpriced,
    WhyUnpriced,
    flat_price,
    picousd_per_token,
)
from tokenweir.core.usage import TokenUsage

NOW = Served(now_ms=1_790_000_000_000)


def per_million(usd: str) -> Rate:
    """Return the price of *usd* for a million tokens."""
    return Rate(picousd_per_token(Decimal(usd) / 10**6))


def price(tier: str = "default", **usd: str) -> ModelPrice:
    """Return a price by class, USD for a million tokens."""
    by_class = {TokenClass(name): per_million(value) for name, value in usd.items()}
    return ModelPrice("model", "test", (PriceList(Rates(by_class), tier),))


GPT_4O = price(input_tokens="2.5", cached_input_tokens="1.25", output_tokens="10")
CLAUDE = price(
    input_tokens="3",
    cached_input_tokens="0.3",
    cache_write_tokens="3.75",
    cache_write_1h_tokens="6",
    output_tokens="15",
)
AUDIO = price(
    input_tokens="2.5",
    output_tokens="10",
    audio_input_tokens="40",
    audio_output_tokens="80",
)


def of_openai(report: dict[str, Any]) -> TokenUsage:
    """Return the usage of OpenAI's *report*."""
    facts = ResponseFacts()
    openai_usage.read_usage(report, facts)
    assert facts.usage is not None
    return facts.usage


def of_anthropic(report: dict[str, Any]) -> TokenUsage:
    """Return the usage of Anthropic's *report*."""
    facts = ResponseFacts()
    anthropic_usage.read_usage(report, facts, begun_only=False)
    assert facts.usage is not None
    return facts.usage


def test_b03_cached_input_is_a_part_of_openais_prompt() -> None:
    """86 fresh, 1920 cached, 300 generated: $0.005615."""
    usage = of_openai(
        {
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "prompt_tokens_details": {"cached_tokens": 1920},
        }
    )

    assert cost_nanousd(usage, GPT_4O, NOW) == 86 * 2_500 + 1920 * 1_250 + 300 * 10_000
    assert cost_nanousd(usage, GPT_4O, NOW) == 5_615_000


def test_b03_anthropics_input_is_beside_its_cache() -> None:
    """9 fresh, 3755 written, 30008 read, 16 generated: $0.02335065."""
    usage = of_anthropic(
        {
            "input_tokens": 9,
            "cache_creation_input_tokens": 3755,
            "cache_read_input_tokens": 30008,
            "output_tokens": 16,
        }
    )

    assert cost_nanousd(usage, CLAUDE, NOW) == 23_350_650


def test_b03_cached_above_the_prompt() -> None:
    """It is cut to the prompt: 100 cached, 5 generated."""
    usage = of_openai(
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 170},
        }
    )

    assert cost_nanousd(usage, GPT_4O, NOW) == 175_000


def test_b03_writes_for_an_hour_have_their_own_price() -> None:
    """456 for five minutes, 100 for an hour."""
    usage = of_anthropic(
        {
            "input_tokens": 0,
            "cache_creation_input_tokens": 556,
            "cache_creation": {
                "ephemeral_5m_input_tokens": 456,
                "ephemeral_1h_input_tokens": 100,
            },
            "output_tokens": 1,
        }
    )

    assert cost_nanousd(usage, CLAUDE, NOW) == 456 * 3_750 + 100 * 6_000 + 15_000


@pytest.mark.parametrize(
    ("report", "nanousd"),
    [
        (
            {
                "prompt_tokens": 20,
                "completion_tokens": 151,
                "total_tokens": 553,
                "completion_tokens_details": {"reasoning_tokens": 382},
            },
            20 * 2_500 + 533 * 10_000,
        ),
        (
            {
                "prompt_tokens": 20,
                "completion_tokens": 533,
                "total_tokens": 553,
                "completion_tokens_details": {"reasoning_tokens": 382},
            },
            20 * 2_500 + 533 * 10_000,
        ),
        (
            {
                "prompt_tokens": 20,
                "completion_tokens": 29,
                "completion_tokens_details": {
                    "text_tokens": 29,
                    "reasoning_tokens": 19,
                },
            },
            20 * 2_500 + 29 * 10_000,
        ),
    ],
)
def test_b05_reasoning_is_paid_once(report: dict[str, Any], nanousd: int) -> None:
    """533, 533 and 29 tokens are generated, whoever leaves reasoning out of what."""
    assert cost_nanousd(of_openai(report), GPT_4O, NOW) == nanousd


def test_reasoning_may_have_a_price_of_its_own() -> None:
    """Then it is that of reasoning alone."""
    own = price(input_tokens="2", output_tokens="8", reasoning_tokens="3")
    usage = TokenUsage(output_tokens=10, reasoning_tokens=100)

    assert cost_nanousd(usage, own, NOW) == 10 * 8_000 + 100 * 3_000


def test_b06_what_has_no_price_is_not_free() -> None:
    """An empty entry, and an entry for input only, price no output."""
    usage = TokenUsage(input_tokens=5, output_tokens=7)
    no_input = Unpriced(WhyUnpriced.TOKEN_CLASS, "model", "input_tokens")
    no_output = Unpriced(WhyUnpriced.TOKEN_CLASS, "model", "output_tokens")

    assert cost_nanousd(usage, price(), NOW) == no_input
    assert cost_nanousd(usage, price(input_tokens="1"), NOW) == no_output
    assert worst_cost_nanousd(Demand(5, 7), price(), 0) == no_input
    assert worst_cost_nanousd(Demand(5, 7), price(input_tokens="1"), 0) == no_output


def test_what_was_not_used_needs_no_price() -> None:
    """Embeddings have no output, and no price for it."""
    embeddings = price(input_tokens="0.02")

    assert cost_nanousd(TokenUsage(input_tokens=50), embeddings, NOW) == 1_000
    assert worst_cost_nanousd(Demand(50, 0), embeddings, 0) == 1_000


def test_free_is_a_price() -> None:
    """A model that costs nothing costs 0, and 0 is reserved for it."""
    free = price(input_tokens="0", output_tokens="0")

    assert cost_nanousd(TokenUsage(input_tokens=5, output_tokens=7), free, NOW) == 0
    assert worst_cost_nanousd(Demand(5, 7), free, 0) == 0


def test_b09_the_tier_of_the_response_decides() -> None:
    """Default, flex and priority cost 1, a half and 1.7 of it; scale is unpriced."""
    tiers = {
        "default": ("2.5", "10"),
        "flex": ("1.25", "5"),
        "priority": ("4.25", "17"),
    }
    gpt = ModelPrice(
        "gpt",
        "test",
        tuple(
            prices
            for tier, (input_, output) in tiers.items()
            for prices in price(tier, input_tokens=input_, output_tokens=output).lists
        ),
    )
    usage = TokenUsage(input_tokens=1_000, output_tokens=100)

    def at(tier: str) -> int | Unpriced:
        return cost_nanousd(usage, gpt, Served(0, tier))

    assert at("default") == 3_500_000
    assert at("flex") == 1_750_000
    assert at("priority") == 5_950_000
    assert at("scale") == Unpriced(WhyUnpriced.TIER, "gpt", "scale")
    demand = Demand(1_000, 100)
    assert worst_cost_nanousd(demand, gpt, 0) == 5_950_000
    assert worst_cost_nanousd(demand, gpt, 0, ("default", "flex")) == 3_500_000
    assert worst_cost_nanousd(demand, gpt, 0, tiers_for("scale")) == at("scale")


def test_b11_audio_is_paid_as_audio() -> None:
    """110 tokens of text and 482 of audio: $0.03966, and not $0.00592."""
    usage = of_openai(
        {
            "prompt_tokens": 0,
            "completion_tokens": 592,
            "completion_tokens_details": {"text_tokens": 110, "audio_tokens": 482},
        }
    )
    without_text_tokens = of_openai(
        {
            "prompt_tokens": 0,
            "completion_tokens": 592,
            "completion_tokens_details": {"audio_tokens": 482},
        }
    )

    assert usage == without_text_tokens
    assert cost_nanousd(usage, AUDIO, NOW) == 110 * 10_000 + 482 * 80_000 == 39_660_000
    assert cost_nanousd(usage, GPT_4O, NOW) == Unpriced(
        WhyUnpriced.TOKEN_CLASS, "model", "audio_output_tokens"
    )


def test_rounded_up_once() -> None:
    """Three classes of a third of a nano-USD each are one, not three."""
    tiny = ModelPrice("m", "t", flat_price("m", "t", (333, 333)).lists)

    assert cost_nanousd(TokenUsage(1, 1, 0, 0, 0, 1), tiny, NOW) == 1
    assert cost_nanousd(TokenUsage(2, 1, 0, 0, 0, 1), tiny, NOW) == 2
    assert cost_nanousd(TokenUsage(), tiny, NOW) == 0


def test_a_fee_for_each_request() -> None:
    """It is paid also where no token was used."""
    rates = Rates({TokenClass.INPUT: Rate(1_000)}, request_picousd=5_000_000)
    search = ModelPrice("m", "t", (PriceList(rates),))

    assert cost_nanousd(TokenUsage(), search, NOW) == 5_000
    assert cost_nanousd(TokenUsage(3), search, NOW) == 5_003
    assert worst_cost_nanousd(Demand(3, 0), search, 0) == 5_003


LONG = ModelPrice(
    "long",
    "test",
    (
        PriceList(
            Rates(
                {
                    TokenClass.INPUT: Rate(3_000_000, ((200_000, 6_000_000),)),
                    TokenClass.CACHED_INPUT: Rate(300_000, ((200_000, 600_000),)),
                    TokenClass.OUTPUT: Rate(15_000_000, ((200_000, 22_500_000),)),
                }
            )
        ),
    ),
)


def test_long_context() -> None:
    """One token above the step and the whole request pays the higher price."""
    short = TokenUsage(
        input_tokens=100_000, cached_input_tokens=100_000, output_tokens=10
    )
    longer = TokenUsage(
        input_tokens=100_001, cached_input_tokens=100_000, output_tokens=10
    )

    assert cost_nanousd(short, LONG, NOW) == 300_000_000 + 30_000_000 + 150_000
    assert cost_nanousd(longer, LONG, NOW) == 600_006_000 + 60_000_000 + 225_000


def test_long_context_by_margin() -> None:
    """Only tokens beyond the step pay more: fresh ones, as a cache holds the beginning."""
    usage = TokenUsage(
        input_tokens=50_000, cached_input_tokens=190_000, output_tokens=10
    )

    assert cost_nanousd(usage, LONG, Served(0, marginal=True)) == (
        190_000 * 300 + 10_000 * 3_000 + 40_000 * 6_000 + 10 * 22_500
    )


@pytest.mark.parametrize(
    ("requested", "tiers"),
    [
        (None, None),
        ("auto", None),
        (" AUTO", None),
        ("default", {"default"}),
        ("standard_only", {"default"}),
        ("flex", {"default", "flex"}),
        ("priority", {"default", "priority"}),
    ],
)
def test_tiers_that_may_serve(requested: str | None, tiers: set[str] | None) -> None:
    """Who asks for nothing gets what the project is set to; a wish may not be met."""
    assert tiers_for(requested) == tiers


def test_demand_of_some_classes_only() -> None:
    """Who sends no sound reserves none; who does needs a price for it."""
    text = frozenset({TokenClass.INPUT, TokenClass.CACHED_INPUT, TokenClass.OUTPUT})
    sound = text | {TokenClass.AUDIO_INPUT}

    assert (
        worst_cost_nanousd(Demand(10, 10, text), AUDIO, 0) == 10 * 2_500 + 10 * 10_000
    )
    assert (
        worst_cost_nanousd(Demand(10, 10, sound), AUDIO, 0) == 10 * 40_000 + 10 * 10_000
    )
    assert worst_cost_nanousd(Demand(10, 10), AUDIO, 0) == 10 * 40_000 + 10 * 80_000
    assert worst_cost_nanousd(Demand(10, 10, sound), GPT_4O, 0) == Unpriced(
        WhyUnpriced.TOKEN_CLASS, "model", "audio_input_tokens"
    )


def test_a_shorter_input_may_cost_more() -> None:
    """Where long inputs are cheaper, a shorter one than estimated is covered too."""
    cheaper = Rates({TokenClass.INPUT: Rate(9_000, ((100, 3_000),))})
    prices = ModelPrice("m", "t", (PriceList(cheaper),))

    assert cost_nanousd(TokenUsage(100), prices, NOW) == 900
    assert cost_nanousd(TokenUsage(200), prices, NOW) == 600
    assert worst_cost_nanousd(Demand(200, 0), prices, 0) == 1_800


RATE = st.builds(
    lambda base, steps: Rate(base, tuple(sorted(steps.items()))),
    st.integers(0, 9_999),
    st.dictionaries(st.integers(0, 300), st.integers(0, 9_999), max_size=2),
)
PRICES = st.builds(
    lambda default, tiers, fee: ModelPrice(
        "m",
        "t",
        (
            PriceList(Rates(default, fee)),
            *(PriceList(Rates(by_class), tier) for tier, by_class in tiers.items()),
        ),
    ),
    st.dictionaries(st.sampled_from(TokenClass), RATE).map(
        lambda rest: {TokenClass.INPUT: Rate(5), TokenClass.OUTPUT: Rate(7)} | rest
    ),
    st.dictionaries(
        st.sampled_from(["flex", "priority", "batch"]),
        st.dictionaries(st.sampled_from(TokenClass), RATE),
    ),
    st.integers(0, 10_000),
)
TOKENS = st.integers(0, 100)
USAGES = st.builds(TokenUsage, **{name.value: TOKENS for name in TokenClass})


@given(PRICES, USAGES, st.booleans(), st.data())
def test_no_cost_is_above_what_was_reserved(
    prices: ModelPrice, usage: TokenUsage, marginal: bool, data: st.DataObject
) -> None:
    """However tokens fall into classes, up to whatever length, at whatever tier."""
    tier = data.draw(st.sampled_from(prices.tiers(0)))
    demand = Demand(
        usage.total_input_tokens + data.draw(TOKENS),
        usage.total_output_tokens + data.draw(TOKENS),
    )
    cost = cost_nanousd(usage, prices, Served(0, tier, marginal))
    worst = worst_cost_nanousd(demand, prices, 0)

    assert isinstance(worst, int)
    if isinstance(cost, Unpriced):
        assert cost.what in {TokenClass.AUDIO_INPUT, TokenClass.AUDIO_OUTPUT}
    else:
        assert 0 <= cost <= worst


@given(PRICES, USAGES)
def test_costs_add_up_by_class(prices: ModelPrice, usage: TokenUsage) -> None:
    """At one length, each class costs its tokens times its price, and nothing else."""
    rates = prices.rates(0)
    assert rates is not None
    total = rates.request_picousd
    for token_class in (*INPUT_CLASSES, *OUTPUT_CLASSES):
        tokens = usage.by_class().get(token_class, 0)
        rate = rates.of(token_class)
        if tokens and rate is None:
            return
        total += tokens * (rate.at(usage.total_input_tokens) if rate else 0)

    assert cost_nanousd(usage, prices, NOW) == -(-total // 1_000)
