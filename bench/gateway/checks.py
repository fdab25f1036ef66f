"""
What makes figures worthless, as opposed to bad.

A slow gateway has numbers, and they may be compared. One that refuses, loses usage or
admits too much has not done the work whose cost is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.gateway.cell import Cell
from bench.gateway.loads import INPUT_TOKENS, OUTPUT_TOKENS

# Of one core: more, and the provider or the apps are what is measured.
MOST_BUSY = 0.9
_NEEDED = ("per_second", "latency_p50_ms", "latency_p99_ms", "cpu_us_pod")
_NEEDED_OF_STREAMS = ("first_p50_ms", "gap_p50_ms", "gap_p99_ms", "cpu_us_pod_chunk")


def broken(cells: Sequence[Cell], expected: Iterable[tuple[str, str]]) -> list[str]:
    """
    Return what is wrong with *cells*, a line each; none: nothing.

    *expected* are the pairs of variant and load that there has to be a cell of.
    """
    there = {(cell.variant, cell.load) for cell in cells}
    lines = [
        f"missing: {v} under {load}" for v, load in expected if (v, load) not in there
    ]
    for cell in cells:
        lines += [f"{cell.variant} under {cell.load}: {what}" for what in wrong(cell)]
    return lines


def wrong(cell: Cell) -> list[str]:
    """Return what is wrong with *cell*."""
    found = [f"{count} x {why}" for why, count in cell.failed.items()]
    if not cell.requests:
        return [*found, "no request was answered"]
    needed = _NEEDED + (_NEEDED_OF_STREAMS if cell.load.startswith("sse") else ())
    found += [f"no {name}" for name in needed if name not in cell.figures]
    found += [
        f"{name} is {figure}" for name, figure in cell.figures.items() if figure < 0
    ]
    return found


def in_the_way(cells: Sequence[Cell]) -> list[str]:
    """Return where the provider or the apps had no room left: a warning each."""
    return [
        f"{cell.variant} under {cell.load}: {who} was busy {100 * busy:.0f} % of the time"
        for cell in cells
        for who in ("upstream", "client")
        if (busy := cell.figures.get(f"busy_{who}", 0.0)) > MOST_BUSY
    ]


def unsettled(variant: str, answered: int, sums: Mapping[str, int]) -> list[str]:
    """
    Return what is wrong if *answered* exchanges have led to the hourly *sums*.

    Usage must be that of the provider's reports, neither more nor less.
    """
    due = {
        "exchanges": answered,
        "input_tokens": answered * INPUT_TOKENS,
        "output_tokens": answered * OUTPUT_TOKENS,
    }
    return [
        f"{variant}: settled {name} {sums.get(name, 0)}, due {count}"
        for name, count in due.items()
        if sums.get(name, 0) != count
    ]
