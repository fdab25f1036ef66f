"""How far estimates are off, as Prometheus is told."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry

from tests.examples import policy
from tokenweir.core.calibration import Learned, Place, Side
from tokenweir.core.policy import Model
from tokenweir.telemetry.estimates import EstimateMetrics

PLACE = Place("acme", "openai", "upstream-of-mine", "chat_completions")
READY = Learned(9, 5_000, 693_147, 100, 0)


def scene() -> tuple[EstimateMetrics, CollectorRegistry]:
    """Return metrics under a policy that knows the model as ``mine``."""
    registry = CollectorRegistry()
    metrics = EstimateMetrics(registry)
    known = policy()
    mine = Model("mine", "openai", "upstream-of-mine")
    metrics.use_policy(replace(known, models={**known.models, "mine": mine}))
    return metrics, registry


def factor(registry: CollectorRegistry, **labels: str) -> float | None:
    """Return the gauge of these labels."""
    of = {"side": "input", "tenant": "acme", "model": "mine"}
    return registry.get_sample_value(
        "tokenweir_calibration_factor",
        {**of, "route": "chat_completions", **labels},
    )


def test_errors_are_by_model_and_route() -> None:
    """By the policy's name of the model; one that it does not have is other."""
    metrics, registry = scene()
    metrics.compared(PLACE, Side.INPUT, 1.2)
    metrics.compared(replace(PLACE, model="made-up", route=""), Side.OUTPUT, 3.0)

    for labels in (
        {"side": "input", "model": "mine", "route": "chat_completions"},
        {"side": "output", "model": "other", "route": "none"},
    ):
        count = registry.get_sample_value(
            "tokenweir_estimate_error_ratio_count", labels
        )
        assert count == 1


def test_factors_come_and_go() -> None:
    """Those that are used show, and of two with the same labels the better known."""
    metrics, registry = scene()
    stranger = replace(PLACE, tenant="stranger")
    weak = replace(READY, weight=1_000, mean=0)
    metrics.learned(
        {
            (PLACE, Side.INPUT): READY,
            (PLACE, Side.OUTPUT): replace(READY, samples=1),
            (stranger, Side.INPUT): READY,
            (replace(stranger, tenant="another"), Side.INPUT): weak,
        }
    )
    shown = factor(registry)

    assert shown is not None
    assert round(shown, 3) == 2.0
    assert factor(registry, side="output") is None
    assert round(factor(registry, tenant="other") or 0, 3) == 2.0

    metrics.learned({(stranger, Side.INPUT): weak})
    assert factor(registry) is None
    assert factor(registry, tenant="other") == 1.0


def test_questions_to_servers_are_counted() -> None:
    """By what became of them."""
    metrics, registry = scene()
    metrics.asked("late")

    name = "tokenweir_tokenize_requests_total"
    assert registry.get_sample_value(name, {"outcome": "late"}) == 1
