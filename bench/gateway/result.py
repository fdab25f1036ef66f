"""What a run has found, as files and as pages have it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.gateway import table as tables
from bench.gateway.cell import Cell
from bench.gateway.children import ROOT
from bench.gateway.correctness import Admission
from bench.gateway.plot import plot
from bench.gateway.shown import as_markdown, goals
from bench.gateway.startup import Startup
from bench.gateway.summary import Summary, as_json, summarise
from bench.gateway.surroundings import short
from bench.page import put_table

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = Path(__file__).with_name("result.svg")
KEPT = Path(__file__).with_name("result.json")


@dataclass
class Result:
    """
    Attributes:
        surroundings: See `surroundings`.
        skipped: Variants that could not be measured, and what they lack.
        cells: All that was measured.
        memory: Resident MiB of each role under load, by variant.
        startups: By variant.
        admissions: One for each way of limiting.
        wrong: What makes figures worthless, a line each.
        warnings: What a reader has to know.
    """

    surroundings: dict[str, Any]
    skipped: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    memory: dict[str, Mapping[str, float]] = field(default_factory=dict)
    startups: dict[str, Startup] = field(default_factory=dict)
    admissions: list[Admission] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return all tables, as Markdown."""
        summary = summarise(self.cells)
        memory = ("RSS MiB: processor", self._memory_text)
        parts = [
            short(self.surroundings),
            f"`{self.surroundings['command']}`",
            tables.table(summary, tables.THROUGHPUT, [memory]),
            *_titled("Added to Envoy alone, JSON, ms:", summary, tables.LATENCY),
            *_titled("Streams of 100 chunks:", summary, tables.STREAMS),
            *self._startup_lines(),
            *self._admission_lines(),
            as_markdown(goals(summary, self.admissions, self.startups)),
            "\n".join(f"- {line}" for line in (*self._skips(), *self.warnings)),
        ]
        return "\n\n".join(part for part in parts if part)

    def as_json(self) -> dict[str, Any]:
        """Return it as what `json` writes."""
        summary = summarise(self.cells)
        found = goals(summary, self.admissions, self.startups)
        return {
            **self.surroundings,
            "skipped": dict(self.skipped),
            "wrong": self.wrong,
            "warnings": self.warnings,
            "summary": as_json(summary),
            "memory_mib": self.memory,
            "startup": {name: asdict(each) for name, each in self.startups.items()},
            "admission": [asdict(each) for each in self.admissions],
            "goals": [asdict(each) for each in found],
            "cells": [asdict(each) for each in self.cells],
        }

    def picture(self) -> str:
        """Return the plot, as SVG."""
        return plot(summarise(self.cells), short(self.surroundings))

    def write(self, folder: Path) -> None:
        """Put ``result.json``, ``result.md`` and ``result.svg`` into *folder*."""
        folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps(self.as_json(), indent=1) + "\n"
        (folder / "result.json").write_text(content)
        (folder / "result.md").write_text(self.text() + "\n")
        (folder / "result.svg").write_text(self.picture())

    def publish(self) -> None:
        """Put it into the page, and its picture and figures beside us."""
        put_table(PAGE, "result", self.text())
        PICTURE.write_text(self.picture())
        content = {k: v for k, v in self.as_json().items() if k != "cells"}
        KEPT.write_text(json.dumps(content, indent=1) + "\n")

    def _memory_text(self, variant: str) -> str:
        held = self.memory.get(variant, {})
        found = held.get("processor", held.get("proxy"))
        return "-" if found is None else f"{found:.0f}"

    def _skips(self) -> list[str]:
        """Return what was skipped, a line for each thing that this build lacks."""
        lacking: dict[str, list[str]] = {}
        for variant, missing in self.skipped.items():
            lacking.setdefault(", ".join(missing), []).append(variant)
        return [
            f"Not in this build: {missing} (skipped: {'; '.join(names)})"
            for missing, names in lacking.items()
        ]

    def _startup_lines(self) -> list[str]:
        return [
            f"A processor ({name}) is ready after {s.ready_seconds.text(2)} s and "
            f"{s.cpu_seconds.text(2)} s of CPU; idle it has {s.rss_mib.text(0)} MiB "
            f"resident and takes {s.idle_cpu_percent.text(1)} % of a core."
            for name, s in self.startups.items()
        ]

    def _admission_lines(self) -> list[str]:
        return [
            f"Over-admission ({a.variant}): {a.sidecars} sidecars x {a.streams} streams, "
            f"room for {a.capacity // a.each}: {a.admitted} admitted, {a.refused} refused, "
            f"{a.over} tokens above capacity."
            for a in self.admissions
        ]


def _titled(
    title: str, summary: Summary, columns: Sequence[tables.Column]
) -> tuple[str, ...]:
    found = tables.table(summary, columns)
    return (title, found) if found else ()
