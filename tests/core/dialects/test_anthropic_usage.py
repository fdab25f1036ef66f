"""Anthropic's figures are cumulative, and their classes lie beside each other."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.anthropic_usage import read_usage
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.usage import TokenUsage


def facts_of(*reports: object, start: object = None) -> ResponseFacts:
    """Return what is known after a *start* and later *reports*."""
    facts = ResponseFacts()
    read_usage(start, facts, begun_only=True)
    for report in reports:
        read_usage(report, facts, begun_only=False)
    return facts


def test_stream() -> None:
    """Later figures replace earlier ones; repeated ones are not added (T17)."""
    start = {
        "input_tokens": 9,
        "cache_read_input_tokens": 1,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    later = {"input_tokens": 9, "cache_read_input_tokens": 1}
    facts = facts_of(
        later | {"output_tokens": 7}, later | {"output_tokens": 16}, start=start
    )

    assert facts.usage == TokenUsage(
        input_tokens=9, cached_input_tokens=1, output_tokens=16
    )
    assert facts.usage_final


def test_start_is_not_all() -> None:
    """The first output figure is known, but covers only the beginning."""
    facts = facts_of(start={"input_tokens": 9, "output_tokens": 1})

    assert facts.usage == TokenUsage(input_tokens=9, output_tokens=1)
    assert not facts.usage_final


def test_classes_of_input() -> None:
    """What was read from a cache and written to it is beside the rest (B03)."""
    facts = facts_of(
        {
            "input_tokens": 9,
            "cache_creation_input_tokens": 3_755,
            "cache_read_input_tokens": 30_008,
            "output_tokens": 16,
        }
    )

    assert facts.usage == TokenUsage(
        input_tokens=9,
        cached_input_tokens=30_008,
        cache_write_tokens=3_755,
        output_tokens=16,
    )


@pytest.mark.parametrize(
    ("total", "by_lifetime", "short", "long"),
    [
        (100, {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}, 60, 40),
        (None, {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}, 60, 40),
        (100, {"ephemeral_1h_input_tokens": 100}, 0, 100),
        (100, {"ephemeral_1h_input_tokens": 400}, 0, 100),
        (100, {"ephemeral_5m_input_tokens": 60}, 100, 0),
        (100, None, 100, 0),
        (100, "odd", 100, 0),
        (100, {"ephemeral_1h_input_tokens": "40"}, 100, 0),
        (0, {"ephemeral_1h_input_tokens": 0}, 0, 0),
    ],
)  # fmt: skip
def test_cache_writes(
    total: int | None, by_lifetime: object, short: int, long: int
) -> None:
    """What is written is divided by how long it lives."""
    usage = {"input_tokens": 9, "output_tokens": 7}
    report = usage | {
        "cache_creation_input_tokens": total,
        "cache_creation": by_lifetime,
    }
    expected = TokenUsage(
        input_tokens=9,
        cache_write_tokens=short,
        cache_write_1h_tokens=long,
        output_tokens=7,
    )

    assert facts_of(report).usage == expected
    assert facts_of({"output_tokens": 7}, start=report).usage == expected


@pytest.mark.parametrize(
    ("details", "thinking"),
    [
        ({"thinking_tokens": 5}, 5),
        ({"thinking_tokens": 9}, 7),
        ({}, 0),
        (None, 0),
        (5, 0),
    ],
)
def test_thinking_is_a_part_of_the_output(details: object, thinking: int) -> None:
    """Thinking is within the output, and stays known."""
    report = {"input_tokens": 9, "output_tokens": 7, "output_tokens_details": details}
    expected = TokenUsage(
        input_tokens=9, output_tokens=7 - thinking, reasoning_tokens=thinking
    )

    assert facts_of(report).usage == expected
    assert facts_of(report, {"output_tokens": 7}).usage == expected


@pytest.mark.parametrize("value", [None, {}, "usage", 5, [], {"output_tokens": None}])
def test_nothing_said(value: object) -> None:
    """null and what is no object erase nothing."""
    assert facts_of(value).usage is None

    facts = facts_of(
        value, {"input_tokens": 0, "output_tokens": 0}, start={"input_tokens": 9}
    )
    assert facts.usage == TokenUsage(input_tokens=9)
    assert not facts.usage_final


def test_zero_is_zero() -> None:
    """A report of no tokens at all is a report."""
    facts = facts_of({"input_tokens": 0, "output_tokens": 0})

    assert facts.usage == TokenUsage()
    assert facts.usage_final


def test_output_alone() -> None:
    """Without the input the report is not all, but its output is known."""
    facts = facts_of({"output_tokens": 7})

    assert facts.usage == TokenUsage(output_tokens=7)
    assert not facts.usage_final


@pytest.mark.parametrize("value", ["12", True, -3, math.inf, math.nan, 1.5, None])
def test_beginning_without_an_input(value: object) -> None:
    """An input that was not told at the beginning is not 0 at the end (S07)."""
    start = {"input_tokens": value, "output_tokens": 1}
    facts = facts_of({"output_tokens": 7}, start=start)

    assert facts.usage == TokenUsage(output_tokens=7)
    assert not facts.usage_final


def test_input_from_a_cache_alone() -> None:
    """An input that was all read from a cache is an input."""
    start = {"cache_read_input_tokens": 9, "output_tokens": 1}
    facts = facts_of({"output_tokens": 7}, start=start)

    assert facts.usage_final


@pytest.mark.parametrize("value", ["12", True, -3, math.inf, math.nan, 1.5, None])
def test_no_figures(value: object) -> None:
    """What is no number of tokens is unknown (S07)."""
    facts = facts_of({"input_tokens": 9, "output_tokens": value})

    assert facts.usage == TokenUsage(input_tokens=9)
    assert not facts.usage_final


@pytest.mark.parametrize(
    "figures",
    [
        {"input_tokens": 10**14},
        {"output_tokens": 10**9 + 1},
        {"cache_read_input_tokens": 10**14},
        {"cache_creation_input_tokens": 10**14},
        {"cache_creation": {"ephemeral_1h_input_tokens": 10**14}},
    ],
)
def test_absurd(figures: dict[str, Any]) -> None:
    """A report with a figure that no count can be is left out whole, and told."""
    usual = {"input_tokens": 9, "output_tokens": 7}
    facts = facts_of(usual | figures)
    assert facts.usage is None
    assert facts.absurd

    begun = facts_of({"output_tokens": 7}, start=usual | figures)
    assert begun.usage == TokenUsage(output_tokens=7)
    assert not begun.usage_final
    assert begun.absurd


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]),
            st.none() | st.integers(-2, 50),
        ),
        max_size=4,
    )
)  # fmt: skip
def test_last_figure_counts(reports: list[dict[str, Any]]) -> None:
    """Each figure is the last one that was said and not zero."""
    usage = facts_of(*reports).usage or TokenUsage()
    last = {
        k: v for report in reports for k, v in report.items() if v is not None and v > 0
    }

    assert usage.input_tokens == last.get("input_tokens", 0)
    assert usage.cached_input_tokens == last.get("cache_read_input_tokens", 0)
    assert usage.cache_write_tokens == last.get("cache_creation_input_tokens", 0)
    assert usage.output_tokens == last.get("output_tokens", 0)


@pytest.mark.parametrize(
    ("members", "tier"),
    [
        ({}, None),
        ({"service_tier": "standard"}, "standard"),
        ({"service_tier": "batch", "speed": "standard"}, "batch"),
        ({"service_tier": "standard", "speed": "fast"}, "fast"),
    ],
)
def test_service_tier(members: dict[str, Any], tier: str | None) -> None:
    """It stands in the usage; the fast mode has prices of its own (B09)."""
    facts = ResponseFacts()
    read_usage({"input_tokens": 5, **members}, facts, begun_only=True)
    assert facts.service_tier == tier

    read_usage(
        {"output_tokens": 7, "service_tier": "standard"}, facts, begun_only=False
    )
    assert facts.service_tier == ("fast" if tier == "fast" else "standard")
