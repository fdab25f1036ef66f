"""Medians and ranges over rounds, and ratios to Envoy alone within each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.gateway.cell import Cell
from bench.gateway.spread import Spread, spread
from bench.gateway.variants import Kind, variants

# Ratios to Envoy alone, and what is added to it, of these figures.
_RATIOS = ("per_second", "cpu_us_pod", "per_cpu_second")
_ADDED = (
    *("latency_p50_ms", "latency_p99_ms", "first_p50_ms", "first_p99_ms"),
    *("gap_p50_ms", "gap_p99_ms"),
)

# By variant, load and figure.
Summary = Mapping[str, Mapping[str, Mapping[str, Spread]]]


def summarise(cells: Sequence[Cell]) -> Summary:
    """
    Return the spreads of all figures.

    Beside those of cells: ``ratio_FIGURE`` and ``added_FIGURE``, to Envoy alone.
    """
    alone = {
        (cell.load, cell.round): cell.figures
        for cell in cells
        if cell.variant == Kind.ALONE.value
    }
    gathered: dict[str, dict[str, dict[str, list[float]]]] = {}
    for cell in cells:
        of_load = gathered.setdefault(cell.variant, {}).setdefault(cell.load, {})
        base = alone.get((cell.load, cell.round), {})
        for name, figure in (*cell.figures.items(), *_compared(cell.figures, base)):
            of_load.setdefault(name, []).append(figure)
    return {
        variant: {
            load: _spreads(figures) for load, figures in gathered[variant].items()
        }
        for variant in sorted(gathered, key=_place)
    }


def _place(variant: str) -> int:
    """Return where it stands in tables: where it is told of in `variants`."""
    names = [each.name for each in variants()]
    return names.index(variant) if variant in names else len(names)


def _compared(
    figures: Mapping[str, float], base: Mapping[str, float]
) -> Iterable[tuple[str, float]]:
    for name in _RATIOS:
        if figures.get(name) and base.get(name):
            yield f"ratio_{name}", figures[name] / base[name]
    for name in _ADDED:
        if name in figures and name in base:
            yield f"added_{name}", figures[name] - base[name]


def _spreads(figures: Mapping[str, Iterable[float]]) -> dict[str, Spread]:
    found = {name: spread(values) for name, values in figures.items()}
    return {name: each for name, each in found.items() if each is not None}


def as_json(summary: Summary) -> dict[str, Any]:
    """Return it as what `json` writes."""
    return {
        variant: {
            load: {name: asdict(each) for name, each in figures.items()}
            for load, figures in loads.items()
        }
        for variant, loads in summary.items()
    }


def median(summary: Summary, variant: str, load: str, figure: str) -> float | None:
    """Return the median of a *figure*; None if it was not measured."""
    found = summary.get(variant, {}).get(load, {}).get(figure)
    return None if found is None else found.median
