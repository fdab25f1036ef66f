"""One variant under one load for a while: what the apps saw, and what it took."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bench.gateway.children import Child, environment, python
from bench.gateway.client import PATIENCE_SECONDS, Seen, Task
from bench.gateway.commandstats import Asked, asked
from bench.gateway.loads import Load, Shape
from bench.gateway.processes import CpuTimes, cpu_times
from bench.gateway.stand import Stand

US = 1_000_000
# Together they are what a deployment pays for.
POD_ROLES = ("envoy", "processor", "ledger", "proxy")


@dataclass(frozen=True, slots=True)
class Cell:
    """
    Attributes:
        variant: Its name; *load*: likewise.
        round: From 0 on.
        figures: What was measured, by name: times in ms (``_ms``), CPU in microseconds
            for each request (``cpu_us_ROLE``), and counts.
        requests: That were answered whole.
        failed: Those that were not, by why.
    """

    variant: str
    load: str
    round: int
    figures: Mapping[str, float]
    requests: int
    failed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Before:
    """What all roles had used, and the ledger been asked, at some moment."""

    cpu: Mapping[str, CpuTimes]
    asked: Asked | None

    @classmethod
    def now(cls, stand: Stand, upstream: Child) -> Before:
        """Look."""
        roots = {**stand.roots, "upstream": [upstream.pid]}
        return cls(
            {role: cpu_times(pids) for role, pids in roots.items()},
            asked(stand.ledger.path) if stand.ledger else None,
        )


def task_of(load: Load, stand: Stand, seconds: float) -> Task:
    """Return what the apps are to do."""
    rate = load.per_second
    most = stand.variant.per_second
    if rate is not None and most is not None:
        rate = min(rate, most)
    return Task(
        stand.port,
        load.shape is Shape.SSE,
        load.connections,
        seconds,
        rate,
        load.chunk_ms,
    )


def measure(
    stand: Stand, load: Load, seconds: float, upstream: Child, number: int = 0
) -> Cell:
    """Put *stand* under *load*. Raises: CalledProcessError, if the apps fail."""
    task = task_of(load, stand, seconds)
    return measure_task(stand, task, upstream, load.name, number)


def measure_task(
    stand: Stand, task: Task, upstream: Child, name: str, number: int = 0
) -> Cell:
    """Let apps do *task*; the load goes by *name*. Raises: CalledProcessError."""
    before = Before.now(stand, upstream)
    seen = ask(task)
    after = Before.now(stand, upstream)
    failed = {status: n for status, n in seen.statuses.items() if status != "200"}
    if seen.broken:
        failed["broken"] = seen.broken
    figures = figures_of(seen, before, after)
    return Cell(stand.variant.name, name, number, figures, seen.requests, failed)


def ask(task: Task) -> Seen:
    """Let apps do *task* in a process of their own. Raises: CalledProcessError."""
    run = subprocess.run(
        python("bench.gateway.client", json.dumps(asdict(task))),
        check=True,
        stdout=subprocess.PIPE,
        env=environment(),
        timeout=task.seconds + 2 * PATIENCE_SECONDS,
    )
    return Seen(**json.loads(run.stdout))


def figures_of(seen: Seen, before: Before, after: Before) -> dict[str, float]:
    """Return the figures of what apps have seen between two moments."""
    requests = max(1, seen.requests)
    cpu = {role: now.since(before.cpu[role]) for role, now in after.cpu.items()}
    pod_us = US * sum(cpu.get(role, 0.0) for role in POD_ROLES) / requests
    figures = {
        "requests": float(seen.requests),
        "per_second": seen.requests / max(seen.seconds, 1e-9),
        **{f"cpu_us_{role}": US * spent / requests for role, spent in cpu.items()},
        "cpu_us_pod": pod_us,
        "per_cpu_second": US / pod_us if pod_us else 0.0,
        "cpu_us_client": US * seen.cpu_seconds / requests,
        "busy_upstream": cpu["upstream"] / max(seen.seconds, 1e-9),
        "busy_client": seen.cpu_seconds / max(seen.seconds, 1e-9),
        **_named("latency", seen.latency_ms),
        **_named("first", seen.first_ms),
        **_named("gap", seen.gap_ms),
    }
    if seen.chunks:
        figures["chunks_per_second"] = seen.chunks / max(seen.seconds, 1e-9)
        figures["cpu_us_pod_chunk"] = pod_us * requests / seen.chunks
    if after.asked and before.asked:
        spent = after.asked.since(before.asked)
        figures["ledger_calls"] = spent.calls / requests
        figures["ledger_commands"] = spent.commands / requests
    return {name: round(figure, 4) for name, figure in figures.items()}


def _named(what: str, percentiles: Mapping[str, float]) -> dict[str, float]:
    return {f"{what}_{name}_ms": ms for name, ms in percentiles.items()}
