"""
What is leased of limits, for Prometheus.

Each is described in docs/observability.md: change both together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge

from tokenweir.core.hold import Limit
from tokenweir.core.policy import Axis
from tokenweir.telemetry.instruments import PREFIX


class LeaseMetrics:
    """Counts what leases save, into a *registry*."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._admissions = Counter(
            f"{PREFIX}_lease_admissions",
            "Exchanges that could be admitted out of a lease, by what they were.",
            ("by",),
            registry=registry,
        )
        self._slices = Counter(
            f"{PREFIX}_lease_slices",
            "Slices that the ledger was asked for.",
            ("outcome",),
            registry=registry,
        )
        self._leased = Gauge(
            f"{PREFIX}_leased",
            "What may still be admitted out of slices, in the unit of the axis.",
            ("axis",),
            registry=registry,
        )

    def admitted(self, *, by_lease: bool) -> None:
        """See `tokenweir.ledger.leases.LeaseEvents`."""
        self._admissions.labels("lease" if by_lease else "ledger").inc()

    def slice_taken(self, exchanges: int) -> None:
        """Ditto."""
        self._slices.labels("granted" if exchanges else "refused").inc()

    def watch(self, leased: Callable[[], Iterator[tuple[Limit, int]]]) -> None:
        """Have *leased* asked what there is of each limit, at each scrape."""
        for axis in Axis:
            self._leased.labels(axis.value).set_function(_sum_of(axis, leased))


def _sum_of(
    axis: Axis, leased: Callable[[], Iterator[tuple[Limit, int]]]
) -> Callable[[], float]:
    return lambda: sum(amount for limit, amount in leased() if limit.axis is axis)
