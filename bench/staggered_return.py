"""
A wave of refused callers, with and without staggered return.

    python -m bench.staggered_return [--write docs/staggered-return.md]

A simulation: the ledger's own arithmetic (`tokenweir.core.tag`) under a clock that
jumps from event to event, and callers that come back when they are told. It takes
seconds, and gives the same figures each time. Prints the table; with --write it puts the
table into the page.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.page import put_table
from tokenweir.core.hold import Amounts, Denied, Granted, Limit
from tokenweir.core.holding import Account, Share
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.stagger import place_ms, room_ms, step_ms
from tokenweir.core.tag import Tag

START_MS = 1_700_000_000_000
# Between an answer and the caller's next word, on the way and in the caller.
LATENCY_MS = 25
# Nobody is asked more often: a strategy that serves someone never would go on.
MAX_ATTEMPTS = 200_000
PEAK_MS = 100
PROCESSORS = 20

# How refused callers are told when to come back.
STRATEGIES = ("true wait", "random", "cursor per sidecar", "cursor in the ledger")


@dataclass(frozen=True, slots=True)
class Scene:
    """
    Who wants what.

    Attributes:
        name: Of the row.
        limit: The only one.
        callers: How many want one answer each.
        arrival_ms: Over how long they come first, evenly at random.
        tokens: Of a request, from and to.
        work_ms: How long an answer takes.
        whole_seconds: Callers read `retry-after` only.
        hammering: How many more callers ignore what they are told, and want no end.
        hammer_ms: How often they come.
    """

    name: str
    limit: Limit
    callers: int
    arrival_ms: int = 1_000
    tokens: tuple[int, int] = (0, 0)
    work_ms: int = 2_000
    whole_seconds: bool = False
    hammering: int = 0
    hammer_ms: int = 500


RPM = Limit("rpm", Axis.REQUESTS, "tenant=acme", 120, 10)
TPM = Limit("tpm", Axis.TOKENS, "tenant=acme", 120_000, 120_000)
SLOTS = Limit("slots", Axis.CONCURRENCY, "tenant=acme", 0, 8)

SCENES = (
    Scene("100 callers, 120 requests a minute", RPM, 100),
    Scene("the same, reading whole seconds only", RPM, 100, whole_seconds=True),
    Scene("300 callers, 120 requests a minute", RPM, 300),
    Scene("100 callers, 120,000 tokens a minute", TPM, 100, tokens=(500, 6_000)),
    Scene("64 callers, 8 slots", SLOTS, 64, work_ms=5_000),
    Scene("steady: 150 callers in a minute", RPM, 150, arrival_ms=60_000),
    Scene("one caller after a burst of 10", RPM, 11, arrival_ms=10),
    Scene("30 callers, and 2 that hammer", RPM, 30, hammering=2),
    Scene("30 callers, and 5 that hammer", RPM, 30, hammering=5, hammer_ms=100),
)


@dataclass(slots=True)
class Caller:
    """One of them: *tokens* that it wants, and what became of it."""

    number: int
    tokens: int
    arrived_ms: int
    attempts: int = 0
    served_ms: int | None = None
    hammers: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """
    What became of a scene.

    Attributes:
        peak: The most that came back within `PEAK_MS`.
        refused: Refused attempts for each caller that was served.
        last_ms: From the first arrival until everybody was served.
        mean_ms: The mean wait.
        most_attempts: Of one caller.
        in_order: Pairs of callers served in the order in which they came, in percent.
    """

    peak: int
    refused: float
    last_ms: int
    mean_ms: int
    most_attempts: int
    in_order: int


@dataclass(slots=True)
class World:
    """A scene as it unfolds, under one strategy."""

    scene: Scene
    strategy: str
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    tag: Tag = field(default_factory=Tag)
    events: list[tuple[int, int, Caller | Share]] = field(default_factory=list)
    cursors: Counter[int] = field(default_factory=Counter)
    returns: list[int] = field(default_factory=list)
    made: int = 0

    def run(self) -> list[Caller]:
        """Play it to its end; return the callers that do not hammer."""
        callers = list(self._callers())
        for caller in callers:
            self._at(caller.arrived_ms, caller)
        polite = [caller for caller in callers if not caller.hammers]
        waiting = len(polite)
        while waiting and self.made < MAX_ATTEMPTS:
            now_ms, _, what = heapq.heappop(self.events)
            if isinstance(what, Share):
                account = Account(what.amounts, self.scene.work_ms, 0)
                self.tag.settle(what, account, now_ms)
            elif self._ask(what, now_ms):
                waiting -= not what.hammers
        return polite

    def _callers(self) -> Iterator[Caller]:
        scene = self.scene
        for number in range(scene.callers + scene.hammering):
            arrived = START_MS + self.dice.randrange(scene.arrival_ms)
            tokens = self.dice.randint(*scene.tokens)
            yield Caller(number, tokens, arrived, hammers=number >= scene.callers)

    def _at(self, moment_ms: int, what: Caller | Share) -> None:
        self.made += 1
        heapq.heappush(self.events, (moment_ms, self.made, what))

    def _ask(self, caller: Caller, now_ms: int) -> bool:
        """Let *caller* ask; tell if it was served."""
        caller.attempts += 1
        if caller.attempts > 1 and not caller.hammers:
            self.returns.append(now_ms)
        is_in_ledger = self.strategy == STRATEGIES[3]
        limit = replace(self.scene.limit, staggered=is_in_ledger)
        amounts = Amounts(1, caller.tokens, 0)
        share = Share(f"0-{now_ms:x}-{self.made}", (limit,), amounts, "gpt-4o")
        answer = self.tag.reserve(share, now_ms)
        if isinstance(answer, Granted):
            caller.served_ms = now_ms
            self._at(now_ms + self.scene.work_ms, share)
        if caller.hammers:
            self._at(now_ms + self.scene.hammer_ms, caller)
        elif isinstance(answer, Denied):
            (failure,) = answer.failures
            told_ms = self._told_ms(failure, caller, now_ms)
            if self.scene.whole_seconds:
                told_ms = 1_000 * -(-told_ms // 1_000)
            self._at(now_ms + told_ms + self.dice.randint(1, LATENCY_MS), caller)
        return isinstance(answer, Granted)

    def _told_ms(self, failure: QuotaFailure, caller: Caller, now_ms: int) -> int:
        wait_ms = failure.wait_ms
        match self.strategy:
            case "random":
                return wait_ms + self.dice.randrange(room_ms(wait_ms) + 1)
            case "cursor per sidecar":
                rate = failure.rate
                step = step_ms(failure.requested, rate) if rate else wait_ms
                sidecar = caller.number % PROCESSORS
                place = place_ms(self.cursors[sidecar], now_ms, wait_ms, step)
                self.cursors[sidecar] = place
                return place - now_ms
            case _:
                return failure.return_ms


def simulate(scene: Scene, strategy: str) -> Result:
    """Return what becomes of *scene* if refused callers are told by *strategy*."""
    world = World(scene, strategy)
    served = [(c, c.served_ms) for c in world.run() if c.served_ms is not None]
    waits = [moment - caller.arrived_ms for caller, moment in served]
    return Result(
        _peak(world.returns),
        sum(caller.attempts - 1 for caller, _ in served) / len(served),
        max(moment for _, moment in served) - START_MS,
        sum(waits) // len(waits),
        max(caller.attempts for caller, _ in served),
        _in_order([(caller.arrived_ms, moment) for caller, moment in served]),
    )


def _peak(moments: Sequence[int]) -> int:
    """Return the most of the sorted *moments* that lie within `PEAK_MS`."""
    first, most = 0, 0
    for last, moment in enumerate(moments):
        while moment - moments[first] >= PEAK_MS:
            first += 1
        most = max(most, last - first + 1)
    return most


def _in_order(served: Sequence[tuple[int, int]]) -> int:
    ordered = sorted(served)
    pairs = right = 0
    for place, (arrived, moment) in enumerate(ordered):
        for other_arrived, other_moment in ordered[place + 1 :]:
            if arrived < other_arrived:
                pairs += 1
                right += moment <= other_moment
    return 100 * right // max(1, pairs)


def table(scenes: Sequence[Scene] = SCENES) -> str:
    """Return the results as a Markdown table."""
    lines = [
        (
            "| scene | told | most returns in 0.1 s | refused for each served | all served"
            " after | mean wait | most attempts | in order |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for scene in scenes:
        for strategy in STRATEGIES:
            result = simulate(scene, strategy)
            name = scene.name if strategy == STRATEGIES[0] else ""
            lines.append(
                f"| {name} | {strategy} | {result.peak} | {result.refused:.1f}"
                f" | {result.last_ms / 1_000:.1f} s | {result.mean_ms / 1_000:.1f} s"
                f" | {result.most_attempts} | {result.in_order} % |"
            )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    args = parser.parse_args()
    found = table()
    print(found)
    if args.write:
        put_table(args.write, "simulation", found)


if __name__ == "__main__":
    main()
