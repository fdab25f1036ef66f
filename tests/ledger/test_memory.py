"""What is the memory store's own; the rest is in test_contract.py."""

import time

from tests.ledger.builders import TAG, Clock, Recorder, hold, tokens, used
from tokenweir.core.holding import HOLD_MS, REAPED_PER_CALL, TOMBSTONE_MS
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.tagged import TaggedLedger

TPM = tokens(100_000)


async def test_the_machines_clock_is_the_default(events: Recorder) -> None:
    """
    Without a clock a store goes by the machine's.
    """
    store = MemoryStore(events)
    before_ms = time.time_ns() // 1_000_000
    await TaggedLedger(store).reserve(hold(1, TPM))
    after_ms = time.time_ns() // 1_000_000

    assert before_ms <= int(store.epoch) <= after_ms


async def test_a_sweep_forgets_what_means_nothing_any_more(
    events: Recorder, clock: Clock
) -> None:
    """
    Tombstones and full buckets do not fill the memory of a laptop.
    """
    store = MemoryStore(events, now_ms=clock)
    ledger = TaggedLedger(store)
    await ledger.reserve(hold(1, TPM))
    await ledger.settle(hold(1, TPM), used(1, 1))
    clock.now_ms += TOMBSTONE_MS
    await store.sweep([TAG, "tw:000"])
    assert (await store.snapshot(TAG)).holdings == {}
    clock.now_ms += 10**8
    await store.sweep([TAG])

    assert (await store.snapshot(TAG)).buckets == {}


async def test_whoever_asks_leads(events: Recorder) -> None:
    """
    There is no other process that could sweep.
    """
    store = MemoryStore(events)

    assert await store.lead("a", 1_000)
    assert await store.lead("b", 1_000)
    assert not await store.lead("b", 0)


async def test_reaped_holds_are_reported(events: Recorder, clock: Clock) -> None:
    """
    A reserve reaps a few, a sweep the rest; both are counted.
    """
    store = MemoryStore(events, hold_ms=HOLD_MS, now_ms=clock)
    ledger = TaggedLedger(store)
    for number in range(REAPED_PER_CALL + 5):
        await ledger.reserve(hold(number, TPM))
    clock.now_ms += HOLD_MS
    await ledger.reserve(hold(99, TPM))
    assert events.reaped == REAPED_PER_CALL
    await store.sweep([TAG])

    assert events.reaped == REAPED_PER_CALL + 5


async def test_a_snapshot_is_a_copy(events: Recorder, clock: Clock) -> None:
    """
    What is done later does not change what was seen.
    """
    store = MemoryStore(events, now_ms=clock)
    ledger = TaggedLedger(store)
    before = await store.snapshot(TAG)
    await ledger.reserve(hold(1, TPM))
    held = await store.snapshot(TAG)
    await ledger.settle(hold(1, TPM), used(1, 1))
    await ledger.close()

    assert (before.holdings, before.buckets, before.epoch) == ({}, {}, 0)
    assert (len(held.expiries), len(held.records)) == (1, 0)
