"""What a ledger makes of a server that was set back, emptied, or replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.ledger.builders import (
    START_MS,
    TAG,
    Clock,
    Recorder,
    concurrency,
    hold,
    level_of,
    reserved_of,
    tokens,
    used,
)
from tests.ledger.conftest import PATIENCE
from tests.ledger.load import Load, books_of
from tests.pod import until
from tests.relay import Relay, relay_to
from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Granted
from tokenweir.core.holding import HOLD_MS
from tokenweir.ledger.node import MAX_CONNECTIONS
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.spool import SpooledLedger
from tokenweir.ledger.tagged import TaggedLedger

# So slow that nothing is earned while a test runs.
LIMITS = (tokens(100_000, 1), concurrency(100))
TPM = LIMITS[0]


@pytest.fixture(params=["valkey", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of each kind that finds again what it saved."""
    if request.param == "redis" and not REDIS_SERVER.exists():
        pytest.skip(f"needs Debian's Redis at {REDIS_SERVER}")
    start = start_valkey if request.param == "valkey" else start_redis
    # Last one wins: long paths are put elsewhere by `start`, but not what is saved.
    server = start(tmp_path, "--dir", str(tmp_path))
    yield server
    server.stop()


@pytest.fixture
async def store(
    kept: Server, events: Recorder, clock: Clock
) -> AsyncIterator[RedisStore]:
    """A store in it, under a clock that tests set."""
    made = RedisStore(kept.url, events, deadline_seconds=PATIENCE, now_ms=clock)
    yield made
    await made.close()


async def in_time(call: Callable[[], Awaitable[object]]) -> object:
    """Repeat *call* until it is answered: the first one may find a dead connection."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await call()
            except LedgerUnavailableError:
                await asyncio.sleep(0.01)


def admin(server: Server, *command: str) -> object:
    """Run one command as a stranger."""
    with redis.Redis.from_url(server.url) as client:
        execute: Callable[..., object] = client.execute_command
        return execute(*command)


async def test_an_older_snapshot_is_made_good(
    store: RedisStore, kept: Server, events: Recorder, clock: Clock
) -> None:
    """
    What it forgot is charged as it ends; what it brings back is charged as lost; and
    nothing stays held. Whoever had settled before is charged by the reaper at most.
    """
    ledger = TaggedLedger(store)
    ended, running, reaped, new = (hold(number, *LIMITS) for number in range(4))
    await ledger.reserve(ended)
    await ledger.reserve(running)
    await ledger.extend(running, 10)
    await ledger.reserve(reaped)
    admin(kept, "SAVE")
    await ledger.settle(ended, used(40, 20))
    await ledger.reserve(new)
    kept.restart()

    await in_time(lambda: ledger.settle(new, used(30, 10)))
    await ledger.settle(running, used(20, 10))
    await ledger.settle(reaped, used(10, 10))
    snapshot = await store.snapshot(TAG)
    assert level_of(snapshot, TPM, START_MS) == 100_000 - 40 - 30 - 20 - 100
    assert reserved_of(snapshot, TPM) == 100
    clock.now_ms += HOLD_MS
    assert await store.sweep([TAG]) == 1

    snapshot = await store.snapshot(TAG)
    assert [reserved_of(snapshot, limit) for limit in LIMITS] == [0, 0]
    assert snapshot.expiries == {}
    # Its input, for nobody knows of its output: 40, where 60 were used.
    assert level_of(snapshot, TPM, START_MS) == 100_000 - 40 - 30 - 20 - 40
    outcomes = [record["outcome"] for record in snapshot.records]
    assert outcomes == ["completed"] * 3 + ["lost"]
    assert events.faults == []


async def test_an_older_snapshot_is_corrected_by_a_spool(
    store: RedisStore, kept: Server, events: Recorder
) -> None:
    """
    A settle that got no answer, and was lost with the data, is repeated.
    """
    ledger = SpooledLedger(TaggedLedger(store), events)
    await ledger.reserve(hold(1, *LIMITS))
    admin(kept, "SAVE")
    kept.stop()
    await ledger.settle(hold(1, *LIMITS), used(40, 20))
    assert events.spooled == [1]
    kept.restart()

    assert await ledger.flush(PATIENCE) == 0
    snapshot = await store.snapshot(TAG)
    assert level_of(snapshot, TPM, START_MS) == 100_000 - 60
    assert [reserved_of(snapshot, limit) for limit in LIMITS] == [0, 0]
    assert events.faults == []


@pytest.fixture
async def relay(valkey: Server, tmp_path: Path) -> AsyncIterator[Relay]:
    """A way to a server that can be turned to another one."""
    async with relay_to(valkey.path, tmp_path / "relay.sock") as made:
        yield made


async def test_an_empty_successor_goes_on(
    relay: Relay, own_server: Server, events: Recorder, clock: Clock
) -> None:
    """
    After a failover to a replica that had got nothing, extends bring back what is in
    flight, so that it counts; settles charge it; new calls carry the new epoch.
    """
    store = RedisStore(relay.url, events, deadline_seconds=PATIENCE, now_ms=clock)
    ledger = TaggedLedger(store)
    holds = [hold(number, *LIMITS) for number in range(3)]
    for made in holds:
        await ledger.reserve(made)
    before = await ledger.epoch()
    clock.now_ms += 5_000
    relay.target = own_server.path
    await relay.stop()  # connections that there are

    await in_time(lambda: ledger.extend(holds[0], 10))
    await ledger.extend(holds[1], 20)
    snapshot = await store.snapshot(TAG)
    assert [reserved_of(snapshot, limit) for limit in LIMITS] == [200, 2]
    await ledger.settle(holds[0], used(40, 15))
    await ledger.settle(holds[1], used(40, 25))
    await ledger.cancel(holds[2])
    answer = await ledger.reserve(hold(9, *LIMITS))

    assert isinstance(answer, Granted)
    assert answer.states[0].remaining == 100_000 - 55 - 65 - 100
    assert int(answer.epoch) > int(before)
    snapshot = await store.snapshot(TAG)
    assert [reserved_of(snapshot, limit) for limit in LIMITS] == [100, 1]
    assert len(snapshot.records) == 2
    assert events.faults == []
    await store.close()


async def test_flushed_and_forgotten_in_the_middle(
    store: RedisStore, kept: Server, events: Recorder
) -> None:
    """
    FLUSHALL and SCRIPT FLUSH while calls are under way: each is answered, none hangs,
    and in the end nothing is held.
    """
    ledger = TaggedLedger(store)
    over = asyncio.Event()

    async def one(number: int) -> None:
        made = hold(number, *LIMITS)
        await ledger.reserve(made)
        await ledger.extend(made, number)
        await ledger.settle(made, used(1, 1))

    async def empty() -> None:
        while not over.is_set():
            await asyncio.to_thread(admin, kept, "FLUSHALL")
            await asyncio.to_thread(admin, kept, "SCRIPT", "FLUSH")

    emptying = asyncio.create_task(empty())
    async with asyncio.timeout(PATIENCE):
        for start in range(0, 200, 20):
            await asyncio.gather(*(one(start + number) for number in range(20)))
    over.set()
    await emptying

    snapshot = await store.snapshot(TAG)
    assert [reserved_of(snapshot, limit) for limit in LIMITS] == [0, 0]
    assert snapshot.expiries == {}
    assert events.reasons == []
    assert events.faults == []


async def test_a_storm_of_reconnections(
    live: RedisStore, client: redis.Redis, events: Recorder
) -> None:
    """
    Whenever all connections are cut under load they are made anew, no more of them than
    before; what had no answer is charged once (L17).
    """
    load, over = Load(live, (TAG, "tw:018")), asyncio.Event()
    running = asyncio.create_task(load.run_until(over))
    for cut in range(5):
        await until(lambda least=20 * cut + 20: load.settled >= least)  # type: ignore[misc]
        # Who has just been cut off may not be there again.
        await until(lambda: client.client_kill_filter(_type="normal", skipme=True))
    await until(lambda: load.settled >= 150)
    over.set()
    await running
    await load.flush()

    books = await books_of(load)
    assert books.spent == books.recorded == load.settled
    assert (books.reserved, books.slots, books.records) == (0, 0, 1)
    assert len(client.client_list(_type="normal")) <= MAX_CONNECTIONS + 1
    assert events.faults == []
