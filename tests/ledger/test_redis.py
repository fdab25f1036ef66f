"""What the ledger owes on a real server. Cases of the field by number."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import redis

from tests.ledger.builders import (
    START_MS,
    TAG,
    WORST_CASE,
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
from tests.relay import relay_to
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Denied, Granted, Hold, Stale
from tokenweir.core.holding import HOLD_MS, State, share_of
from tokenweir.ledger.redis import SWEPT_PER_CALL, RedisStore
from tokenweir.ledger.tagged import TaggedLedger

# So slow that nothing is earned while a test runs by the server's own clock.
TPM = tokens(100_000, 1)
LIMITS = (TPM, requests(1_000), concurrency(100), tokens(1, quota="s", shadow=True))


@pytest.fixture
def ledger(live: RedisStore) -> TaggedLedger:
    """A ledger over it."""
    return TaggedLedger(live)


async def test_the_servers_clock_is_the_clock(
    ledger: TaggedLedger, live: RedisStore, client: redis.Redis
) -> None:
    """
    Processors whose clocks differ agree all the same.
    """
    seconds, _ = client.time()
    made = hold(1, TPM)
    await ledger.reserve(made)
    started_ms = (await live.snapshot(TAG)).holdings[made.id].started_ms

    assert 0 <= started_ms - 1_000 * seconds < 60_000
    assert int(await ledger.epoch()) == started_ms


async def test_a_flushed_script_cache_is_no_fault(
    ledger: TaggedLedger, live: RedisStore, client: redis.Redis
) -> None:
    """
    After SCRIPT FLUSH between any two calls each is counted once (L14).
    """
    made = hold(1, TPM)
    for call in (
        ledger.reserve(made),
        ledger.extend(made, 10),
        ledger.settle(made, used(40, 20)),
        ledger.cancel(hold(2)),
    ):
        client.script_flush()
        await call
    client.script_flush()
    await live.sweep([TAG])

    snapshot = await live.snapshot(TAG)
    assert level_of(snapshot, TPM, START_MS) == 100_000 - 60
    assert len(snapshot.records) == 1


async def test_a_lost_reply_is_counted_once_and_never_leaks(
    server: Server, tmp_path: Path, clock: Clock, events: Recorder
) -> None:
    """
    A reserve that was applied without an answer is one hold, and it expires (L14).
    """
    direct = RedisStore(server.url, events, deadline_seconds=PATIENCE, now_ms=clock)
    # Once, so that the server knows the scripts and the first call runs them.
    await TaggedLedger(direct).reserve(hold(0))
    await TaggedLedger(direct).settle(hold(0), used(0, 0))
    async with relay_to(server.path, tmp_path / "relay.sock") as relay:
        far = RedisStore(relay.url, events, deadline_seconds=PATIENCE, now_ms=clock)
        await far.ping()
        relay.drops_replies = True
        with pytest.raises(LedgerUnavailableError):
            await TaggedLedger(far).reserve(hold(1, TPM))
        assert reserved_of(await direct.snapshot(TAG), TPM) == 100
        relay.drops_replies = False
        assert isinstance(await TaggedLedger(far).reserve(hold(1, TPM)), Granted)
        assert reserved_of(await direct.snapshot(TAG), TPM) == 100
        relay.drops_replies = True
        with pytest.raises(LedgerUnavailableError):
            await TaggedLedger(far).settle(hold(1, TPM), used(40, 20))
        relay.drops_replies = False
        await TaggedLedger(far).settle(hold(1, TPM), used(40, 20))
        relay.drops_replies = True
        with pytest.raises(LedgerUnavailableError):
            await TaggedLedger(far).reserve(hold(2, TPM))
        await far.close()
    assert level_of(await direct.snapshot(TAG), TPM, START_MS) == 100_000 - 60 - 100
    clock.now_ms += HOLD_MS
    assert await direct.sweep([TAG]) == 1

    snapshot = await direct.snapshot(TAG)
    assert (reserved_of(snapshot, TPM), snapshot.expiries) == (0, {})
    assert [record["outcome"] for record in snapshot.records] == [
        "completed",
        "completed",
        "lost",
    ]
    await direct.close()


async def test_callers_that_give_up_leave_nothing_uncounted(
    live: RedisStore, ledger: TaggedLedger
) -> None:
    """
    A reserve whose caller was cancelled exists or does not: its cancel settles both.
    """
    dice = random.Random(3)
    holds = [hold(number, TPM) for number in range(200)]
    tasks = [asyncio.create_task(ledger.reserve(made)) for made in holds]
    for task in tasks:
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*map(ledger.cancel, holds))

    assert any(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    snapshot = await live.snapshot(TAG)
    assert (reserved_of(snapshot, TPM), snapshot.expiries) == (0, {})
    assert level_of(snapshot, TPM, START_MS) == 100_000


async def test_garbage_in_a_key_allows_nothing(
    ledger: TaggedLedger, client: redis.Redis, events: Recorder
) -> None:
    """
    A key of a wrong kind, or of a wrong form, is a fault and no permission (L15).
    """
    client.lpush("{tw:017}:b:tpm|tokens_per_minute|tenant=acme", "x")
    with pytest.raises(LedgerUnavailableError):
        await ledger.reserve(hold(1, TPM))
    client.set("{tw:017}:b:tpm|tokens_per_minute|tenant=acme", "x")
    with pytest.raises(LedgerUnavailableError):
        await ledger.reserve(hold(1, TPM))

    assert [where for where, _ in events.faults] == ["ledger", "ledger"]


async def test_numbers_out_of_range_never_reach_a_level(
    live: RedisStore, client: redis.Redis, events: Recorder
) -> None:
    """
    The script checks every number that enters, whoever sends it.
    """
    made = hold(1, TPM)
    share = share_of(made, made.parts[0], keeps_record=True)
    for odd in (-1, 10**11, 10**400, 1.5, "nan", "x"):
        object.__setattr__(share, "amounts", type(WORST_CASE)(1, odd, 0))  # type: ignore[arg-type]
        with pytest.raises(LedgerUnavailableError):
            await live.reserve(TAG, share)

    assert list(client.scan_iter()) == []
    assert len(events.faults) == 6


async def test_a_flushed_ledger_begins_anew(
    ledger: TaggedLedger, live: RedisStore, client: redis.Redis
) -> None:
    """
    Holds from before a flush are charged what they used; none is left over.
    """
    made = [hold(number, TPM, concurrency(5)) for number in range(3)]
    for one in made:
        await ledger.reserve(one)
    before = await ledger.epoch()
    client.flushall()
    await asyncio.sleep(0.002)  # epochs are milliseconds
    await ledger.extend(made[0], 10)
    await ledger.settle(made[0], used(40, 20))
    await ledger.settle(made[1], used(30, 10))
    await ledger.cancel(made[2])
    await ledger.reserve(hold(9))

    assert int(await ledger.epoch()) > int(before)
    snapshot = await live.snapshot(TAG)
    assert level_of(snapshot, TPM, START_MS) == 100_000 - 60 - 40
    assert reserved_of(snapshot, concurrency(5)) == 0
    assert len(snapshot.records) == 2


async def test_an_empty_restart_forgives_and_goes_on(
    own_server: Server, events: Recorder
) -> None:
    """
    A server that comes back empty serves; what was in flight is settled as it ends.
    """
    store = RedisStore(own_server.url, events, deadline_seconds=PATIENCE)
    ledger = TaggedLedger(store)
    await ledger.reserve(hold(1, TPM))
    own_server.restart()
    for _ in range(2):
        try:
            await ledger.settle(hold(1, TPM), used(40, 20))
            break
        except LedgerUnavailableError:
            continue
    answer = await ledger.reserve(hold(2, TPM))

    assert isinstance(answer, Granted)
    assert answer.states[0].remaining == 100_000 - 60 - 100
    await store.close()


async def test_recovery_after_a_pause(own_server: Server, events: Recorder) -> None:
    """
    While the server is paused nothing is allowed; afterwards nothing is owed (L17).
    """
    store = RedisStore(own_server.url, events, deadline_seconds=0.2)
    ledger = TaggedLedger(store)
    limits = (TPM, concurrency(50))
    while not isinstance(await _try(ledger, hold(0, *limits)), Granted):
        pass
    await ledger.settle(hold(0, *limits), used(0, 0))
    own_server.pause()
    holds = [hold(number, *limits) for number in range(1, 21)]
    outcomes = await asyncio.gather(*(_try(ledger, made) for made in holds))
    own_server.resume()
    assert outcomes == [None] * 20
    patient = RedisStore(own_server.url, events, deadline_seconds=PATIENCE)
    await asyncio.gather(*map(TaggedLedger(patient).cancel, holds))
    # What the paused server had in its buffers it has seen by now, in any order.
    await asyncio.gather(*map(TaggedLedger(patient).cancel, holds))

    snapshot = await patient.snapshot(TAG)
    assert level_of(snapshot, TPM, START_MS) == 100_000
    assert (snapshot.expiries, reserved_of(snapshot, concurrency(50))) == ({}, 0)
    await patient.close()
    await store.close()


async def _try(ledger: TaggedLedger, made: Hold) -> Granted | Denied | Stale | None:
    """Reserve; None: there was no answer in time."""
    try:
        return await ledger.reserve(made)
    except LedgerUnavailableError:
        return None


async def test_a_sweep_goes_on_until_nothing_is_left(
    server: Server, clock: Clock, events: Recorder
) -> None:
    """
    However many holds a crash left behind, one sweep charges them all.
    """
    store = RedisStore(server.url, events, deadline_seconds=PATIENCE, now_ms=clock)
    ledger = TaggedLedger(store)
    count = 2 * SWEPT_PER_CALL + 1
    await asyncio.gather(*(ledger.reserve(hold(n, TPM)) for n in range(count)))
    clock.now_ms += HOLD_MS

    assert await store.sweep(["tw:000", TAG, "tw:001"]) == count
    assert events.reaped == count
    assert (await store.snapshot(TAG)).expiries == {}
    assert await store.sweep([TAG]) == 0
    await store.close()


async def test_an_expired_key_in_the_index_is_dropped(
    server: Server, client: redis.Redis, clock: Clock, events: Recorder
) -> None:
    """
    A hold whose hash is gone, or has ended, does not stay among the expired.
    """
    store = RedisStore(server.url, events, deadline_seconds=PATIENCE, now_ms=clock)
    ledger = TaggedLedger(store)
    await ledger.reserve(hold(1, TPM))
    await ledger.reserve(hold(2, TPM))
    await ledger.settle(hold(2, TPM), used(1, 1))
    client.delete(f"{{tw:017}}:h:{hold(1).id}")
    client.zadd("{tw:017}:x", {hold(2).id: 1})
    clock.now_ms += HOLD_MS

    assert await store.sweep([TAG]) == 0
    assert (await store.snapshot(TAG)).expiries == {}
    await store.close()


async def test_reaped_holds_are_reported(
    server: Server, clock: Clock, events: Recorder
) -> None:
    """
    So many exchanges were charged by estimate since the last call: that is counted.
    """
    store = RedisStore(server.url, events, deadline_seconds=PATIENCE, now_ms=clock)
    ledger = TaggedLedger(store)
    await ledger.reserve(hold(1, TPM))
    await ledger.reserve(hold(2, TPM))
    clock.now_ms += HOLD_MS
    await ledger.reserve(hold(3, TPM))

    assert events.reaped == 2
    assert {verb for verb, _ in events.calls} == {"reserve"}
    await store.close()


async def test_a_shorter_life_of_holds_can_be_asked_for(
    server: Server, clock: Clock, events: Recorder
) -> None:
    """
    It holds for reserves and for extends.
    """
    store = RedisStore(
        server.url, events, deadline_seconds=PATIENCE, hold_ms=500, now_ms=clock
    )
    ledger = TaggedLedger(store)
    made = hold(1, TPM, concurrency(1))
    await ledger.reserve(made)
    clock.now_ms += 400
    await ledger.extend(made, 1)

    snapshot = await store.snapshot(TAG)
    assert snapshot.expiries == {made.id: START_MS + 900}
    assert snapshot.slots["slots|concurrency|tenant=acme"].until_ms == {
        made.id: START_MS + 900
    }
    assert snapshot.holdings[made.id].state is State.HELD
    await store.close()


async def test_one_leads_at_a_time(live: RedisStore) -> None:
    """
    The lease is the first one's until it ends or is given up.
    """
    assert await live.lead("a", 60_000)
    assert await live.lead("a", 60_000)
    assert not await live.lead("b", 60_000)
    assert not await live.lead("b", 0)
    assert not await live.lead("a", 0)
    assert await live.lead("b", 60_000)


NONSENSE = [
    None,
    b"OK",
    1,
    [],
    [1],
    [b"x", b"1", 0, b""],
    [1, b"x", 0, b""],
    [1, b"1", 0, b"9 1 5 5"],
    [1, b"1", 0, b"1 1 x"],
]


@pytest.mark.parametrize("reply", NONSENSE, ids=repr)
@pytest.mark.parametrize("verb", ["reserve", "extend", "settle", "cancel"])
async def test_an_answer_of_no_sense_is_none(
    live: RedisStore,
    ledger: TaggedLedger,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    reply: object,
) -> None:
    """
    What no script of ours says is neither a grant nor a receipt, and is reported.
    """

    async def run(*_: object) -> object:
        return reply

    made = hold(1, TPM)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "reserve": lambda: ledger.reserve(made),
        "extend": lambda: ledger.extend(made, 1),
        "settle": lambda: ledger.settle(made, used(1, 1)),
        "cancel": lambda: ledger.cancel(made),
    }
    monkeypatch.setattr(live._link, "run", run)

    with pytest.raises(LedgerUnavailableError):
        await calls[verb]()
    assert live.epoch == "0"
