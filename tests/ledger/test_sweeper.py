"""Who clears away what nobody settles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import redis

from tests.ledger.builders import TAG, Clock, Recorder, concurrency, hold, tokens
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Granted
from tokenweir.core.holding import HOLD_MS
from tokenweir.core.partition import all_tags
from tokenweir.ledger.keys import SWEEPER_LEASE
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.sweeper import INTERVAL_SECONDS, LEASE_INTERVALS, Sweeper
from tokenweir.ledger.tagged import TaggedLedger


@dataclass
class ScriptedStore:
    """Remembers what it was asked, and lets whoever it is told to lead."""

    leads: bool = True
    errors: list[Exception] = field(default_factory=list)
    leases_ms: list[int] = field(default_factory=list)
    owners: set[str] = field(default_factory=set)
    swept: list[Sequence[str]] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def lead(self, owner: str, lease_ms: int) -> bool:
        """Answer as told."""
        self.owners.add(owner)
        self.leases_ms.append(lease_ms)
        self.asked.set()
        if self.errors:
            raise self.errors.pop(0)
        return self.leads

    async def sweep(self, tags: Sequence[str]) -> int:
        """Charge one hold."""
        self.swept.append(tags)
        return 1

    async def asked_times(self, times: int) -> None:
        """Wait until it was asked so often."""
        while len(self.leases_ms) < times:
            self.asked.clear()
            await self.asked.wait()


async def test_the_leader_sweeps_every_tag(events: Recorder) -> None:
    """
    Of tenants and of shared quotas, whether anybody calls there or not.
    """
    store = ScriptedStore()

    assert await Sweeper(store, events).sweep_once() == 1
    assert store.swept == [all_tags()]
    assert store.leases_ms == [10_000]


async def test_whoever_does_not_lead_does_nothing(events: Recorder) -> None:
    """
    One at a time does the work.
    """
    store = ScriptedStore(leads=False)

    assert await Sweeper(store, events, tags=[TAG]).sweep_once() is None
    assert store.swept == []


async def test_sweepers_are_told_apart(events: Recorder) -> None:
    """
    Each has a name of its own, for all of its life.
    """
    store = ScriptedStore()
    sweepers = [Sweeper(store, events, tags=[TAG]) for _ in range(2)]
    for sweeper in sweepers * 2:
        await sweeper.sweep_once()

    assert len(store.owners) == 2


async def test_it_goes_round_until_it_is_stopped(events: Recorder) -> None:
    """
    Then it gives the lead up, so that nobody has to wait for its lease to end.
    """
    store = ScriptedStore()
    sweeper = Sweeper(store, events, tags=[TAG], interval_seconds=0.01)
    await sweeper.start()
    await store.asked_times(3)
    await sweeper.stop()

    assert store.leases_ms[-1] == 0
    assert set(store.leases_ms[:-1]) == {20}
    assert len(store.swept) == len(store.leases_ms) - 1
    await sweeper.stop()  # nothing to do


async def test_it_survives_faults(events: Recorder) -> None:
    """
    A ledger that is away is no fault; a mistake of ours is reported; it goes on.
    """
    bug = ValueError("bug")
    store = ScriptedStore(errors=[LedgerUnavailableError("away"), bug])
    sweeper = Sweeper(store, events, tags=[TAG], interval_seconds=0.01)
    await sweeper.start()
    await store.asked_times(4)
    store.errors.append(LedgerUnavailableError("away"))
    await sweeper.stop()

    assert events.faults == [("sweeper", bug)]
    assert len(store.swept) >= 1


def test_nothing_is_outstanding_for_a_minute_after_a_crash() -> None:
    """
    The last extend, the life of a hold, a lease of the dead and one round: below 60 s.
    """
    lease_ms = 1_000 * LEASE_INTERVALS * INTERVAL_SECONDS

    assert lease_ms < HOLD_MS
    assert 60_000 - lease_ms > HOLD_MS + 1_000 * INTERVAL_SECONDS


@pytest.mark.parametrize("server", ["valkey", "debian_redis"])
async def test_another_takes_over(
    server: str, request: pytest.FixtureRequest, events: Recorder
) -> None:
    """
    When the leader is gone without a word, another leads once the lease has ended.
    """
    running: Server = request.getfixturevalue(server)
    stores = [RedisStore(running.url, events, deadline_seconds=30) for _ in range(2)]
    first, second = (
        Sweeper(store, events, tags=[TAG], interval_seconds=30) for store in stores
    )
    assert await first.sweep_once() == 0
    assert await second.sweep_once() is None
    with redis.Redis.from_url(running.url) as client:
        assert 0 < int(client.pttl(SWEEPER_LEASE)) <= 60_000
        client.delete(SWEEPER_LEASE)  # as time does

    assert await second.sweep_once() == 0
    assert await first.sweep_once() is None
    for store in stores:
        await store.close()


@pytest.mark.parametrize("server", ["valkey", "debian_redis"])
async def test_a_killed_processors_holds_are_charged(
    server: str, request: pytest.FixtureRequest, events: Recorder, clock: Clock
) -> None:
    """
    Without any traffic on its tags, another processor frees what it held (L06).
    """
    running: Server = request.getfixturevalue(server)
    killed = RedisStore(running.url, events, deadline_seconds=30, now_ms=clock)
    limits = (tokens(1_000), concurrency(4))
    ledger = TaggedLedger(killed)
    for number in range(4):
        assert isinstance(await ledger.reserve(hold(number, *limits)), Granted)
    await killed.close()
    other = RedisStore(running.url, events, deadline_seconds=30, now_ms=clock)
    sweeper = Sweeper(other, events, interval_seconds=30)
    clock.now_ms += HOLD_MS - 1
    assert await sweeper.sweep_once() == 0
    clock.now_ms += 1

    assert await sweeper.sweep_once() == 4
    snapshot = await other.snapshot(TAG)
    assert (snapshot.expiries, snapshot.slots) == ({}, {})
    assert [record["outcome"] for record in snapshot.records] == ["lost"] * 4
    await other.close()
