"""Names of models, taken apart."""

from __future__ import annotations

import pytest

from tokenweir.config.prices.names import (
    is_decoration,
    model_of_arn,
    provider_called,
    providers_alike,
    split_provider,
    stem,
)

ARN = "arn:aws:bedrock:"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-5.2-20251211", "gpt-5.2"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("anthropic.claude-opus-4-1-20250805-v1:0", "anthropic.claude-opus-4-1"),
        ("gpt-4-0613", "gpt-4"),
        ("gpt-3.5-turbo-16k", "gpt-3.5-turbo-16k"),
        ("gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("gemini-2.5-pro-preview-06-05", "gemini-2.5-pro-preview"),
        ("gemini-2.5-pro-preview-05-06-2025", "gemini-2.5-pro-preview"),
        ("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash-preview"),
        ("claude-opus-4-1", "claude-opus-4-1"),
        ("latest", "latest"),
        ("", ""),
    ],
)
def test_stems(name: str, expected: str) -> None:
    """Dates, revisions and "latest" are taken off, versions are not."""
    assert stem(name) == expected


@pytest.mark.parametrize(
    "rest",
    ["", "-2024-08-06", "-20250929", "@20250929", "-latest", "-preview-05-20", "-v1:0"],
)
def test_decoration(rest: str) -> None:
    """A date, a revision, "latest" and "preview" make no other model."""
    assert is_decoration(rest)


@pytest.mark.parametrize(
    "rest", ["-turbo", "-6", ".5", "x", "-20251", "-2025-1-1", "-mini-2025-01-01"]
)
def test_no_decoration(rest: str) -> None:
    """A word or a version does."""
    assert not is_decoration(rest)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("GPT-4o", "gpt-4o"),
        (f"{ARN}us-east-1:123456789012:inference-profile/eu.a.b-v1:0", "eu.a.b-v1:0"),
        (f"{ARN}us-west-2::foundation-model/a.b-v1:0", "a.b-v1:0"),
        (f"{ARN}eu-west-1::foundation-model/a.b-v1:0", "eu.a.b-v1:0"),
        (f"{ARN}ap-northeast-1::foundation-model/a.b-v1:0", "apac.a.b-v1:0"),
        (f"{ARN}us-east-1:123456789012:application-inference-profile/x1y2", None),
        (f"{ARN}us-east-1:123456789012:provisioned-model/x1y2", None),
        ("arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/a.b", None),
        ("arn:aws:s3:::bucket", None),
    ],
)
def test_arns(name: str, model: str | None) -> None:
    """An ARN of Bedrock's names a model and where it runs, or none that has a price."""
    assert model_of_arn(name) == model


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("openai/gpt-4o", ("openai", "gpt-4o")),
        ("OpenRouter/openai/gpt-4o", ("openrouter", "openai/gpt-4o")),
        ("gpt-4o", ("", "gpt-4o")),
        ("openai/", ("", "openai/")),
        ("/gpt-4o", ("", "/gpt-4o")),
    ],
)
def test_a_provider_before_the_name(name: str, parts: tuple[str, str]) -> None:
    """It is what stands before the first slash, if something stands on both sides."""
    assert split_provider(name) == parts


def test_names_of_providers() -> None:
    """litellm's names mean the same providers as genai-prices'."""
    assert provider_called(" Bedrock ") == "aws"
    assert provider_called("openai") == "openai"
    assert providers_alike("bedrock") == ["bedrock", "aws", "bedrock_converse"]
    assert providers_alike("google") == ["google", "gemini", "models", "vertex_ai"]
    assert providers_alike("vllm") == ["vllm"]


def test_long_names_take_no_long_time() -> None:
    """Dates that can be split in 2**200 ways are gone through once."""
    dates = "-12-20-2012" * 200

    assert stem(f"gpt{dates}") == "gpt"
    assert stem(f"gpt{dates}x") == f"gpt{dates}x"
    assert is_decoration(dates)
    assert not is_decoration(f"{dates}x")
