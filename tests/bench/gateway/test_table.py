"""The table that people read."""

from __future__ import annotations

from bench.gateway.summary import summarise
from bench.gateway.table import LATENCY, THROUGHPUT, Column, cell, table
from tests.bench.gateway.cells import ALONE, JSON, OURS, run

SUMMARY = summarise(run())


def test_a_row_for_each_variant() -> None:
    """With the figures of the main loads, and the ratio in per cent."""
    lines = table(SUMMARY, THROUGHPUT).splitlines()

    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {ALONE}", f"| {OURS}"]
    assert "45.0 (40.0-50.0)" in lines[3]
    assert {line.count("|") for line in lines} == {len(THROUGHPUT) + 2}


def test_what_was_not_measured_is_a_dash() -> None:
    """A role that a variant lacks, and a load."""
    column = Column(
        "", JSON, ("cpu_us_envoy", "cpu_us_processor|cpu_us_proxy"), 0, ranged=False
    )

    assert cell(SUMMARY, ALONE, column) == "100 / -"
    assert cell(SUMMARY, OURS, column) == "100 / 85"
    assert cell(SUMMARY, OURS, Column("", "json-64", ("per_second",))) == "-"


def test_variants_without_any_figure_have_no_row() -> None:
    """Latency at c=64 was not measured here; at c=16 it was."""
    assert table(SUMMARY, LATENCY[2:3]) == ""
    assert len(table(SUMMARY, LATENCY[1:2]).splitlines()) == 4


def test_extra_columns_are_texts() -> None:
    """By variant, at the end."""
    lines = table(SUMMARY, THROUGHPUT[:1], [("RSS", lambda name: f"<{len(name)}>")])

    assert lines.splitlines()[2].endswith(f"| <{len(ALONE)}> |")
