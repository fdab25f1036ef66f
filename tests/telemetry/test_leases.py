"""What is leased, as Prometheus sees it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from tokenweir.core.hold import Limit
from tokenweir.core.policy import Axis
from tokenweir.telemetry.leases import LeaseMetrics


def test_hits_misses_and_slices() -> None:
    """Each is counted by what it was."""
    registry = CollectorRegistry()
    metrics = LeaseMetrics(registry)
    for by_lease in (True, True, False):
        metrics.admitted(by_lease=by_lease)
    for exchanges in (7, 0, 5):
        metrics.slice_taken(exchanges)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"tokenweir_lease_{name}_total", labels)

    assert value("admissions", by="lease") == 2
    assert value("admissions", by="ledger") == 1
    assert value("slices", outcome="granted") == 2
    assert value("slices", outcome="refused") == 1


def test_what_is_leased_is_asked_for_at_each_scrape() -> None:
    """By axis, all slices together."""
    registry = CollectorRegistry()
    tokens = Limit("tpm", Axis.TOKENS, "tenant=acme", 1, 1)
    found = [(tokens, 5), (tokens, 6), (Limit("rpm", Axis.REQUESTS, "", 1, 1), 3)]
    LeaseMetrics(registry).watch(lambda: iter(found))

    def leased(axis: str) -> float | None:
        return registry.get_sample_value("tokenweir_leased", {"axis": axis})

    assert leased("tokens_per_minute") == 11
    assert leased("requests_per_minute") == 3
    found.clear()
    assert leased("tokens_per_minute") == 0
