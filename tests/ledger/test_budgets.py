"""Budgets in every ledger, and between processes. Cases of the field by number."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from dataclasses import replace

import pytest

from tests.ledger.builders import (
    SUBJECT,
    TAG,
    Clock,
    Recorder,
    budget,
    hold,
    tokens,
    turns,
    used,
)
from tests.ledger.conftest import Store
from tests.servers import Server
from tokenweir.core.budget import Crossing, Spending
from tokenweir.core.hold import Amounts, Denied, Granted, Hold, Limit, Part, Stale
from tokenweir.core.holding import HOLD_MS
from tokenweir.core.partition import shared_tag_of
from tokenweir.core.window import Window
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

BUDGET = budget(1_000)
KEY = "budget|budget_usd|tenant=acme"
DAY_MS = 86_400_000

PROCESSES, CALLS_EACH = 20, 50
WORST_NANOUSD = 40_000_000
# Of which 37 worst cases fit, and most of another.
TIGHT_NANOUSD = 38 * WORST_NANOUSD - 1


@pytest.fixture
def ledger(store: Store) -> TaggedLedger:
    """A ledger over each store."""
    return TaggedLedger(store)


def costly(number: int, *limits: Limit, nanousd: int = 400) -> Hold:
    """A hold that costs so much in the worst case."""
    made = hold(number, *limits, amounts=Amounts(1, 40, 60, nanousd))
    return replace(made, output_nanousd=5)


async def spending(store: Store, start_ms: int = BUDGET.turns[1]) -> Spending:
    """What became of the budget in a window."""
    return (await store.snapshot(TAG)).spendings[KEY, start_ms]


async def test_parallel_calls_never_pass_a_budget(
    ledger: TaggedLedger, store: Store
) -> None:
    """
    0.05 left, 20 calls of up to 0.04 at once: one of them gets through (B12).
    """
    left = budget(50_000_000)
    asked = [costly(n, left, nanousd=40_000_000) for n in range(20)]
    answers = await asyncio.gather(*map(ledger.reserve, asked))

    assert sum(isinstance(answer, Granted) for answer in answers) == 1
    assert (await spending(store)).reserved == 40_000_000


async def test_a_settle_is_exact(ledger: TaggedLedger, store: Store) -> None:
    """
    A thousand calls that are each settled three times: not a nano-USD of drift (B13).
    """
    wide = budget(4_500_000 * 10**9)
    for number in range(1_000):
        made = costly(number, wide)
        await ledger.reserve(made)
        settlement = replace(used(40, 10), cost_nanousd=90 + number)
        await asyncio.gather(*(ledger.settle(made, settlement) for _ in range(3)))

    assert await spending(store) == Spending(
        BUDGET.turns[2], sum(range(90, 1_090)), 0, 0
    )


async def test_the_window_turns(ledger: TaggedLedger, clock: Clock) -> None:
    """
    Who waits as long as told succeeds; a millisecond less does not.
    """
    await ledger.reserve(costly(1, BUDGET, nanousd=1_000))
    refused = await ledger.reserve(costly(2, BUDGET))
    assert isinstance(refused, Denied)
    (why,) = refused.failures
    assert (why.used, why.reserved, why.requested) == (0, 1_000, 400)

    clock.now_ms += why.wait_ms - 1
    await ledger.extend(costly(1, BUDGET, nanousd=1_000), 1)
    assert isinstance(await ledger.reserve(costly(3, BUDGET)), Denied)
    clock.now_ms += 1
    assert isinstance(await ledger.reserve(costly(4, BUDGET)), Granted)


async def test_a_clock_beyond_the_windows_asks_for_others(
    ledger: TaggedLedger, clock: Clock, store: Store
) -> None:
    """
    The ledger's clock decides. A caller whose clock is days off is told to look again.
    """
    clock.now_ms += 3 * DAY_MS
    answer = await ledger.reserve(costly(1, tokens(500), BUDGET))
    assert isinstance(answer, Stale)
    assert answer.now_ms == clock.now_ms
    assert not await store.holdings([TAG])

    again = replace(BUDGET, turns=turns(answer.now_ms))
    assert isinstance(await ledger.reserve(costly(2, tokens(500), again)), Granted)


async def test_stale_windows_of_a_later_tag_give_the_earlier_back(
    ledger: TaggedLedger, clock: Clock, store: Store
) -> None:
    """
    Nothing is held anywhere, whichever limit it was.
    """
    clock.now_ms += 3 * DAY_MS
    shared = replace(BUDGET, partition="provider=openai")
    other = shared_tag_of(shared.quota, shared.partition)
    parts = (Part(TAG, (tokens(500),)), Part(other, (shared,)))
    made = Hold("0-0-1", parts, Amounts(1, 40, 60, 400), SUBJECT)

    assert isinstance(await ledger.reserve(made), Stale)
    assert not await store.holdings([TAG, other])


async def test_a_late_settle_is_the_reserves_window(
    ledger: TaggedLedger, clock: Clock, store: Store
) -> None:
    """
    An answer that ends after the window has turned costs the window that it began in.
    """
    yesterday, today, tomorrow = BUDGET.turns[1:]
    clock.now_ms = today - 5
    await ledger.reserve(costly(1, BUDGET))
    clock.now_ms = today + 5
    await ledger.reserve(costly(2, BUDGET))
    await ledger.settle(costly(1, BUDGET), replace(used(40, 10), cost_nanousd=150))

    assert await spending(store, yesterday) == Spending(today, 150, 0)
    assert await spending(store, today) == Spending(tomorrow, 0, 400)


async def test_a_lost_exchange_is_paid_for_and_then_corrected(
    ledger: TaggedLedger, clock: Clock, store: Store
) -> None:
    """
    A processor that was killed gives no money back that may have been spent.
    """
    await ledger.reserve(costly(1, BUDGET))
    await ledger.extend(costly(1, BUDGET), 20)
    clock.now_ms += HOLD_MS
    await store.sweep([TAG])
    assert await spending(store) == Spending(BUDGET.turns[2], 400 - 40 * 5, 0)

    await ledger.settle(costly(1, BUDGET), replace(used(40, 10), cost_nanousd=150))
    assert await spending(store) == Spending(BUDGET.turns[2], 150, 0)


async def test_thresholds_are_told_once_a_window(
    ledger: TaggedLedger, events: Recorder, store: Store
) -> None:
    """
    By whichever verb they were passed, the reaper's too.
    """
    window = Window(*BUDGET.turns[1:3])
    for number, nanousd in enumerate((499, 1, 299, 1, 1, 200)):
        await ledger.reserve(costly(number, BUDGET, nanousd=1))
        settlement = replace(used(40, 10), cost_nanousd=nanousd)
        await ledger.settle(costly(number, BUDGET, nanousd=1), settlement)

    assert events.crossings == [
        Crossing(KEY, 50, 500, 1_000, window),
        Crossing(KEY, 80, 800, 1_000, window),
        Crossing(KEY, 95, 1_001, 1_000, window),
    ]
    assert (await spending(store)).told == 95


def race(url: str, number: int, start_at: float) -> int:
    """Be one of the processes; return how many calls were granted to it."""
    return asyncio.run(_race(url, number, start_at))


async def _race(url: str, number: int, start_at: float) -> int:
    store = RedisStore(url, Recorder(), deadline_seconds=60)
    ledger = TaggedLedger(store)
    limit = budget(TIGHT_NANOUSD, now_ms=time.time_ns() // 1_000_000)
    holds = [
        costly(1_000 * number + n, limit, nanousd=WORST_NANOUSD)
        for n in range(CALLS_EACH)
    ]
    await store.ping()
    await asyncio.sleep(max(0, start_at - time.time()))
    answers = await asyncio.gather(*map(ledger.reserve, holds))
    granted = [
        made
        for made, answer in zip(holds, answers, strict=True)
        if isinstance(answer, Granted)
    ]
    settlement = replace(used(40, 60), cost_nanousd=WORST_NANOUSD)
    await asyncio.gather(*(ledger.settle(made, settlement) for made in granted))
    await store.close()
    return len(granted)


async def test_many_processes_never_pass_a_budget(valkey: Server) -> None:
    """
    20 processes with 50 parallel calls each: as many pass as there are worst cases (B12).
    Nothing stays reserved; and once the window has turned calls pass again.
    """
    start_at = time.time() + 5
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(PROCESSES) as pool:
        arguments = [(valkey.url, number, start_at) for number in range(PROCESSES)]
        granted = await asyncio.to_thread(pool.starmap, race, arguments)

    store = RedisStore(valkey.url, Recorder(), deadline_seconds=60)
    found = (await store.snapshot(TAG)).spendings.values()
    # Two, if a day ended just then.
    assert sum(granted) == 37 * len(found)
    assert {(each.spent, each.reserved) for each in found} == {(37 * WORST_NANOUSD, 0)}
    await store.close()

    turns_ms = max(each.end_ms for each in found)
    later = RedisStore(
        valkey.url, Recorder(), deadline_seconds=60, now_ms=lambda: turns_ms
    )
    limit = budget(TIGHT_NANOUSD, now_ms=turns_ms - 1)
    one = costly(999_999, limit, nanousd=WORST_NANOUSD)
    assert isinstance(await TaggedLedger(later).reserve(one), Granted)
    await later.close()
