"""
genai-prices and litellm's table agree, where that table is at hand.

It is found through LITELLM_TABLE, else in an installed litellm, which is no dependency.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.config.prices.price_differences import Comparison, compare, page

NAME = "model_prices_and_context_window_backup.json"


def table() -> Path:
    """Return where litellm's table is, or skip."""
    given = os.environ.get("LITELLM_TABLE")
    if given:
        return Path(given)
    package = importlib.util.find_spec("litellm")
    if package is None or package.origin is None:
        pytest.skip("litellm's price table is not here: set LITELLM_TABLE")
    return Path(package.origin).parent / NAME


@pytest.fixture(scope="module")
def comparisons() -> dict[str, Comparison]:
    """The comparison of all that both know; the table is read without a problem."""
    return compare(table())


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "azure"])
def test_most_costs_are_equal(
    provider: str, comparisons: dict[str, Comparison]
) -> None:
    """Two lists that were made apart give the same cost nine times of ten."""
    one = comparisons[provider]

    assert one.models >= 15
    assert one.equal / (one.equal + one.unequal) > 0.88


def test_each_unequal_cost_has_a_different_price(
    comparisons: dict[str, Comparison],
) -> None:
    """Where costs differ the page names a price that does."""
    for provider, one in comparisons.items():
        assert bool(one.unequal) <= bool(one.differences), provider


def test_the_page_is_made() -> None:
    """It has a line for each provider, and what differs."""
    lines = list(page(table(), "this one"))

    assert any(line.startswith("| anthropic | ") for line in lines)
    assert "\n## openai\n" in lines
