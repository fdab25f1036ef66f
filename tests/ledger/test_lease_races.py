"""Processes that race for one limit, each out of slices of its own."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import random
import time
from dataclasses import dataclass, replace

import pytest

from tests.ledger.builders import TAG, Recorder, concurrency, hold, reserved_of, tokens
from tests.servers import Server
from tokenweir.core.hold import Amounts, Granted, Limit
from tokenweir.core.lease import LEAST
from tokenweir.ledger.leases import LeasedLedger
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

PROCESSES = 4
AT_ONCE = 200
# So slow that nothing is earned while they race, and less than they ask for.
CAPACITY = 30_000
TPM = tokens(CAPACITY, 1)
SLOTS = concurrency(5_000)


@dataclass
class Counts:
    """Takes what leases report."""

    by_lease: int = 0

    def admitted(self, *, by_lease: bool) -> None:
        """One more."""
        self.by_lease += by_lease

    def slice_taken(self, exchanges: int) -> None:
        """A slice."""


def race(url: str, number: int, start_at: float, is_leased: bool) -> tuple[int, int]:
    """Be one of the processes; return what was granted to it, and how often by lease."""
    return asyncio.run(_race(url, number, start_at, is_leased))


async def _race(
    url: str, number: int, start_at: float, is_leased: bool
) -> tuple[int, int]:
    dice, counts = random.Random(number), Counts()
    limits = tuple(replace(limit, leased=is_leased) for limit in (TPM, SLOTS))
    store = RedisStore(url, Recorder(), deadline_seconds=120)
    ledger = LeasedLedger(TaggedLedger(store), store, counts, is_silent=lambda: False)
    names = itertools.count(10_000 * number)
    await store.ping()
    await asyncio.sleep(max(0, start_at - time.time()))
    granted = await asyncio.gather(
        *(_ask(ledger, next(names), limits, dice) for _ in range(AT_ONCE))
    )
    await ledger.close()
    return sum(granted), counts.by_lease


async def _ask(
    ledger: LeasedLedger, name: int, limits: tuple[Limit, ...], dice: random.Random
) -> int:
    made_ms = time.time_ns() // 1_000_000
    amounts = Amounts(1, dice.randint(20, 90), 0)
    made = hold(name, *limits, amounts=amounts, made_ms=made_ms)
    answer = await ledger.reserve(made)
    if not isinstance(answer, Granted):
        return 0
    # It becomes a hold of its own, as that of a stream does.
    await ledger.extend(replace(made, lease=answer.lease), 0)
    return amounts.input_tokens


@pytest.mark.parametrize("is_leased", [False, True], ids=["plain", "leased"])
async def test_processes_never_admit_more_than_there_is(
    valkey: Server, is_leased: bool
) -> None:
    """
    Four processes with two hundred requests at once: what is admitted fits, and is
    held to the last token once the rest of slices was given back.
    """
    start_at = time.time() + 3
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(PROCESSES) as pool:
        arguments = [(valkey.url, n, start_at, is_leased) for n in range(PROCESSES)]
        found = await asyncio.to_thread(pool.starmap, race, arguments)
    granted, by_lease = (sum(each) for each in zip(*found, strict=True))

    store = RedisStore(valkey.url, Recorder(), deadline_seconds=60)
    snapshot = await store.snapshot(TAG)
    await store.close()
    assert granted == reserved_of(snapshot, TPM) <= CAPACITY
    assert granted > CAPACITY // 2
    assert len(snapshot.holdings) == reserved_of(snapshot, SLOTS)
    assert (by_lease >= LEAST) is is_leased
