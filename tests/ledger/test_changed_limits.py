"""A limit may change while exchanges are in flight: what was used of it stays used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledger.builders import (
    TAG,
    Clock,
    concurrency,
    hold,
    level_of,
    requests,
    reserved_of,
    tokens,
    used,
)
from tests.ledger.conftest import Store
from tokenweir.core.hold import Amounts, Denied, Granted, Limit, Stale
from tokenweir.core.policy import BUDGETS, Axis
from tokenweir.ledger.tagged import TaggedLedger

# So slow that nothing is earned unless a test waits for it.
TPM = tokens(1_000, 60)
LOWER = tokens(200, 60)
HIGHER = tokens(5_000, 60)
ONE = Amounts(1, 1, 0)


@pytest.fixture
def ledger(store: Store) -> TaggedLedger:
    """A ledger over each store."""
    return TaggedLedger(store)


async def ask(
    ledger: TaggedLedger, number: int, limit: Limit, asked: int
) -> Granted | Denied | Stale:
    """Reserve so many tokens of one limit."""
    return await ledger.reserve(hold(number, limit, amounts=Amounts(1, asked, 0)))


async def test_a_lowered_limit_counts_what_is_in_flight(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    Nobody is let in beside exchanges that hold more than the new limit. What they did
    not use comes back as they end, and what they used is paid back at the new rate.
    """
    for number in range(6):
        await ask(ledger, number, TPM, 100)
    refused = await ask(ledger, 10, LOWER, 1)
    assert isinstance(refused, Denied)
    (why,) = refused.failures
    assert (why.capacity, why.used, why.reserved) == (200, 0, 600)
    assert why.wait_ms == 401_000

    for number in range(6):
        assert isinstance(await ask(ledger, 11 + number, LOWER, 100), Denied)
        await ledger.settle(hold(number, TPM), used(10, 0))
    snapshot = await store.snapshot(TAG)
    assert level_of(snapshot, LOWER, clock.now_ms) == 140
    assert isinstance(await ask(ledger, 20, LOWER, 140), Granted)
    assert isinstance(await ask(ledger, 21, LOWER, 1), Denied)


async def test_a_lowered_limit_counts_what_was_used(
    ledger: TaggedLedger, clock: Clock
) -> None:
    """
    Who has used more than the new limit waits until the excess is paid back, as long as
    it is told.
    """
    await ledger.settle(hold(1, TPM), used(250, 0))
    await ask(ledger, 2, TPM, 1)
    refused = await ask(ledger, 3, LOWER, 10)
    assert isinstance(refused, Denied)
    (why,) = refused.failures
    assert (why.used, why.reserved, why.wait_ms) == (250, 1, 61_000)
    clock.now_ms += why.wait_ms - 1
    assert isinstance(await ask(ledger, 4, LOWER, 10), Denied)
    clock.now_ms += 1

    assert isinstance(await ask(ledger, 5, LOWER, 10), Granted)


async def test_a_raised_limit_keeps_what_was_used(ledger: TaggedLedger) -> None:
    """
    It has room for more by as much as it was raised, and is not full.
    """
    await ask(ledger, 1, TPM, 1_000)
    answer = await ask(ledger, 2, HIGHER, 500)

    assert isinstance(answer, Granted)
    assert answer.states[0].remaining == 5_000 - 1_500


@pytest.mark.parametrize("limit", [LOWER, HIGHER, tokens(1_000, 6_000), tokens(1, 1)])
async def test_a_change_that_is_taken_back_leaves_no_trace(
    ledger: TaggedLedger, store: Store, clock: Clock, limit: Limit
) -> None:
    """
    While processors with the old and the new policy take turns, nothing is forgotten.
    """
    await ledger.settle(hold(1, TPM), used(300, 0))
    await ask(ledger, 2, TPM, 400)
    for number in range(10):
        other = await ask(ledger, 10 + number, limit, limit.capacity)
        assert isinstance(other, Denied)
        await ask(ledger, 30 + number, TPM, 1)

    snapshot = await store.snapshot(TAG)
    assert level_of(snapshot, TPM, clock.now_ms) == 1_000 - 700 - 10
    assert reserved_of(snapshot, TPM) == 410


async def test_a_full_limit_stays_full(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    Whatever it is changed to: it may as well have been forgotten.
    """
    await ask(ledger, 1, TPM, 100)
    await ledger.settle(hold(1, TPM), used(0, 0))
    for number, limit in enumerate((LOWER, HIGHER, TPM), 2):
        assert isinstance(await ask(ledger, number, limit, 1), Granted)
        await ledger.cancel(hold(number))
        assert level_of(await store.snapshot(TAG), limit, clock.now_ms) == (
            limit.capacity
        )


async def test_slots_of_a_lowered_limit_stay_taken(ledger: TaggedLedger) -> None:
    """
    The next one is let in once fewer are in flight than the new limit.
    """
    for number in range(3):
        await ledger.reserve(hold(number, concurrency(3)))
    lowered = concurrency(1)
    for number in range(3):
        assert isinstance(await ledger.reserve(hold(10 + number, lowered)), Denied)
        await ledger.cancel(hold(number))

    assert isinstance(await ledger.reserve(hold(20, lowered)), Granted)


async def test_a_quota_that_comes_back_is_as_it_would_be(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    While it was away it earned, and was settled, but was held against nobody.
    """
    await ask(ledger, 1, TPM, 500)
    await ask(ledger, 2, TPM, 300)
    await ledger.reserve(hold(3))  # without it
    await ledger.settle(hold(1, TPM), used(400, 0))
    clock.now_ms += 10_000
    await ledger.extend(hold(2, TPM), 0)
    answer = await ask(ledger, 4, TPM, 1)

    assert isinstance(answer, Granted)
    assert answer.states[0].remaining == 1_000 - 700 + 10 - 1
    assert reserved_of(await store.snapshot(TAG), TPM) == 301


@pytest.mark.parametrize("axis", sorted({*Axis} - BUDGETS - {Axis.TOKENS}))
async def test_what_counts_something_else_begins_anew(
    ledger: TaggedLedger, store: Store, clock: Clock, axis: Axis
) -> None:
    """
    A quota whose name stays while its axis changes: tokens are no requests, nor slots.
    """
    await ask(ledger, 1, TPM, 1_000)
    other = concurrency(5) if axis is Axis.CONCURRENCY else requests(5)
    other = replace(other, quota=TPM.quota, axis=axis)
    answer = await ledger.reserve(hold(2, other, amounts=ONE))

    assert isinstance(answer, Granted)
    await ledger.settle(hold(1, TPM), used(900, 0))
    snapshot = await store.snapshot(TAG)
    assert level_of(snapshot, TPM, clock.now_ms) == 100
    assert reserved_of(snapshot, TPM) == 0
