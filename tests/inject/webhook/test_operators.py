"""What became of pods can be counted and read."""

from __future__ import annotations

import io
import json
from typing import Any

from prometheus_client import CollectorRegistry

from tests.inject.pods import marked
from tests.inject.reviews import pod_of_a_replica_set, review
from tokenweir.inject.admission import answer
from tokenweir.inject.settings import Settings
from tokenweir.inject.webhook.certificate import Validity
from tokenweir.inject.webhook.operators import Operators
from tokenweir.telemetry.logs import JsonLog


class Told:
    """Operators, and what they have heard."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._stream = io.StringIO()
        self._log = JsonLog(self._stream, clock=lambda: 0.0)
        self.operators = Operators(self.registry, self._log)

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines, without their time."""
        assert self._log.close()
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [{k: v for k, v in line.items() if k != "time"} for line in lines]

    def value(self, name: str, **labels: str) -> float | None:
        """Return a metric."""
        return self.registry.get_sample_value(f"tokenweir_injection_{name}", labels)


def test_pods() -> None:
    """Each is counted by outcome and reason, and has its line, like an Event."""
    told = Told()
    wrong = marked(pod_of_a_replica_set(), port="http")
    for asked in (review(), review(dryRun=True), review(wrong)):
        told.operators.answered(answer(asked, Settings()), 0.002)

    injected = {"outcome": "injected", "reason": "none"}
    assert told.value("pods_total", **injected, dry_run="false") == 1
    assert told.value("pods_total", **injected, dry_run="true") == 1
    refused = {"outcome": "refused", "reason": "bad_option", "dry_run": "false"}
    assert told.value("pods_total", **refused) == 1
    assert told.value("seconds_count") == 3
    whole = {"level": "info", "event": "pod_injected", "namespace": "shop"}
    assert told.lines()[:2] == [
        {**whole, "pod": "web-6d4cf56db6-", "owner": "ReplicaSet/web-6d4cf56db6"},
        {
            **whole,
            "pod": "web-6d4cf56db6-",
            "owner": "ReplicaSet/web-6d4cf56db6",
            "dry_run": True,
        },
    ]
    assert told.lines()[2]["level"] == "warning"
    assert told.lines()[2]["event"] == "pod_refused"
    assert told.lines()[2]["reason"] == "bad_option"


def test_what_is_no_review() -> None:
    """It is counted and told by a word; of a fault the place, not what it said."""
    told = Told()
    told.operators.refused("bad_json")
    told.operators.fault(ValueError("a secret"))

    assert told.value("reviews_refused_total", reason="bad_json") == 1
    assert told.value("reviews_refused_total", reason="fault") == 1
    first, second = told.lines()
    assert (first["event"], first["reason"]) == ("review_refused", "bad_json")
    assert second["event"] == "fault"
    assert "a secret" not in json.dumps(second)


def test_certificates() -> None:
    """Each new one is told, and its end; one that can't be used once."""
    told = Told()
    told.operators.loaded(Validity(1.0, 2.5))
    for problem in ("f: is no certificate", "f: is no certificate"):
        told.operators.unusable(problem)
    told.operators.loaded(Validity(1.0, 7.5))
    told.operators.unusable("f: is no certificate")

    assert told.value("certificate_ends_timestamp_seconds") == 7.5
    assert told.value("certificate_loads_total", outcome="loaded") == 2
    assert told.value("certificate_loads_total", outcome="refused") == 3
    assert [line["event"] for line in told.lines()] == [
        "certificate_loaded",
        "certificate_refused",
        "certificate_loaded",
        "certificate_refused",
    ]
