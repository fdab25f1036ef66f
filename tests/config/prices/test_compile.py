"""Compiled prices give what genai-prices itself computes, exactly."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal

import pytest
from genai_prices.data import providers
from genai_prices.types import (
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    Provider,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
    Usage,
)

from tokenweir.config.prices.compile import compile_price
from tokenweir.core.cost import Served, cost_nanousd
from tokenweir.core.price import (
    Hours,
    PriceList,
    Rate,
    Rates,
    TokenClass,
    Unpriced,
    WhyUnpriced,
)
from tokenweir.core.usage import TokenUsage

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
NOW_MS = int(NOW.timestamp() * 1000)
BY_ID = {provider.id: provider for provider in providers}
MIXED = TokenUsage(1_000, 900, 80, 7, 0, 500, 60)
USAGES = {
    "plain": TokenUsage(1_000, output_tokens=500),
    "cached": TokenUsage(100, 900, output_tokens=50, reasoning_tokens=450),
    "all of text": MIXED,
    "at 200,000": TokenUsage(199_000, 1_000, output_tokens=11),
    "above 272,000": TokenUsage(272_000, 1, 80, 7, output_tokens=11),
    "pictures": TokenUsage(100, image_input_tokens=50, image_output_tokens=7),
    "sound": TokenUsage(10, 0, 0, 0, 30, 20, 0, 40),
    "sound going in": TokenUsage(10, 0, 0, 0, 30, 20),
}
CONTEXTS = {
    "default": {},
    "flex": {"service_tier": "flex"},
    "priority": {"service_tier": "priority"},
    "batch": {"processing": "batch"},
}


def as_reported(usage: TokenUsage) -> Usage:
    """Return *usage* as genai-prices wants it: parts within sums."""
    figures = {
        "input_tokens": usage.total_input_tokens,
        "cache_read_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens + usage.cache_write_1h_tokens,
        "cache_write_5m_tokens": usage.cache_write_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "input_audio_tokens": usage.audio_input_tokens,
        "input_image_tokens": usage.image_input_tokens,
        "output_tokens": usage.total_output_tokens,
        "output_reasoning_tokens": usage.reasoning_tokens,
        "output_audio_tokens": usage.audio_output_tokens,
        "output_image_tokens": usage.image_output_tokens,
    }
    sums = ("input_tokens", "output_tokens")
    return Usage(**{name: n for name, n in figures.items() if n or name in sums})


def theirs(
    provider: Provider, model: ModelInfo, usage: TokenUsage, context: dict[str, str]
) -> tuple[Decimal, bool]:
    """Return what genai-prices says it costs, in nano-USD, and if its prices are odd."""
    calculation = model.calc_price(
        as_reported(usage),
        provider,
        genai_request_timestamp=NOW,
        price_context=context or None,
    )
    return calculation.total_price * 10**9, any(
        price != round(price, 6) for price in decimals(calculation.model_price)
    )


def decimals(prices: ModelPrice) -> Iterator[Decimal]:
    """Yield all prices, of all lengths."""
    for value in prices.__dict__.values():
        if isinstance(value, TieredPrices):
            yield from (value.base, *(tier.price for tier in value.tiers))
        else:
            yield value


@pytest.mark.parametrize("tier", CONTEXTS)
@pytest.mark.parametrize("provider", providers, ids=lambda provider: provider.id)
def test_all_of_the_catalogue(provider: Provider, tier: str) -> None:
    """Whatever has a price costs the same here and there, to the nano-USD."""
    differences = []
    for model in provider.models:
        price = compile_price(model, provider.id, "test")
        for name, usage in USAGES.items():
            ours = cost_nanousd(usage, price, Served(NOW_MS, tier))
            if isinstance(ours, Unpriced):
                continue
            expected, odd = theirs(provider, model, usage, CONTEXTS[tier])
            # A twelfth of a dollar is rounded to millionths of a millionth, as are
            # prices like 0.18000000000000002.
            slack = usage.total_tokens * Decimal("0.0005") if odd else 0
            if not -slack <= ours - expected < 1 + slack:
                differences.append((model.id, name, ours, expected))
            if not odd and ours != math.ceil(expected):
                differences.append((model.id, name, ours, expected))

    assert differences == []


def test_most_of_the_catalogue_is_priced() -> None:
    """The test above compares: nearly every model has a price of plain text."""
    unpriced = [
        f"{provider.id}/{model.id}"
        for provider in providers
        for model in provider.models
        if isinstance(
            cost_nanousd(
                TokenUsage(1), compile_price(model, provider.id, ""), Served(NOW_MS)
            ),
            Unpriced,
        )
    ]

    total = sum(len(provider.models) for provider in providers)
    assert len(unpriced) < total / 10


def of(model_id: str, provider: str = "openai") -> ModelInfo:
    """Return a model of the catalogue."""
    return next(m for m in BY_ID[provider].models if m.id == model_id)


def cost(
    model_id: str, usage: TokenUsage, tier: str = "default", provider: str = "openai"
) -> object:
    """Return what *usage* costs by the catalogue."""
    price = compile_price(of(model_id, provider), provider, "test")
    return cost_nanousd(usage, price, Served(NOW_MS, tier))


def test_b03_costs_of_cached_tokens() -> None:
    """gpt-4o and Claude Sonnet 4.5, by their published prices."""
    openai = TokenUsage(86, 1_920, output_tokens=300)
    anthropic = TokenUsage(9, 30_008, 3_755, output_tokens=16)

    assert cost("gpt-4o", openai) == 5_615_000
    assert cost("claude-sonnet-4-5", anthropic, provider="anthropic") == 23_350_650


def test_b09_costs_by_tier() -> None:
    """gpt-5.4: flex is half, priority is double; no price list is no price."""
    usage = TokenUsage(1_000, output_tokens=100)

    assert cost("gpt-5.4", usage) == 4_000_000
    assert cost("gpt-5.4", usage, "flex") == 2_000_000
    assert cost("gpt-5.4", usage, "priority") == 8_000_000
    assert cost("gpt-5.4", usage, "batch") == 2_000_000
    assert cost("gpt-5.4", usage, "scale") == Unpriced(
        WhyUnpriced.TIER, "openai/gpt-5.4", "scale"
    )


def test_b11_costs_of_sound() -> None:
    """gpt-audio: 110 tokens of text and 482 of sound at its own price."""
    usage = TokenUsage(output_tokens=110, audio_output_tokens=482)

    assert cost("gpt-audio", usage) == 110 * 10_000 + 482 * 64_000
    assert cost("gpt-4o", usage) == Unpriced(
        WhyUnpriced.TOKEN_CLASS, "openai/gpt-4o", "audio_output_tokens"
    )


def test_sound_at_google() -> None:
    """There it is like text, at every tier, unless the list says otherwise."""
    heard = TokenUsage(audio_input_tokens=100)
    text = TokenUsage(100)

    for tier in ("default", "batch"):
        assert cost("gemini-2.5-pro", heard, tier, "google") == cost(
            "gemini-2.5-pro", text, tier, "google"
        )
    assert cost("gemini-2.5-flash", heard, provider="google") == 100 * 1_000
    claude = cost("claude-3-5-haiku", heard, provider="google")
    assert isinstance(claude, Unpriced)


def info(
    prices: ModelPrice | list[ConditionalPrice],
    variants: list[PriceVariant] | None = None,
    name: str = "m",
) -> ModelInfo:
    """Return a model with *prices*."""
    return ModelInfo(
        id=name, match=of("gpt-4o").match, prices=prices, price_variants=variants
    )


def usd(input_: str) -> ModelPrice:
    """Return a price of input alone."""
    return ModelPrice(input_mtok=Decimal(input_))


def rates(picousd: int, fee: int = 0) -> Rates:
    """Return the same, compiled."""
    return Rates({TokenClass.INPUT: Rate(picousd)}, fee)


def test_history_and_hours() -> None:
    """Dates are midnights in UTC, hours are brought to UTC."""
    east = dt.timezone(dt.timedelta(hours=2))
    price = compile_price(
        info(
            [
                ConditionalPrice(prices=usd("3")),
                ConditionalPrice(
                    StartDateConstraint(dt.date(2026, 1, 1)), prices=usd("2")
                ),
                ConditionalPrice(
                    TimeOfDateConstraint(dt.time(1, 30, tzinfo=east), dt.time(8)),
                    prices=usd("1"),
                ),
            ]
        ),
        "p",
        "test",
    )

    assert price.lists == (
        PriceList(rates(3_000_000)),
        PriceList(rates(2_000_000), since_ms=1_767_225_600_000),
        PriceList(rates(1_000_000), hours=Hours(84_600_000, 28_800_000)),
    )


def test_tiers_and_other_variants() -> None:
    """The first variant that names a class counts; those of a search mode are none."""
    variants = [
        PriceVariant({"service_tier": "flex"}, usd("1")),
        PriceVariant(
            {"service_tier": "flex"},
            ModelPrice(input_mtok=Decimal(9), output_mtok=Decimal(5)),
        ),
        PriceVariant({"service_tier": "default"}, ModelPrice()),
        PriceVariant({"speed": "fast"}, usd("6")),
        PriceVariant({"processing": "batch"}, usd("0.5")),
        PriceVariant({"search_type": "web"}, usd("7")),
        PriceVariant({"service_tier": "flex", "region": "eu"}, usd("8")),
    ]
    price = compile_price(info(usd("2"), variants), "p", "test")
    flex = price.rates(0, "flex")

    assert price.tiers(0) == ("default", "batch", "fast", "flex")
    assert flex is not None
    assert (flex.of(TokenClass.INPUT), flex.of(TokenClass.OUTPUT)) == (
        Rate(1_000_000),
        Rate(5_000_000),
    )
    assert compile_price(info(usd("2"), variants), "p", "test", variants=False).tiers(
        0
    ) == ("default",)


def test_steps_and_fees() -> None:
    """Prices by length and for each request are kept, searches are not."""
    tiered = TieredPrices(Decimal(3), [Tier(200_000, Decimal(6))])
    price = compile_price(
        info(
            ModelPrice(
                input_mtok=tiered,
                requests_kcount=Decimal(5),
                web_searches_kcount=Decimal(10),
            )
        ),
        "p",
        "test",
    )

    assert price.lists[0].rates == Rates(
        {TokenClass.INPUT: Rate(3_000_000, ((200_000, 6_000_000),))}, 5_000_000_000
    )


@pytest.mark.parametrize(("name", "expected"), [("m:free", 0), ("m", None)])
def test_without_any_price(name: str, expected: int | None) -> None:
    """An empty entry is free only where it is called so (B06)."""
    price = compile_price(info(ModelPrice(), name=name), "p", "test")
    cost = cost_nanousd(TokenUsage(5, output_tokens=5), price, Served(0))

    assert cost == (
        Unpriced(WhyUnpriced.TOKEN_CLASS, "p/m", "input_tokens")
        if expected is None
        else expected
    )


def test_sound_where_text_has_no_price() -> None:
    """What has no price of text gives sound none."""
    price = compile_price(
        info(ModelPrice(output_mtok=Decimal(1)), name="gemini"), "google", "test"
    )

    assert price.lists[0].rates.of(TokenClass.AUDIO_INPUT) is None
