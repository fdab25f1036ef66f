import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tokenweir.telemetry.estimates import EstimateMetrics
from tokenweir.telemetry.instruments import Instruments
from tokenweir.telemetry.leases import LeaseMetrics

OBSERVABILITY = Path(__file__).parents[2] / "docs" / "observability.md"


def families() -> dict[str, str]:
    """Return name and type of every metric of ours."""
    registry = CollectorRegistry()
    Instruments(registry)
    EstimateMetrics(registry)
    LeaseMetrics(registry)
    return {
        metric.name: metric.type
        for metric in registry.collect()
        if metric.name.startswith("tokenweir_")
    }


def test_names() -> None:
    """Names are in snake case; times are in seconds, and what else spreads is a ratio."""
    for name, kind in families().items():
        assert re.fullmatch(r"tokenweir(_[a-z]+)+", name)
        if kind == "histogram":
            assert name.endswith(("_seconds", "_ratio"))


def test_every_metric_is_documented() -> None:
    """The document names every metric as it is scraped, and no other."""
    suffixes = {"counter": "_total", "info": "_info"}
    scraped = {name + suffixes.get(kind, "") for name, kind in families().items()}
    documented = set(
        re.findall(r"^\| `(tokenweir_\w+)`", OBSERVABILITY.read_text(), re.MULTILINE)
    )

    assert documented == scraped


def test_no_series_of_creation_times() -> None:
    """Counters do not come with a second series that says when they were made."""
    registry = CollectorRegistry()
    Instruments(registry).holds_lost.inc()
    text = generate_latest(registry).decode()

    assert "_created" not in text
    assert "process_cpu_seconds" in {
        family.name for family in text_string_to_metric_families(text)
    }
