"""At `maxmemory`: nothing new begins, and what has begun is accounted for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

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
    requests,
    reserved_of,
    tokens,
    used,
)
from tests.ledger.conftest import PATIENCE
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Granted, Hold, Limit
from tokenweir.core.holding import HOLD_MS, State
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.spool import SpooledLedger
from tokenweir.ledger.tagged import TaggedLedger

TPM = tokens(100_000, 1)
LIMITS = (TPM, requests(1_000), concurrency(100))
# One limit of each kind alone, and none: which command comes first differs.
KINDS = [(), (TPM,), (concurrency(100),), LIMITS]
# What it is called; before Redis 7 a script's error has the server's own word.
FULL = ("OutOfMemoryError", "OOM")


@pytest.fixture
def full(client: redis.Redis) -> Iterator[redis.Redis]:
    """Who may say how much memory there is; the limit goes with the test."""
    client.config_set("maxmemory-policy", "noeviction")
    yield client
    client.config_set("maxmemory", "0")


@pytest.fixture
async def store(
    server: Server, events: Recorder, clock: Clock
) -> AsyncIterator[RedisStore]:
    """A store under a clock that tests set."""
    made = RedisStore(server.url, events, deadline_seconds=PATIENCE, now_ms=clock)
    yield made
    await made.close()


def fill(client: redis.Redis) -> None:
    """Let the server have no memory left."""
    client.config_set("maxmemory", "1")
    with pytest.raises(redis.OutOfMemoryError):
        client.set("another-app", "x")


def contents(client: redis.Redis) -> dict[str, object]:
    """Return every key and its value, dumped."""
    return {
        key: (
            client.type(key),
            client.object("encoding", key),
            client.memory_usage(key),
        )
        for key in client.scan_iter()
    }


@pytest.mark.parametrize("limits", KINDS, ids=len)
@pytest.mark.parametrize("is_new", [True, False], ids=["new tag", "known tag"])
async def test_nothing_new_begins(
    store: RedisStore,
    full: redis.Redis,
    events: Recorder,
    limits: tuple[Limit, ...],
    is_new: bool,
) -> None:
    """
    A reserve is unavailable, changes nothing, and is no fault; later it is granted.
    """
    ledger = TaggedLedger(store)
    if not is_new:
        await ledger.reserve(hold(1, *limits))
    before = contents(full)
    fill(full)
    for _ in range(2):
        with pytest.raises(LedgerUnavailableError):
            await ledger.reserve(hold(2, *limits))
    assert contents(full) == before
    full.config_set("maxmemory", "0")

    assert isinstance(await ledger.reserve(hold(2, *limits)), Granted)
    assert events.faults == []
    assert events.reasons in [[reason] * 2 for reason in FULL]


@pytest.mark.parametrize("limits", KINDS, ids=len)
async def test_what_is_held_goes_on_and_ends(
    store: RedisStore, full: redis.Redis, events: Recorder, limits: tuple[Limit, ...]
) -> None:
    """
    Holds are renewed, settled with their record, and cancelled as ever.
    """
    ledger = TaggedLedger(store)
    holds = [hold(number, *limits) for number in range(3)]
    for made in holds:
        await ledger.reserve(made)
    fill(full)
    await ledger.extend(holds[0], 90)
    await ledger.settle(holds[0], used(40, 95, duration_ms=700))
    await ledger.cancel(holds[1])
    await ledger.cancel(holds[2], unclaimed_only=True)

    assert [failed for _, failed in events.calls] == [False] * 7
    await nothing_is_held(store, limits)
    snapshot = await store.snapshot(TAG)
    assert [record["output_tokens"] for record in snapshot.records] == ["95"]
    assert sum(map(len, snapshot.rollups.values())) >= 3
    if TPM in limits:
        assert level_of(snapshot, TPM, START_MS) == 100_000 - 135


async def test_nothing_is_counted_without_memory(
    store: RedisStore, full: redis.Redis, events: Recorder
) -> None:
    """
    Refusals that would take memory are not written, not even in part.
    """
    fill(full)
    before = contents(full)
    with pytest.raises(LedgerUnavailableError):
        await store.tally(TAG, 0, {f"matched_{number}": 1 for number in range(9)})

    assert contents(full) == before
    assert (events.faults, events.reasons) in [([], [reason]) for reason in FULL]


async def nothing_is_held(store: RedisStore, limits: tuple[Limit, ...]) -> None:
    """Demand that no limit has anything in flight."""
    snapshot = await store.snapshot(TAG)
    assert snapshot.expiries == {}
    assert [reserved_of(snapshot, limit) for limit in limits] == [0] * len(limits)


@pytest.mark.parametrize("limits", KINDS, ids=len)
async def test_what_the_ledger_never_heard_of_is_recorded(
    store: RedisStore, full: redis.Redis, events: Recorder, limits: tuple[Limit, ...]
) -> None:
    """
    Who was admitted without the ledger, as the policy says, is charged all the same.
    """
    fill(full)
    ledger = TaggedLedger(store)
    await ledger.extend(hold(1, *limits), 10)
    await ledger.settle(hold(1, *limits), used(40, 20))
    await ledger.settle(hold(2, *limits), used(30, 10))
    await ledger.cancel(hold(3, *limits))

    assert [failed for _, failed in events.calls] == [False] * 4
    await nothing_is_held(store, limits)
    assert len((await store.snapshot(TAG)).records) == 2


@pytest.mark.parametrize("limits", KINDS, ids=len)
async def test_who_is_lost_is_reaped(
    store: RedisStore,
    full: redis.Redis,
    events: Recorder,
    clock: Clock,
    limits: tuple[Limit, ...],
) -> None:
    """
    The sweeper is elected and does its work: it is what makes room after a crash.
    """
    ledger = TaggedLedger(store)
    for number in range(3):
        await ledger.reserve(hold(number, *limits))
    clock.now_ms += HOLD_MS
    fill(full)

    assert await store.lead("me", 60_000)
    assert await store.lead("me", 60_000)
    assert not await store.lead("you", 60_000)
    assert await store.sweep([TAG]) == 3
    assert not await store.lead("me", 0)
    assert [failed for _, failed in events.calls] == [False] * 8
    await nothing_is_held(store, limits)
    snapshot = await store.snapshot(TAG)
    assert [record["outcome"] for record in snapshot.records] == ["lost"] * 3
    states = {holding.state for holding in snapshot.holdings.values()}
    assert states == {State.LOST}


async def test_a_spool_is_emptied_into_a_full_server(
    store: RedisStore, full: redis.Redis, events: Recorder
) -> None:
    """
    What waited for the ledger does not wait for its memory too.
    """
    ledger = SpooledLedger(TaggedLedger(store), events)
    made: list[Hold] = [hold(number, *LIMITS) for number in range(4)]
    for one in made:
        await ledger.reserve(one)
    fill(full)
    for one in made:
        await ledger.settle(one, used(40, 20))

    assert await ledger.flush(PATIENCE) == 0
    assert events.spooled == []
    assert len((await store.snapshot(TAG)).records) == 4
