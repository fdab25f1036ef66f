"""The installed list is asked by the names that apps and providers use."""

from __future__ import annotations

import pytest

from tokenweir.config.prices.catalogue import SOURCE, Catalogue
from tokenweir.core.price import Unpriced, WhyUnpriced

CATALOGUE = Catalogue()


PROFILE = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile"
CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.mark.parametrize(
    ("name", "provider", "expected"),
    [
        ("gpt-4o", None, "openai/gpt-4o"),
        ("gpt-4o", "openai", "openai/gpt-4o"),
        ("GPT-4o", "OpenAI", "openai/gpt-4o"),
        ("openai/gpt-4o", "openai", "openai/gpt-4o"),
        ("openai/gpt-4o", None, "openai/gpt-4o"),
        ("gpt-4o-2024-08-06", "openai", "openai/gpt-4o"),
        ("gpt-4o-20240806", "openai", "openai/gpt-4o"),
        ("gpt-4o-2024-05-13", "openai", "openai/gpt-4o-2024-05-13"),
        ("ft:gpt-4o-2024-08-06:org:name:id", "openai", "openai/ft:gpt-4o"),
        ("claude-sonnet-4-5-20250929", "anthropic", "anthropic/claude-sonnet-4-5"),
        ("claude-opus-4.1", "anthropic", "anthropic/claude-opus-4-1"),
        ("gemini/gemini-2.5-pro", None, "google/gemini-2.5-pro"),
        ("models/gemini-2.5-pro", "google", "google/gemini-2.5-pro"),
        ("gpt-4o", "azure", "azure/gpt-4o"),
        ("azure/gpt-4o", None, "azure/gpt-4o"),
        ("openrouter/openai/gpt-4o", None, "openrouter/openai/gpt-4o"),
        ("openai/gpt-4o", "openrouter", "openrouter/openai/gpt-4o"),
        (
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "bedrock",
            "aws/regional.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        (f"{PROFILE}/{CLAUDE}", "aws", f"aws/regional.{CLAUDE.removeprefix('eu.')}"),
        (CLAUDE.replace("eu.", "jp."), "aws", f"aws/regional.{CLAUDE[3:]}"),
        (CLAUDE.replace("eu.", "global."), "aws", f"aws/global.{CLAUDE[3:]}"),
        (CLAUDE[3:], "aws", f"aws/regional.{CLAUDE[3:]}"),
        ("us.amazon.nova-lite-v1:0", "bedrock", "aws/amazon.nova-lite-v1:0"),
        (
            "meta.llama3-3-70b-instruct-v1:0",
            "aws",
            "aws/meta.llama3-3-70b-instruct-v1:0",
        ),
    ],
)
def test_names(name: str, provider: str | None, expected: str) -> None:
    """With and without provider, date and capitals, the model is found."""
    found = CATALOGUE.find(name, provider)

    assert not isinstance(found, Unpriced)
    assert (found.model, found.source) == (expected, SOURCE)


@pytest.mark.parametrize(
    ("name", "provider", "resembles"),
    [
        ("gpt-9", None, ""),
        ("gpt-4o-20249999", "openai", ""),
        ("claude-sonnet-4-5-turbo", None, "anthropic/claude-sonnet-4-5"),
        ("our-model", None, ""),
        ("gpt-4o", "vllm", ""),
        ("", "openai", ""),
        ("x" * 10_000, None, ""),
        ("eu.amazon.nova-lite-v1:0", "aws", "aws/amazon.nova-lite-v1:0"),
        (f"{PROFILE}/eu.amazon.nova-lite-v1:0", "aws", "aws/amazon.nova-lite-v1:0"),
        ("arn:aws:bedrock:eu-west-1:1:application-inference-profile/x", "aws", ""),
    ],
)
def test_unknown_names(name: str, provider: str | None, resembles: str) -> None:
    """New, mistyped and home-made names have no price, whatever they resemble (B06)."""
    assert CATALOGUE.find(name, provider) == Unpriced(
        WhyUnpriced.MODEL, name, resembles
    )


def test_borrowed_prices_have_no_tiers() -> None:
    """Azure's list refers to OpenAI's prices, but not to OpenAI's tiers."""
    openai, azure = (
        CATALOGUE.find("gpt-4o", "openai"),
        CATALOGUE.find("gpt-4o", "azure"),
    )

    assert not isinstance(openai, Unpriced)
    assert not isinstance(azure, Unpriced)
    now_ms = 1_796_000_000_000
    assert azure.rates(now_ms) == openai.rates(now_ms)
    assert "priority" in openai.tiers(now_ms)
    assert azure.tiers(now_ms) == ("default",)


def test_a_model_is_compiled_once() -> None:
    """Whatever it is called."""
    assert CATALOGUE.find("gpt-4o") is CATALOGUE.find("openai/gpt-4o-2024-11-20")


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://ours.openai.azure.com", "azure"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "aws"),
        ("http://127.0.0.1:8000", None),
    ],
)
def test_whose_api_it_is(url: str, provider: str | None) -> None:
    """The address tells, or nothing does."""
    assert CATALOGUE.provider_of(url) == provider
