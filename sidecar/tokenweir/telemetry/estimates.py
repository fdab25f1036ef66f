"""
How far estimates of tokens are off, and what they are corrected by, for Prometheus.

Each is described in docs/observability.md: change both together.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tokenweir.core.calibration import Learned, Place, Side
from tokenweir.core.policy import Model, Policy
from tokenweir.telemetry.instruments import PREFIX
from tokenweir.telemetry.labels import NONE, Labels

# Around 1, finely; and as far as anybody would believe.
RATIO_BUCKETS = (
    0.25, 0.5, 0.67, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0,
)  # fmt: skip

Row = tuple[str, str, str, str]


class EstimateMetrics:
    """Counts what reports say of estimates, into a *registry*."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ratio = Histogram(
            f"{PREFIX}_estimate_error_ratio",
            "Reported by estimated tokens, corrections included.",
            ("side", "model", "route"),
            registry=registry,
            buckets=RATIO_BUCKETS,
        )
        self._factor = Gauge(
            f"{PREFIX}_calibration_factor",
            "Reported tokens by those estimated without corrections, as learned.",
            ("side", "tenant", "model", "route"),
            registry=registry,
        )
        self._asked = Counter(
            f"{PREFIX}_tokenize_requests",
            "Questions to models' own servers, by what became of them.",
            ("outcome",),
            registry=registry,
        )
        self._labels = Labels()
        self._names: Mapping[tuple[str, str], str] = {}
        self._shown: frozenset[Row] = frozenset()

    def use_policy(self, policy: Policy) -> None:
        """Let *policy* say which label values there are."""
        self._labels = Labels(policy)
        models: tuple[Model, ...] = (*policy.models.values(), *policy.model_families)
        self._names = {
            (model.provider, model.upstream_model or model.name): model.name
            for model in models
        }

    def compared(self, place: Place, side: Side, ratio: float) -> None:
        """An estimate was off by *ratio*."""
        route = place.route or NONE
        self._ratio.labels(side, self._model(place), route).observe(ratio)

    def learned(self, known: Mapping[tuple[Place, Side], Learned]) -> None:
        """Tell what is learned; of those that have the same labels, the best known."""
        best: dict[Row, Learned] = {}
        for (place, side), learned in known.items():
            row = self._row(place, side)
            if learned.is_ready and (
                row not in best or best[row].weight < learned.weight
            ):
                best[row] = learned
        # What stays is never away meanwhile: a scrape is done by another thread.
        for row, learned in best.items():
            self._factor.labels(*row).set(learned.factor)
        for row in self._shown - best.keys():
            self._factor.remove(*row)
        self._shown = frozenset(best)

    def asked(self, outcome: str) -> None:
        """A server was asked for a count; see `TokenizeServers`."""
        self._asked.labels(outcome).inc()

    def _row(self, place: Place, side: Side) -> Row:
        tenant = self._labels.tenant(place.tenant)
        return str(side), tenant, self._model(place), place.route or NONE

    def _model(self, place: Place) -> str:
        found = self._names.get((place.provider, place.model))
        return found if found is not None else self._labels.model(place.model)
