"""
How cost grows: with tenants, prompts, workers, open streams, and sidecars on a ledger.

Each series changes one thing, and starts from the same processor: the cheapest path and
transport of this build, limits on, in Redis.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.gateway.capabilities import Build
from bench.gateway.cell import POD_ROLES, US, ask, measure_task
from bench.gateway.client import Task
from bench.gateway.commandstats import asked
from bench.gateway.processes import cpu_times, memory
from bench.gateway.settled import until
from bench.gateway.stand import Site, Stand
from bench.gateway.surroundings import short
from bench.gateway.upstream import held_by, release
from bench.gateway.variants import PATHS, TRANSPORTS, Kind, Variant

TENANTS = (10, 100, 1_000, 10_000)
PROMPT_BYTES = (1_000, 10_000, 100_000, 1_000_000)
WORKERS = (1, 2, 4)
STREAMS = (1, 64, 512, 2_500)
SIDECARS = (1, 2, 4, 8)
SECONDS = 4.0
WARM_UP_SECONDS = 2.0
LOOK_SECONDS = 0.5
IDLE_SHARE = 0.1
IDLE_PATIENCE_SECONDS = 20.0
# Of a load that any of them bears, so that nothing queues.
PER_SECOND = 100.0


@dataclass(frozen=True, slots=True)
class Point:
    """
    Attributes:
        series: What grows.
        size: To what.
        figures: By name; CPU in microseconds for each request.
        failed: Requests that were not answered by a whole 200.
    """

    series: str
    size: int
    figures: dict[str, float]
    failed: int


def cheapest(build: Build) -> Variant:
    """Return the variant that all series are of."""
    path = next(each for each in PATHS if f"path:{each}" in build.known)
    transport = next(each for each in TRANSPORTS if f"transport:{each}" in build.known)
    return Variant(Kind.TOKENWEIR, path, "redis", transport)


def points(site: Site, variant: Variant) -> Iterator[Point]:
    """Measure all series. Raises: RuntimeError, CalledProcessError."""
    series: Sequence[tuple[Sequence[int], Callable[[Site, Variant, int], Point]]] = (
        (TENANTS, of_tenants),
        (PROMPT_BYTES, of_prompts),
        (WORKERS, of_workers),
        (STREAMS, of_streams),
        (SIDECARS, of_sidecars),
    )
    for sizes, measured in series:
        for size in sizes:
            with ExitStack() as stack:
                point = measured(site.within(stack), variant, size)
            print(f"{point.series} {size}: {point.figures}", file=sys.stderr)
            yield point


def of_tenants(site: Site, variant: Variant, size: int) -> Point:
    """Ask for *size* tenants in turn: what does one more of them cost?"""
    stand = site.tokenweir(variant, tenants=size)
    task = Task(stand.port, streams=False, connections=16, seconds=SECONDS, keys=size)
    return _point("tenants", size, site, stand, task)


def of_prompts(site: Site, variant: Variant, size: int) -> Point:
    """Send prompts of *size* bytes."""
    stand = site.tokenweir(variant)
    rate = min(PER_SECOND, 2_000_000 / size)
    texts = 16 if size <= 100_000 else 2
    task = Task(
        stand.port,
        streams=False,
        connections=16,
        seconds=SECONDS,
        per_second=rate,
        prompt_bytes=size,
        texts=texts,
    )
    return _point("prompt bytes", size, site, stand, task)


def of_workers(site: Site, variant: Variant, size: int) -> Point:
    """Ask *size* processors behind one Envoy."""
    stand = site.tokenweir(replace(variant, workers=size))
    task = Task(stand.port, streams=False, connections=32, seconds=SECONDS)
    return _point("workers", size, site, stand, task)


def of_streams(site: Site, variant: Variant, size: int) -> Point:
    """Hold *size* streams open, and look at the memory of those that hold them."""
    stand = site.tokenweir(variant)
    idle = _held(stand)
    task = Task(
        stand.port,
        streams=True,
        connections=size,
        seconds=60.0,
        pace="hold",
        chunks=3,
        most=size,
    )
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(ask, task)
        is_open = until(lambda: held_by(site.upstream_port) >= size, 60.0)
        full = _held(stand)
        release(site.upstream_port)
        seen = asking.result()
    figures = {
        f"{role}_{when}_mib": round(mib, 1)
        for when, found in (("idle", idle), ("open", full))
        for role, mib in found.items()
    }
    failed = size - seen.requests if is_open else size
    return Point("streams", size, figures, failed)


def of_sidecars(site: Site, variant: Variant, size: int) -> Point:
    """Ask *size* sidecars that share a ledger, each at the same pace."""
    ledger = site.ledger()
    stands = [site.tokenweir(variant, ledger=ledger) for _ in range(size)]
    tasks = [
        Task(
            s.port,
            streams=False,
            connections=8,
            seconds=SECONDS,
            per_second=PER_SECOND / 2,
        )
        for s in stands
    ]
    for task in tasks:
        ask(replace(task, seconds=WARM_UP_SECONDS / size))
    roots = [pid for stand in stands for pid in stand.roots["processor"]]
    before, calls = cpu_times(roots), asked(ledger.path)
    spent = cpu_times([ledger.pid])
    with ThreadPoolExecutor(size) as threads:
        seen = list(threads.map(ask, tasks))
    requests = max(1, sum(each.requests for each in seen))
    figures = {
        "cpu_us_processor": US * cpu_times(roots).since(before) / requests,
        "cpu_us_ledger": US * cpu_times([ledger.pid]).since(spent) / requests,
        "ledger_calls": asked(ledger.path).since(calls).calls / requests,
        "latency_p50_ms": sum(each.latency_ms["p50"] for each in seen) / size,
        "latency_p99_ms": max(each.latency_ms["p99"] for each in seen),
    }
    failed = sum(sum(each.statuses.values()) - each.requests for each in seen)
    rounded = {name: round(figure, 2) for name, figure in figures.items()}
    return Point("sidecars", size, rounded, failed)


_TOLD = (
    *("per_second", "latency_p50_ms", "latency_p99_ms", "ledger_calls"),
    *(f"cpu_us_{role}" for role in POD_ROLES),
)


def _point(series: str, size: int, site: Site, stand: Stand, task: Task) -> Point:
    ask(task)
    _wait_until_idle(stand)
    cell = measure_task(stand, task, site.upstream, series)
    figures = {name: cell.figures[name] for name in _TOLD if name in cell.figures}
    figures |= {f"{role}_mib": round(mib, 1) for role, mib in _held(stand).items()}
    return Point(series, size, figures, sum(cell.failed.values()))


def _wait_until_idle(stand: Stand) -> None:
    """Wait for what is done once, such as reading what is known of a new tenant."""
    roots = stand.roots["processor"]

    def is_idle() -> bool:
        before = cpu_times(roots)
        time.sleep(LOOK_SECONDS)
        return cpu_times(roots).since(before) < IDLE_SHARE * LOOK_SECONDS

    until(is_idle, IDLE_PATIENCE_SECONDS)


def _held(stand: Stand) -> dict[str, float]:
    return {role: memory(pids)["rss_mib"] for role, pids in stand.roots.items()}


def table(found: Sequence[Point]) -> str:
    """Return a table for each series, as Markdown."""
    parts = []
    for series in dict.fromkeys(point.series for point in found):
        rows = [point for point in found if point.series == series]
        names = list(rows[0].figures)
        lines = [f"| {series} | {' | '.join(names)} | failed |"]
        lines.append("|" + "---:|" * (len(names) + 2))
        lines += [
            f"| {p.size:,} | "
            + " | ".join(f"{p.figures[name]:,.1f}" for name in names)
            + f" | {p.failed} |"
            for p in rows
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def write(
    folder: Path, told: dict[str, Any], variant: Variant, found: Sequence[Point]
) -> None:
    """Put ``scale.json`` and ``scale.md`` into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        **told,
        "variant": variant.name,
        "points": [asdict(point) for point in found],
    }
    (folder / "scale.json").write_text(json.dumps(content, indent=1) + "\n")
    text = f"{short(told)}\n\n{variant.name}\n\n{table(found)}\n"
    (folder / "scale.md").write_text(text)
