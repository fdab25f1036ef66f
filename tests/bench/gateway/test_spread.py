"""Spreads and percentiles."""

from __future__ import annotations

import pytest

from bench.gateway.spread import Spread, percentile, spread


def test_a_spread_is_the_median_and_the_range() -> None:
    """In whatever order rounds came."""
    assert spread([3.0, 1.0, 8.0]) == Spread(3.0, 1.0, 8.0)
    assert spread([2.0, 1.0]) == Spread(1.5, 1.0, 2.0)


def test_nothing_has_no_spread() -> None:
    """It is not zero."""
    assert spread([]) is None


def test_a_spread_is_told_with_its_range() -> None:
    """Unless there was one round only."""
    assert Spread(1_234.56, 1_000.0, 2_000.04).text() == "1,234.6 (1,000.0-2,000.0)"
    assert Spread(3.0, 3.0, 3.0).text(2) == "3.00"


def test_a_percentile_is_a_sample() -> None:
    """The one that the share does not exceed; the last one for all."""
    ordered = [float(number) for number in range(1, 101)]

    assert percentile(ordered, 0.5) == 51.0
    assert percentile(ordered, 0.99) == 100.0
    assert percentile(ordered, 1.0) == 100.0
    assert percentile([7.0], 0.5) == 7.0


def test_no_samples_have_no_percentile() -> None:
    """It is an error, not a zero that looks fast."""
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)
