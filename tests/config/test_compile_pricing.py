"""Prices are compiled, by the policy's names of providers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tokenweir.config.compile_pricing import compile_pricing
from tokenweir.config.prices.overlay import read_overlay
from tokenweir.config.schema import PolicyFile
from tokenweir.core.cost import Served, cost_nanousd
from tokenweir.core.pricing import Pricing
from tokenweir.core.usage import TokenUsage

MILLION = TokenUsage(input_tokens=1_000_000, output_tokens=1_000_000)


def pricing(overlay: dict[str, Any] | None = None, **prices: Any) -> Pricing:
    """Return what a policy with three providers says."""
    file = PolicyFile.model_validate(
        {
            "version": 1,
            "providers": {
                "direct": {"base_url": "https://api.openai.com", "dialect": "openai"},
                "hosted": {
                    "base_url": "https://gateway.example",
                    "dialect": "openai",
                    "priced_as": "azure",
                },
                "own": {"base_url": "http://10.0.0.5:8000", "dialect": "openai"},
            },
            "models": {},
            "tenants": {},
            "prices": prices,
        }
    )
    return compile_pricing(file, [read_overlay(overlay, "ours")] if overlay else [])


def source(made: Pricing, provider: str, model: str) -> str | None:
    """Return whose price it is."""
    price = made.price(provider, model)
    return (
        None if price is None else f"{price.model} {price.source}".partition(" 0.")[0]
    )


def test_providers_are_known_by_their_address_or_by_what_is_said() -> None:
    """Without either a machine of one's own has the prices of an overlay only."""
    made = pricing()

    assert source(made, "direct", "gpt-4o") == "openai/gpt-4o genai-prices"
    assert source(made, "hosted", "gpt-4o") == "azure/gpt-4o genai-prices"
    assert source(made, "own", "gpt-4o") is None
    assert source(made, "own", "our-model") is None


def test_overlays_come_first() -> None:
    """They are why there are overlays."""
    made = pricing({"gpt-4o": {"input_cost_per_token": Decimal("1e-6")}})

    assert source(made, "direct", "gpt-4o") == "gpt-4o ours"


def test_a_ceiling_is_the_price_of_what_has_none() -> None:
    """And of nothing else."""
    ceiling = {"input_usd_per_million": 2.5, "output_usd_per_million": 10}
    made = pricing(ceiling=ceiling)
    price = made.price("own", "our-model")

    assert price is not None
    assert (price.model, price.source) == ("ceiling", "policy")
    assert cost_nanousd(MILLION, price, Served(0)) == 12_500_000_000
    assert source(made, "direct", "gpt-4o") == "openai/gpt-4o genai-prices"


def test_how_steps_count() -> None:
    """It is as the policy says, and by default all of a request pays more."""
    assert pricing().marginal is False
    assert pricing(marginal=True).marginal is True
