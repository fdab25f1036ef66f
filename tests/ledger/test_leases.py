"""Leases, at a ledger of its own kind: what is asked, granted, and left in the end."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
import redis

from tests.ledger.builders import (
    SUBJECT,
    Recorder,
    budget,
    concurrency,
    requests,
    reserved_of,
    tokens,
    used,
)
from tests.pod import until
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Amounts, Denied, Granted, Hold, Limit, Part
from tokenweir.core.holding import State, key_of
from tokenweir.core.lease import AGE_MS, LEAST, SHARE
from tokenweir.ledger.leases import LeasedLedger
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

TAG = "tw:017"
EACH = Amounts(1, 40, 60, 900)
NUMBERS = itertools.count()
PATIENCE = 30.0


@dataclass
class Counts:
    """Takes what leases report."""

    by_lease: int = 0
    by_ledger: int = 0
    slices: list[int] = field(default_factory=list)

    def admitted(self, *, by_lease: bool) -> None:
        """One more."""
        self.by_lease += by_lease
        self.by_ledger += not by_lease

    def slice_taken(self, exchanges: int) -> None:
        """A slice."""
        self.slices.append(exchanges)


@dataclass
class Sidecar:
    """
    What one processor has of the ledger.

    Attributes:
        store: The way to it.
        counts: What leases reported.
        clock_ms: What never steps back; tests set it.
        silent: What the processor believes of the ledger.
        ledger: Asked.
    """

    store: RedisStore
    counts: Counts = field(default_factory=Counts)
    clock_ms: int = 100_000
    silent: bool = False
    ledger: LeasedLedger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = LeasedLedger(
            TaggedLedger(self.store),
            self.store,
            self.counts,
            is_silent=lambda: self.silent,
            clock_ms=lambda: self.clock_ms,
        )

    async def warm(self, *limits: Limit) -> None:
        """Ask often enough to be worth a slice."""
        for _ in range(2 * LEAST):
            hold = new_hold(self, *limits)
            granted = await self.ledger.reserve(hold)
            assert isinstance(granted, Granted)
            await self.ledger.cancel(replace(hold, lease=granted.lease))

    async def admit(self, *limits: Limit) -> Hold:
        """Have an exchange admitted, and return what it holds."""
        hold = new_hold(self, *limits)
        granted = await self.ledger.reserve(hold)
        assert isinstance(granted, Granted)
        return replace(hold, lease=granted.lease)


def new_hold(sidecar: Sidecar, *limits: Limit, amounts: Amounts = EACH) -> Hold:
    """A hold that was made now."""
    store = sidecar.store
    made_ms = time.time_ns() // 1_000_000
    name = f"{store.epoch}-{made_ms:x}-{next(NUMBERS):x}"
    return Hold(name, (Part(TAG, limits),), amounts, SUBJECT)


def leased(*limits: Limit, bounded: bool = False) -> tuple[Limit, ...]:
    """The same limits, of which slices may be taken."""
    return tuple(replace(limit, leased=True, bounded=bounded) for limit in limits)


LIMITS = leased(tokens(1_000_000), requests(100_000), concurrency(1_000))


@pytest.fixture
async def sidecar(valkey: Server, events: Recorder) -> AsyncIterator[Sidecar]:
    """One processor's."""
    made = Sidecar(RedisStore(valkey.url, events, deadline_seconds=PATIENCE))
    yield made
    await made.ledger.close()


@pytest.fixture
async def watcher(valkey: Server) -> AsyncIterator[RedisStore]:
    """Somebody else who looks at the ledger."""
    made = RedisStore(valkey.url, Recorder(), deadline_seconds=PATIENCE)
    yield made
    await made.close()


def calls(server: Server) -> int:
    """How many scripts the server has run."""
    with redis.Redis.from_url(server.url) as client:
        stats = client.info("commandstats")
    return sum(
        stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval")
    )


async def held(store: RedisStore) -> dict[str, int]:
    """What is reserved of each limit, and how many holds there are."""
    snapshot = await store.snapshot(TAG)
    found = {limit.quota: reserved_of(snapshot, limit) for limit in LIMITS}
    holds = [each for each in snapshot.holdings.values() if each.state is State.HELD]
    return {quota: n for quota, n in found.items() if n} | (
        {"holds": len(holds)} if holds else {}
    )


async def test_a_busy_tenant_asks_seldom(sidecar: Sidecar, valkey: Server) -> None:
    """
    Of five hundred exchanges in a second each costs less than a tenth of a call, and two
    without leases.
    """
    plain = [replace(limit, leased=False) for limit in LIMITS]

    async def exchange(limits: tuple[Limit, ...]) -> None:
        hold = await sidecar.admit(*limits)
        await asyncio.sleep(0.01)
        await sidecar.ledger.settle(hold, used(30, 20))

    costs = []
    for limits in (tuple(plain), LIMITS):
        await asyncio.gather(*(exchange(limits) for _ in range(2 * LEAST)))
        before = calls(valkey)
        for _ in range(10):
            await asyncio.gather(*(exchange(limits) for _ in range(50)))
        costs.append((calls(valkey) - before) / 500)

    assert costs[0] <= 2
    assert costs[1] <= 0.1
    assert sidecar.counts.by_lease >= 500


async def test_all_of_it_is_given_back(sidecar: Sidecar, watcher: RedisStore) -> None:
    """
    Once exchanges have ended and the processor leaves, nothing is held, and the records
    say what was used.
    """
    await sidecar.warm(*LIMITS)
    holds = [await sidecar.admit(*LIMITS) for _ in range(5)]
    assert all(hold.lease for hold in holds)
    assert (await held(watcher))["slots"] >= 5
    await asyncio.gather(*(sidecar.ledger.settle(hold, used(30, 20)) for hold in holds))
    await sidecar.ledger.close()

    assert await held(watcher) == {}
    records = (await watcher.snapshot(TAG)).records
    assert [record["output_tokens"] for record in records] == ["20"] * 5
    assert {record["hold"] for record in records} == {hold.id for hold in holds}


async def test_whoever_sees_the_end_settles_it(
    sidecar: Sidecar, valkey: Server, watcher: RedisStore
) -> None:
    """Another processor extends, settles or cancels what was admitted here."""
    await sidecar.warm(*LIMITS)
    extended, settled, given_back = [await sidecar.admit(*LIMITS) for _ in range(3)]
    other = Sidecar(RedisStore(valkey.url, Recorder(), deadline_seconds=PATIENCE))
    await other.ledger.extend(extended, 5)
    await other.ledger.settle(settled, used(30, 20))
    assert await other.ledger.cancel(given_back)
    assert not await sidecar.ledger.cancel(extended, unclaimed_only=True)
    await other.ledger.settle(extended, used(30, 20))
    await other.ledger.close()
    await sidecar.ledger.close()

    assert await held(watcher) == {}
    records = (await watcher.snapshot(TAG)).records
    assert {record["hold"] for record in records} == {extended.id, settled.id}


async def test_a_lease_refuses_nobody(sidecar: Sidecar) -> None:
    """
    What does not fit a slice asks the ledger, and is told what it is told without one.
    """
    few = leased(tokens(SHARE * 100 * LEAST, 1))
    plain = tuple(replace(limit, leased=False) for limit in few)
    admitted = 0
    while True:
        hold = new_hold(sidecar, *few)
        answer = await sidecar.ledger.reserve(hold)
        if isinstance(answer, Denied):
            break
        admitted += 1
    told = await sidecar.ledger.reserve(new_hold(sidecar, *plain))

    assert admitted == SHARE * LEAST
    assert sidecar.counts.by_lease > 0
    assert isinstance(told, Denied)
    [one], [other] = answer.failures, told.failures
    assert abs(one.wait_ms - other.wait_ms) < 60_000
    assert (one.reserved, one.requested) == (few[0].capacity, 100)


async def test_two_share_what_there_is(
    sidecar: Sidecar, valkey: Server, watcher: RedisStore
) -> None:
    """
    Both find something, together they take no more than there is, and what one gives
    back is the other's.
    """
    limits = leased(requests(800))
    slow = (replace(limits[0], rate=1),)
    other = Sidecar(RedisStore(valkey.url, Recorder(), deadline_seconds=PATIENCE))
    admitted = [0, 0]
    both = (sidecar, other)
    is_over = [False, False]
    while not all(is_over):
        for n, one in enumerate(both):
            answer = await one.ledger.reserve(new_hold(one, *slow))
            is_over[n] = isinstance(answer, Denied)
            admitted[n] += not is_over[n]

    assert sum(admitted) == 800
    assert min(admitted) > 200
    assert min(one.counts.by_lease for one in both) > 100
    await other.ledger.close()
    assert (await held(watcher))["holds"] >= 1


async def test_what_nobody_takes_is_given_back(
    sidecar: Sidecar, watcher: RedisStore
) -> None:
    """A slice without a taker is the ledger's again, while the processor lives."""
    await sidecar.warm(*LIMITS)
    await sidecar.ledger.settle(await sidecar.admit(*LIMITS), used(1, 1))
    assert (await held(watcher))["holds"] == 1
    assert list(sidecar.ledger.leased())
    sidecar.clock_ms += AGE_MS

    async def is_clear() -> bool:
        return await held(watcher) == {}

    await until(is_clear)
    assert not list(sidecar.ledger.leased())
    await until(lambda: not sidecar.ledger._books)


async def test_what_a_killed_processor_had_is_charged(
    valkey: Server, events: Recorder
) -> None:
    """
    The reaper takes the whole slice for used, once; who settles late corrects that.
    """
    now = [1_700_000_000_000]
    store = RedisStore(
        valkey.url, events, deadline_seconds=PATIENCE, now_ms=lambda: now[0]
    )
    killed = Sidecar(store)
    money = leased(budget(10**12, now_ms=now[0]))
    await killed.warm(*money)
    hold = await killed.admit(*money)
    hold = replace(hold, id=f"{store.epoch}-{now[0]:x}-late")
    now[0] += 30_000
    assert await store.sweep([TAG]) == 0
    now[0] += AGE_MS
    assert await store.sweep([TAG]) == 1
    exchanges = killed.counts.slices[-1]
    [spending] = (await store.snapshot(TAG)).spendings.values()
    lost = spending.spent
    assert lost == EACH.cost_nanousd * (exchanges - killed_before(killed, exchanges))
    await killed.ledger.settle(hold, replace(used(1, 1), cost_nanousd=7))

    snapshot = await store.snapshot(TAG)
    [spending] = snapshot.spendings.values()
    assert (spending.spent, spending.reserved) == (lost - EACH.cost_nanousd + 7, 0)
    assert (
        sum(
            figure
            for hour in snapshot.rollups.values()
            for name, figure in hour.items()
            if name.endswith("cost_nanousd")
        )
        == spending.spent
    )
    await killed.ledger.close()


def killed_before(sidecar: Sidecar, exchanges: int) -> int:
    """How many of the slice's exchanges had ended before: all but the last admitted."""
    [book] = sidecar.ledger._books.values()
    assert book.slice is not None
    return exchanges - book.slice.exchanges - 1


async def test_a_flushed_ledger_forgets_leases(
    sidecar: Sidecar, valkey: Server, watcher: RedisStore
) -> None:
    """What was admitted is charged what it used, and nothing is held for ever."""
    await sidecar.warm(*LIMITS)
    hold = await sidecar.admit(*LIMITS)
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    await sidecar.ledger.settle(hold, used(30, 20))
    await sidecar.ledger.close()

    assert await held(watcher) == {}
    [record] = (await watcher.snapshot(TAG)).records
    assert record["output_tokens"] == "20"


@pytest.mark.parametrize("verb", ["reserve", "give_back", "settle_all"])
async def test_a_lost_answer_holds_nothing(
    sidecar: Sidecar,
    watcher: RedisStore,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
) -> None:
    """
    Whatever was applied although no answer came: it is not applied twice, and in the end
    nothing is held.
    """
    real = getattr(sidecar.store, verb)
    lost: list[object] = []

    async def lose(*arguments: object) -> object:
        answer = await real(*arguments)
        if not lost and (verb != "reserve" or getattr(arguments[1], "slots", 1) > 1):
            lost.append(answer)
            raise LedgerUnavailableError("no answer")
        return answer

    monkeypatch.setattr(sidecar.store, verb, lose)
    await sidecar.warm(*LIMITS)
    hold = await sidecar.admit(*LIMITS)
    if verb == "settle_all":
        with pytest.raises(LedgerUnavailableError):
            await sidecar.ledger.settle(hold, used(30, 20))
    await sidecar.ledger.settle(hold, used(30, 20))
    sidecar.clock_ms += AGE_MS

    async def is_clear() -> bool:
        return bool(lost) and await held(watcher) == {}

    await until(is_clear)
    await until(lambda: not sidecar.ledger._owed)
    snapshot = await watcher.snapshot(TAG)
    assert len(snapshot.records) == 1
    spent = snapshot.buckets[key_of(LIMITS[0])]
    assert 1_000_000 - spent.remaining <= 50


async def test_one_bad_settle_spoils_no_batch(
    sidecar: Sidecar, valkey: Server, watcher: RedisStore
) -> None:
    """
    What the ledger refuses (there is garbage where a level should be) is that exchange's
    trouble: the others are settled, each once.
    """
    other = leased(tokens(500_000, quota="other"))
    await sidecar.warm(*LIMITS)
    await sidecar.warm(*other)
    good = [await sidecar.admit(*LIMITS) for _ in range(3)]
    bad = await sidecar.admit(*other)
    assert all(hold.lease for hold in (*good, bad))
    with redis.Redis.from_url(valkey.url) as client:
        name = f"{{{TAG}}}:b:{key_of(other[0])}"
        client.delete(name)
        client.hset(name, "x", "1")
    calls = [
        sidecar.ledger.settle(hold, used(30, 20)) for hold in (*good[:2], bad, good[2])
    ]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(each) for each in outcomes[:2]] == [type(None)] * 2
    assert isinstance(outcomes[2], LedgerUnavailableError)
    assert outcomes[3] is None
    with redis.Redis.from_url(valkey.url) as client:
        client.delete(name)
    await sidecar.ledger.settle(bad, used(30, 20))
    snapshot = await watcher.snapshot(TAG)
    assert len(snapshot.records) == 4


async def test_without_a_ledger_only_what_is_bounded_is_admitted(
    sidecar: Sidecar, own_server: Server
) -> None:
    """
    Within a lease that has not run out; all else asks, and is told that there is none.
    """
    store = RedisStore(own_server.url, Recorder(), deadline_seconds=0.2)
    alone = Sidecar(store)
    bounded = leased(tokens(1_000_000), bounded=True)
    closed = leased(tokens(1_000_000, quota="closed"))
    for limits in (bounded, closed):
        while not (await alone.admit(*limits)).lease:
            pass
    own_server.stop()
    alone.silent = True
    hold = await alone.admit(*bounded)
    assert hold.lease
    with pytest.raises(LedgerUnavailableError):
        await alone.admit(*closed)
    large = new_hold(alone, *bounded, amounts=replace(EACH, input_tokens=900_000))
    with pytest.raises(LedgerUnavailableError):
        await alone.ledger.reserve(large)
    alone.clock_ms += AGE_MS
    with pytest.raises(LedgerUnavailableError):
        await alone.admit(*bounded)
    await alone.ledger.close()


@pytest.mark.parametrize(
    "parts",
    [
        (Part(TAG, leased(tokens(1_000_000))), Part("tw:018", leased(requests(10**6)))),
        (Part(TAG, (*leased(tokens(1_000_000)), requests(10**6))),),
        (Part(TAG, leased(tokens(1_000_000, shadow=True))),),
        (Part(TAG, leased(tokens(SHARE * 100 * (LEAST - 1)))),),
        (Part(TAG, ()),),
    ],
    ids=["shared", "not all", "shadow", "too small", "no limit"],
)
async def test_what_is_not_leased(sidecar: Sidecar, parts: tuple[Part, ...]) -> None:
    """Shared limits, some that are not leased, shadows and small ones ask each time."""
    for _ in range(3 * LEAST):
        hold = replace(new_hold(sidecar), parts=parts)
        granted = await sidecar.ledger.reserve(hold)
        assert isinstance(granted, Granted)
        assert not granted.lease
        await sidecar.ledger.settle(hold, used(1, 1))

    assert sidecar.counts.slices == []


async def test_a_burst_asks_for_one_slice(sidecar: Sidecar) -> None:
    """Whoever waits for it shares it, and a caller who is cancelled spoils nothing."""
    await sidecar.warm(*LIMITS)
    sidecar.ledger._books.clear()
    await sidecar.warm(*leased(requests(10**6, quota="x")))
    before = len(sidecar.counts.slices)
    calls = [
        asyncio.create_task(sidecar.admit(*leased(requests(10**6, quota="y"))))
        for _ in range(30)
    ]
    await asyncio.sleep(0)
    calls[LEAST].cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)

    assert sum(isinstance(each, Hold) and bool(each.lease) for each in done) >= 20
    assert len(sidecar.counts.slices) <= before + 2
