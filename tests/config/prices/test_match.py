"""A name that only begins like a model is not that model."""

from __future__ import annotations

import pytest
from genai_prices.types import (
    ClauseAnd,
    ClauseContains,
    ClauseEndsWith,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    MatchLogic,
    ModelInfo,
)

from tokenweir.config.prices.match import means

BEGINS = ClauseStartsWith("claude-sonnet-4-5")
CONTAINS = ClauseContains("claude-sonnet-4-5")


def model(rule: MatchLogic) -> ModelInfo:
    """Return a model with *rule*."""
    return ModelInfo(id="the-id", match=rule)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (ClauseEquals("gpt-4o"), "the-id"),
        (ClauseEquals("GPT-4o"), "gpt-4o"),
        (ClauseEndsWith("sonnet-4-5"), "claude-sonnet-4-5"),
        (BEGINS, "claude-sonnet-4-5"),
        (BEGINS, "claude-sonnet-4-5-20250929"),
        (CONTAINS, "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        (ClauseRegex(r"^claude-opus-5-\d{8}$"), "claude-opus-5-20270101"),
        (ClauseStartsWith("ft:gpt-4o"), "ft:gpt-4o:org:name:id"),
        (ClauseStartsWith("ft:gpt-4o"), "ft:gpt-4o-2024-08-06:org:name:id"),
        (ClauseStartsWith("ft:gpt-4o-2024-"), "ft:gpt-4o-2024-08-06:org::id"),
        (ClauseOr([ClauseEquals("x"), BEGINS]), "claude-sonnet-4-5"),
        (ClauseAnd([BEGINS, ClauseRegex("^(?!.*tts)")]), "claude-sonnet-4-5"),
    ],
)
def test_its_names(rule: MatchLogic, name: str) -> None:
    """Its id, what is equal, and what differs by a date are names of it."""
    assert means(model(rule), name)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (BEGINS, "claude-sonnet-4-5-turbo"),
        (BEGINS, "claude-sonnet-4-50"),
        (CONTAINS, "us.anthropic.claude-sonnet-4-5-turbo"),
        (ClauseRegex(r"^claude-opus"), "claude-opus-9"),
        (ClauseStartsWith("ft:gpt-4o"), "ft:gpt-4o-mini:org"),
        (ClauseEquals("gpt-4o"), "gpt-4o-2024-08-06"),
        (CONTAINS, "us-gov.anthropic.claude-sonnet-4-5"),
        (CONTAINS, "bedrock/ap-south-1/anthropic.claude-sonnet-4-5"),
        (ClauseEndsWith("/o4-mini"), "eu/o4-mini"),
        (ClauseOr([ClauseEquals("x"), BEGINS]), "claude-sonnet-4-5-turbo"),
        (ClauseAnd([BEGINS, ClauseRegex("^(?!.*tts)")]), "claude-sonnet-4-5-tts"),
    ],
)
def test_names_of_others(rule: MatchLogic, name: str) -> None:
    """What the rule leaves open must be no word and no version (B06)."""
    assert not means(model(rule), name)


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [("regional.amazon.nova-2-lite-v1:0", True), ("amazon.nova-2-lite-v1:0", False)],
)
def test_regions(model_id: str, expected: bool) -> None:
    """Abroad a model is known if its listed price is for all regions."""
    listed = ModelInfo(id=model_id, match=ClauseContains("amazon.nova-2-lite"))

    assert means(listed, "us.amazon.nova-2-lite-v1:0")
    assert means(listed, "eu.amazon.nova-2-lite-v1:0") is expected
