"""
What asking the ledger costs: CPU of this process per exchange, and of the server.

    python -m bench.ledger_calls [--exchanges 3000] [--rounds 5]
                                 [--write docs/performance.md]

An exchange is one reserve and one settle of three limits (requests, tokens, slots) in a
Valkey of its own on a unix socket. Ways to ask are measured by turns, round by round, so
that a machine that does other work slows them all: figures are medians of rounds, with
the least and the most, and the last column is a ratio of medians in this run.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.page import put_table
from tests.ledger.builders import Recorder, concurrency, hold, requests, tokens, used
from tests.servers import Server, start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Granted, Limit
from tokenweir.ledger.base import Ledger
from tokenweir.ledger.evaluation import Command, Evaluation
from tokenweir.ledger.leases import LeasedLedger
from tokenweir.ledger.link import Link
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.scripts import Script
from tokenweir.ledger.tagged import TaggedLedger

LIMITS = (requests(10**9), tokens(10**9), concurrency(10**6))
CONCURRENCIES = (1, 16, 64)
# Of each call: here nothing but the cost is of interest.
PATIENT_SECONDS = 30.0


class OneByOne(Link):
    """Each call has a connection of redis-py to itself, as it was before lanes."""

    async def run(
        self, script: Script, key: str, arguments: Command, *, patient: bool = False
    ) -> Any:
        """See `Link.run`."""
        del patient
        call = Evaluation(script, key, arguments, PATIENT_SECONDS)
        servers = self._servers
        return await self._call(
            script.name, lambda: servers.execute(*call.command), call.seconds
        )


@dataclass
class Way:
    """
    A way to ask.

    Attributes:
        name: Of the row.
        ledger: Asked.
        store: Of the ledger.
        limits: What each exchange is held against.
        is_batched: Settles wait for one another, and no exchange waits for them.
        own_us: CPU of this process per exchange, by concurrency and round.
        server_us: Ditto, of the server.
    """

    name: str
    ledger: Ledger
    store: RedisStore
    limits: tuple[Limit, ...] = LIMITS
    is_batched: bool = False
    own_us: dict[int, list[float]] = field(default_factory=dict)
    server_us: dict[int, list[float]] = field(default_factory=dict)


def way(name: str, url: str, link: type[Link]) -> Way:
    """Return a way to ask the server at *url* by such a *link*."""
    store = RedisStore(url, Recorder(), deadline_seconds=PATIENT_SECONDS)
    store._link = link(  # noqa: SLF001 -- nobody else would swap it
        url, Recorder(), deadline_seconds=PATIENT_SECONDS
    )
    return Way(name, TaggedLedger(store), store)


class Silent:
    """Takes what leases report."""

    def admitted(self, *, by_lease: bool) -> None:
        """See `tokenweir.ledger.leases.LeaseEvents`."""

    def slice_taken(self, exchanges: int) -> None:
        """Ditto."""


def leased_way(name: str, url: str) -> Way:
    """Return the way that admits out of slices."""
    store = RedisStore(url, Recorder(), deadline_seconds=PATIENT_SECONDS)
    limits = tuple(replace(limit, leased=True) for limit in LIMITS)
    plain = TaggedLedger(store)
    ledger = LeasedLedger(plain, store, Silent(), is_silent=lambda: False)
    return Way(name, ledger, store, limits, is_batched=True)


async def exchange(one: Way, number: int, settling: set[asyncio.Task[None]]) -> None:
    """Reserve and settle once."""
    taken = hold(number, *one.limits, made_ms=time.time_ns() // 1_000_000)
    answer = await one.ledger.reserve(taken)
    if not isinstance(answer, Granted):
        raise LedgerUnavailableError("was denied")
    taken = replace(taken, lease=answer.lease)
    settle = one.ledger.settle(taken, used(40, 60, duration_ms=5))
    if not one.is_batched:
        await settle
        return
    task = asyncio.create_task(settle)
    settling.add(task)
    task.add_done_callback(settling.discard)
    await asyncio.sleep(0)


async def run(one: Way, numbers: Sequence[int], at_once: int) -> None:
    """Make exchanges, so many of them at once."""
    left = iter(numbers)
    settling: set[asyncio.Task[None]] = set()

    async def work() -> None:
        for number in left:
            await exchange(one, number, settling)

    await asyncio.gather(*(work() for _ in range(at_once)))
    await asyncio.gather(*settling)


async def measure(ways: Sequence[Way], server: Server, options: Any) -> None:
    """Measure all *ways*, by turns."""
    first = 0
    for one in reversed(ways):  # the last one sends scripts that are not known
        await run(one, range(-64, 0), 8)
    for _ in range(options.rounds):
        for at_once in CONCURRENCIES:
            for one in ways:
                numbers = range(first, first + options.exchanges)
                first += options.exchanges
                before = own_seconds(), server_seconds(server)
                await run(one, numbers, at_once)
                after = own_seconds(), server_seconds(server)
                for kept, was, now in zip(
                    (one.own_us, one.server_us), before, after, strict=True
                ):
                    figure = 1e6 * (now - was) / options.exchanges
                    kept.setdefault(at_once, []).append(figure)


def own_seconds() -> float:
    """Return the CPU that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def server_seconds(server: Server) -> float:
    """Return the CPU that the server's threads have used."""
    folder = Path(f"/proc/{server.pid}/task")
    times = [
        int((each / "schedstat").read_text().split()[0]) for each in folder.iterdir()
    ]
    return sum(times) / 1e9


def table(ways: Sequence[Way]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "| at once | way | µs of the processor | µs of the server | times cheaper |",
        "|---|---|---|---|---|",
    ]
    for at_once in CONCURRENCIES:
        base = median(ways[0].own_us[at_once])
        for one in ways:
            own, server = one.own_us[at_once], one.server_us[at_once]
            ratio = base / median(own)
            lines.append(
                f"| {at_once} | {one.name} | {spread(own)} | {spread(server)} | {ratio:.1f} |"
            )
    return "\n".join(lines)


def spread(figures: Sequence[float]) -> str:
    """Return the median of *figures*, and the least and the most."""
    return f"{median(figures):.0f} ({min(figures):.0f} to {max(figures):.0f})"


async def main(options: Any) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        server = start_valkey(Path(folder))
        try:
            ways = [
                way("a connection of redis-py for each call", server.url, OneByOne),
                way(
                    "one connection, all calls of a turn in one write", server.url, Link
                ),
                leased_way("the same, with leases", server.url),
            ]
            await measure(ways, server, options)
            for one in ways:
                await one.ledger.close()
        finally:
            server.stop()
    found = table(ways)
    print(found)
    if options.write:
        put_table(options.write, "ledger-calls", found)


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exchanges", type=int, default=3_000, help="in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, help="a page to put the table into")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(options_of()))
