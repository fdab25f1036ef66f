"""Metrics are there from the start, at zero, and documented."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from tokenweir.export.instruments import PREFIX, ExportInstruments


def test_they_begin_at_zero() -> None:
    """A rule on a metric finds it before anything has happened."""
    registry = CollectorRegistry()
    ExportInstruments(registry)

    assert registry.get_sample_value("tokenweir_export_records_total") == 0
    for where in ("ledger", "sink"):
        labels = {"where": where}
        assert registry.get_sample_value(f"{PREFIX}_failures_total", labels) == 0


def test_each_is_documented() -> None:
    """docs/export.md has every metric."""
    registry = CollectorRegistry()
    ExportInstruments(registry)
    document = Path("docs/export.md").read_text()
    names = {
        sample.name
        for family in registry.collect()
        for sample in family.samples
        if sample.name.startswith(PREFIX) and not sample.name.endswith("_created")
    }

    assert len(names) >= 7
    assert {name for name in names if f"`{name}`" not in document} == set()
