"""Medians, ranges and ratios."""

from __future__ import annotations

import pytest

from bench.gateway.spread import Spread
from bench.gateway.summary import as_json, median, summarise
from tests.bench.gateway.cells import ALONE, JSON, OURS, cell, run


def test_ratios_are_within_a_round() -> None:
    """What slows a round down slows both, so it is no part of the ratio."""
    ratio = summarise(run())[OURS][JSON]["ratio_per_second"]

    assert (ratio.low, ratio.high) == pytest.approx((0.4, 0.5))
    assert ratio.median == pytest.approx(0.45)


def test_what_is_added_is_a_difference() -> None:
    """Of times; Envoy alone adds nothing to itself."""
    summary = summarise(run())

    assert summary[OURS][JSON]["added_latency_p50_ms"].high == pytest.approx(0.5)
    assert summary[ALONE][JSON]["added_latency_p50_ms"] == Spread(0.0, 0.0, 0.0)


def test_without_envoy_alone_there_are_no_ratios() -> None:
    """Figures themselves are there."""
    figures = summarise([cell()])[OURS][JSON]

    assert figures["per_second"] == Spread(1_000.0, 1_000.0, 1_000.0)
    assert not [name for name in figures if name.startswith(("ratio", "added"))]


def test_what_was_not_measured_is_none() -> None:
    """Of a variant, a load, or a figure."""
    summary = summarise(run())

    assert median(summary, OURS, JSON, "ledger_calls") == 2.0
    assert median(summary, "nobody", JSON, "ledger_calls") is None
    assert median(summary, OURS, "json-99", "ledger_calls") is None
    assert median(summary, ALONE, JSON, "ledger_calls") is None


def test_a_summary_is_plain_json() -> None:
    """By variant, load and figure, each with median and range."""
    told = as_json(summarise(run()))

    assert told[OURS][JSON]["ledger_calls"] == {"median": 2.0, "low": 2.0, "high": 2.0}
