"""
What operators see of the webhook: metrics, and a JSON line for each pod.

Words of both are of closed vocabularies. A line names the pod, as an Event of Kubernetes
would: the webhook has no right to write those, and needs none. No part of a pod's spec is
told, nor anything of a request that is no review. docs/kubernetes/webhook.md has all of
it: change both together.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tokenweir.inject.admission import Answer
from tokenweir.inject.webhook.certificate import Validity
from tokenweir.telemetry.logs import JsonLog, Level

_PREFIX = "tokenweir_injection"
# The API server waits five seconds.
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Operators:
    """Counts into *registry* and writes to *log*."""

    def __init__(self, registry: CollectorRegistry, log: JsonLog) -> None:
        self._log = log
        self._pods = Counter(
            f"{_PREFIX}_pods",
            "Pods that were asked about.",
            ("outcome", "reason", "dry_run"),
            registry=registry,
        )
        self._refused = Counter(
            f"{_PREFIX}_reviews_refused",
            "Requests that were no review.",
            ("reason",),
            registry=registry,
        )
        self._seconds = Histogram(
            f"{_PREFIX}_seconds",
            "How long an answer took.",
            registry=registry,
            buckets=_BUCKETS_S,
        )
        self._loads = Counter(
            f"{_PREFIX}_certificate_loads",
            "Changed certificates.",
            ("outcome",),
            registry=registry,
        )
        self._ends = Gauge(
            f"{_PREFIX}_certificate_ends_timestamp_seconds",
            "When the certificate in use is good no longer.",
            registry=registry,
        )
        self._unusable = ""

    def event(self, name: str, level: Level = Level.INFO, **fields: object) -> None:
        """Write a line."""
        self._log.event(name, level, **fields)

    def answered(self, answer: Answer, seconds: float) -> None:
        """Tell what became of a pod."""
        reason, dry_run = answer.reason or "none", str(answer.dry_run).lower()
        self._pods.labels(answer.outcome, reason, dry_run).inc()
        self._seconds.observe(seconds)
        level = Level.WARNING if answer.outcome == "refused" else Level.INFO
        told: dict[str, object] = {**answer.subject}
        if answer.reason:
            told["reason"] = answer.reason
        if answer.dry_run:
            told["dry_run"] = True
        self._log.event(f"pod_{answer.outcome}", level, **told)

    def refused(self, reason: str) -> None:
        """Tell of a request that was no review."""
        self._refused.labels(reason).inc()
        self._log.event("review_refused", Level.WARNING, reason=reason)

    def fault(self, error: BaseException) -> None:
        """Tell of what broke."""
        self._refused.labels("fault").inc()
        self._log.fault("webhook", error)

    def loaded(self, validity: Validity) -> None:
        """Tell of a certificate that is in use from now on."""
        self._unusable = ""
        self._loads.labels("loaded").inc()
        self._ends.set(validity.ends_at)
        self._log.event("certificate_loaded", ends_at=int(validity.ends_at))

    def unusable(self, problem: str) -> None:
        """Tell once of a certificate that can't be used."""
        self._loads.labels("refused").inc()
        if problem != self._unusable:
            self._unusable = problem
            self._log.event("certificate_refused", Level.ERROR, problem=problem)
