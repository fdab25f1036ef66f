"""Cells for tests: what a run of two variants may have found."""

from __future__ import annotations

from bench.gateway.cell import Cell
from bench.gateway.variants import Kind, Variant

ALONE = Kind.ALONE.value
OURS = Variant(Kind.TOKENWEIR, "native", "redis", "asyncio").name
JSON, SSE = "json-16", "sse-16-paced"


def cell(
    variant: str = OURS,
    load: str = JSON,
    number: int = 0,
    failed: dict[str, int] | None = None,
    **figures: float,
) -> Cell:
    """Return a sound cell with *figures* of its own."""
    found = {
        "per_second": 1_000.0,
        "latency_p50_ms": 1.0,
        "latency_p99_ms": 2.0,
        "cpu_us_pod": 300.0,
        "cpu_us_envoy": 100.0,
        "per_cpu_second": 3_333.0,
    }
    if load.startswith("sse"):
        found |= {
            "first_p50_ms": 1.0,
            "first_p99_ms": 2.0,
            "gap_p50_ms": 10.0,
            "gap_p99_ms": 11.0,
            "cpu_us_pod_chunk": 30.0,
        }
    return Cell(variant, load, number, found | figures, 100, failed or {})


def run() -> list[Cell]:
    """Return two rounds of Envoy alone and of ours."""
    return [
        cell(ALONE, JSON, 0, per_second=10_000.0, latency_p50_ms=0.5),
        cell(
            OURS, JSON, 0, per_second=4_000.0, cpu_us_processor=80.0, ledger_calls=2.0
        ),
        cell(ALONE, SSE, 0),
        cell(OURS, SSE, 0, cpu_us_processor=90.0, gap_p99_ms=11.5),
        cell(ALONE, JSON, 1, per_second=8_000.0, latency_p50_ms=0.6),
        cell(
            OURS, JSON, 1, per_second=4_000.0, cpu_us_processor=90.0, ledger_calls=2.0
        ),
        cell(ALONE, SSE, 1, gap_p99_ms=12.0),
        cell(OURS, SSE, 1, cpu_us_processor=90.0, gap_p99_ms=11.7),
    ]
