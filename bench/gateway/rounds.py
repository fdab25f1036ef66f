"""
Every variant in turn under each load, several times over.

In turn, so that what else happens on the machine meets all of them; several times, so
that the spread tells how much it was. Each ratio to Envoy alone is taken within a round.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.gateway.cell import Cell, measure
from bench.gateway.children import Child
from bench.gateway.loads import LOADS, Load, Shape
from bench.gateway.stand import Stand

# What a cell takes beside the time in which requests are made: the apps' start, and for
# streams those that are still open then.
OVERHEAD_SECONDS = {Shape.JSON: 0.5, Shape.SSE: 1.3}
LEAST_SECONDS = 0.4
WARM_UP_SECONDS = 0.5
# The round of cells that are no part of the figures.
WARM_UP = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Attributes:
        stands: What is measured, Envoy alone first.
        loads: Those that are used; each stand gets those of them that are its own.
        rounds: How many.
        seconds: For how long each cell makes requests.
    """

    stands: Sequence[Stand]
    loads: Sequence[Load]
    rounds: int
    seconds: float

    def pairs(self) -> list[tuple[Load, Stand]]:
        """Return what a round consists of."""
        return [
            (load, stand)
            for load in self.loads
            for stand in self.stands
            if load in stand.variant.loads()
        ]


def plan(
    stands: Sequence[Stand],
    budget_seconds: float,
    rounds: int,
    loads: Sequence[Load] = LOADS,
) -> Plan:
    """Return one whose cells together take about *budget_seconds*."""
    pairs = Plan(stands, loads, rounds, 0.0).pairs()
    overhead = sum(OVERHEAD_SECONDS[load.shape] for load, _ in pairs)
    each = (budget_seconds / rounds - overhead) / max(1, len(pairs))
    return Plan(stands, loads, rounds, max(LEAST_SECONDS, each))


def run(chosen: Plan, upstream: Child) -> Iterator[Cell]:
    """Measure it all; each cell once it is done."""
    for stand in chosen.stands:
        for load in chosen.loads:
            if load.is_main:  # connections, caches, what is compiled at first use
                yield measure(stand, load, WARM_UP_SECONDS, upstream, WARM_UP)
    began = time.monotonic()
    for number in range(chosen.rounds):
        for load, stand in chosen.pairs():
            yield measure(stand, load, chosen.seconds, upstream, number)
        took = time.monotonic() - began
        print(f"round {number + 1} of {chosen.rounds}: {took:.0f} s", file=sys.stderr)
