"""
Metrics of an exporter: what, how far behind, and what went wrong.

Each is described in docs/export.md: change both together.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

PREFIX = "tokenweir_export"


class ExportInstruments:
    """The metrics of one exporter, in a *registry* of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        ProcessCollector(registry=registry)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", text, registry=registry)

        self.records = counter("records", "Usage records that a sink has made durable.")
        self.dead_letters = counter(
            "dead_letters", "Entries that are no usage record, or that no sink takes."
        )
        self.expired = counter(
            "expired", "Entries that expired before anybody had exported them."
        )
        self.failures = Counter(
            f"{PREFIX}_failures",
            "Times that the ledger or the sink was away.",
            ("where",),
            registry=registry,
        )
        for where in ("ledger", "sink"):
            self.failures.labels(where)
        self.behind = gauge("behind_entries", "Entries that are not exported yet.")
        self.oldest = gauge("oldest_seconds", "Age of the oldest of them.")
        self.last = gauge(
            "last_success_timestamp_seconds", "When all went well last (Unix time)."
        )
