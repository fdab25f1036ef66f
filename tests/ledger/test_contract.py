"""What every ledger owes, whatever it is kept in. Cases of the field by number."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from tests.ledger.builders import (
    START_MS,
    SUBJECT,
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
from tests.ledger.conftest import Store
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Amounts, Denied, Granted, Hold, Part
from tokenweir.core.holding import (
    HOLD_MS,
    REAPED_PER_CALL,
    REPLAY_MS,
    TOMBSTONE_MS,
    State,
)
from tokenweir.core.partition import shared_tag_of, user_code
from tokenweir.core.record import hour_of
from tokenweir.ledger.tagged import TaggedLedger
from tokenweir.ledger.usage import outstanding

TPM = tokens(100)


@pytest.fixture
def ledger(store: Store) -> TaggedLedger:
    """A ledger over each store."""
    return TaggedLedger(store)


def asking(tokens_asked: int) -> Amounts:
    """A request whose worst case is so many tokens."""
    return Amounts(1, tokens_asked, 0)


async def test_parallel_reserves_never_exceed_the_limit(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    However many ask at once, what is admitted fits: checked and taken as one (L01).
    """
    dice = random.Random(1)
    asked = [
        hold(n, TPM, amounts=asking(dice.randint(58, 175) // 5)) for n in range(50)
    ]
    answers = await asyncio.gather(*map(ledger.reserve, asked))
    admitted = sum(
        made.amounts.input_tokens
        for made, answer in zip(asked, answers, strict=True)
        if isinstance(answer, Granted)
    )

    snapshot = await store.snapshot(TAG)
    assert 80 <= admitted <= 100
    assert reserved_of(snapshot, TPM) == admitted
    assert level_of(snapshot, TPM, clock.now_ms) == 100 - admitted


async def test_a_small_budget_admits_as_many_as_it_can_hold(
    ledger: TaggedLedger,
) -> None:
    """
    What is left is not spent twice by those who ask at the same time (B12).
    """
    left = tokens(50)
    answers = await asyncio.gather(
        *(ledger.reserve(hold(n, left, amounts=asking(40))) for n in range(20))
    )

    assert sum(isinstance(answer, Granted) for answer in answers) == 1


async def test_refusals_change_nothing(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    After twenty refusals the level is what it was, and what fits is let in (L04).
    """
    await ledger.reserve(hold(0, TPM, amounts=asking(50)))
    before = await store.snapshot(TAG)
    for number in range(1, 21):
        answer = await ledger.reserve(hold(number, TPM, amounts=asking(90)))
        assert isinstance(answer, Denied)

    after = await store.snapshot(TAG)
    assert (after.buckets, after.holdings) == (before.buckets, before.holdings)
    assert level_of(after, TPM, clock.now_ms) == 50
    fits = await ledger.reserve(hold(21, TPM, amounts=asking(40)))
    assert isinstance(fits, Granted)


async def test_a_crash_frees_its_slot_by_itself(
    ledger: TaggedLedger, clock: Clock, events: Recorder
) -> None:
    """
    Refused callers keep nobody's slot alive: it ends with its own lease (L06).
    """
    one = concurrency(1)
    await ledger.reserve(hold(0, one))
    for number in range(1, 30):
        clock.now_ms = START_MS + number * 1_000
        assert isinstance(await ledger.reserve(hold(number, one)), Denied)
    clock.now_ms = START_MS + HOLD_MS

    assert isinstance(await ledger.reserve(hold(99, one)), Granted)
    assert events.reaped == 1


async def test_an_expired_slot_is_free_before_its_hold_is_reaped(
    ledger: TaggedLedger, clock: Clock
) -> None:
    """
    Who comes after a great crash need not wait until all of it is cleared away (L06).
    """
    one = concurrency(1)
    for number in range(REAPED_PER_CALL):
        await ledger.reserve(hold(number, TPM, amounts=asking(1)))
    clock.now_ms += 1
    await ledger.reserve(hold(98, one))
    clock.now_ms += HOLD_MS

    assert isinstance(await ledger.reserve(hold(99, one)), Granted)


@pytest.mark.parametrize("way", ["settle", "cancel"])
async def test_every_exit_frees_the_slot(ledger: TaggedLedger, way: str) -> None:
    """
    However an exchange ends, the next one is let in at once (L06).
    """
    one = concurrency(1)
    for number in range(3):
        made = hold(number, one)
        assert isinstance(await ledger.reserve(made), Granted)
        if way == "settle":
            await ledger.settle(made, used(1, 1))
        else:
            await ledger.cancel(made)


async def test_slots_are_shared(ledger: TaggedLedger, store: Store) -> None:
    """
    Two processors with one store have one limit between them (L07).
    """
    other = TaggedLedger(store)
    three = concurrency(3)
    answers = await asyncio.gather(
        *((ledger, other)[n % 2].reserve(hold(n, three)) for n in range(12))
    )

    assert sum(isinstance(answer, Granted) for answer in answers) == 3


async def test_no_minute_edge_lets_twice_as_much_through(
    ledger: TaggedLedger, clock: Clock
) -> None:
    """
    10 ms later, in the next minute, the limit is the same (L11).
    """
    one = requests(1)
    clock.now_ms = START_MS // 60_000 * 60_000 + 59_995
    assert isinstance(await ledger.reserve(hold(1, one)), Granted)
    clock.now_ms += 10
    refused = await ledger.reserve(hold(2, one))
    assert isinstance(refused, Denied)
    assert refused.failures[0].wait_ms == 59_990


@pytest.mark.parametrize(
    ("rate", "asked"), [(30, 100), (30, 1), (7, 3), (1, 1), (59, 58), (6_000, 100)]
)
async def test_the_wait_is_the_true_wait(
    ledger: TaggedLedger, clock: Clock, rate: int, asked: int
) -> None:
    """
    Who waits that long succeeds, and a millisecond less does not do (L11, L13, L18).
    """
    slow = tokens(100, rate)
    await ledger.reserve(hold(1, slow, amounts=asking(100)))
    clock.now_ms += 300
    refused = await ledger.reserve(hold(2, slow, amounts=asking(asked)))
    assert isinstance(refused, Denied)
    wait_ms = refused.failures[0].wait_ms
    assert wait_ms >= 1
    clock.now_ms += wait_ms - 1
    again = await ledger.reserve(hold(3, slow, amounts=asking(asked)))
    assert isinstance(again, Denied)
    assert again.failures[0].wait_ms == 1
    clock.now_ms += 1

    assert isinstance(
        await ledger.reserve(hold(4, slow, amounts=asking(asked))), Granted
    )


async def test_a_clock_that_steps_back_makes_nobody_wait_longer(
    ledger: TaggedLedger, clock: Clock
) -> None:
    """
    The wait that was told holds by the clock that it was told by (L18).
    """
    await ledger.reserve(hold(1, TPM, amounts=asking(100)))
    clock.now_ms -= 3_600_000
    refused = await ledger.reserve(hold(2, TPM, amounts=asking(10)))
    assert isinstance(refused, Denied)
    assert refused.failures[0].wait_ms == 6_000
    clock.now_ms += 6_000

    assert isinstance(await ledger.reserve(hold(2, TPM, amounts=asking(10))), Granted)


async def test_tokens_are_charged_not_requests(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    An answer of 150 tokens costs 150, one of none costs none (L20).
    """
    small = tokens(30)
    await ledger.reserve(hold(1, small, amounts=asking(10)))
    await ledger.settle(hold(1, small), used(0, 150))
    assert level_of(await store.snapshot(TAG), small, clock.now_ms) == -120
    assert isinstance(await ledger.reserve(hold(2, small, amounts=asking(1))), Denied)
    await ledger.settle(hold(3, small), used(0, 0))

    assert level_of(await store.snapshot(TAG), small, clock.now_ms) == -120


async def test_each_limit_gets_its_own_back(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    In whatever order limits come, refunds go by name (L24).
    """
    dice = random.Random(2)
    limits = [tokens(1_000 * n, 1, quota=f"q{n}") for n in range(1, 6)]
    for number in range(10):
        dice.shuffle(limits)
        await ledger.reserve(hold(number, *limits))
        dice.shuffle(limits)
        await ledger.settle(hold(number, *limits), used(3, 4))

    snapshot = await store.snapshot(TAG)
    assert {
        limit.capacity - level_of(snapshot, limit, clock.now_ms) for limit in limits
    } == {70}


async def test_every_verb_counts_once(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    A caller that got no answer may repeat what it asked for (L14).
    """
    made = hold(1, TPM, concurrency(2))
    first = await ledger.reserve(made)
    assert await ledger.reserve(made) == first
    await ledger.extend(made, 70)
    await ledger.extend(made, 70)
    await ledger.settle(made, used(40, 20))
    clock.now_ms += TOMBSTONE_MS - 1
    await ledger.settle(made, used(40, 20))
    await ledger.cancel(made)
    await ledger.extend(made, 90)

    snapshot = await store.snapshot(TAG)
    assert level_of(snapshot, TPM, START_MS) == 40
    assert len(snapshot.records) == 1
    assert (await outstanding(store, [TAG])).holds == 0


async def test_a_cancel_says_whose_the_hold_is(ledger: TaggedLedger) -> None:
    """
    A hold is nobody's until it is claimed by an extend, or settled; a plain cancel
    gives back a claimed one, too.
    """
    free, claimed, settled, unknown = (hold(number, TPM) for number in range(1, 5))
    for each in (free, claimed, settled):
        await ledger.reserve(each)
    await ledger.extend(claimed, 0)
    await ledger.settle(settled, used(1, 1))

    assert await ledger.cancel(free, unclaimed_only=True)
    assert await ledger.cancel(free, unclaimed_only=True)  # told a second time
    assert await ledger.cancel(unknown, unclaimed_only=True)
    assert not await ledger.cancel(claimed, unclaimed_only=True)
    assert not await ledger.cancel(settled, unclaimed_only=True)
    assert not await ledger.cancel(settled)
    assert await ledger.cancel(claimed)


async def test_what_has_ended_is_not_reserved_again(ledger: TaggedLedger) -> None:
    """
    A reserve that comes after its cancel is no outcome to tell a client of.
    """
    await ledger.cancel(hold(1, TPM))
    with pytest.raises(LedgerUnavailableError, match="had ended"):
        await ledger.reserve(hold(1, TPM))


async def test_a_lost_hold_is_charged_and_then_corrected(
    ledger: TaggedLedger, store: Store, clock: Clock, events: Recorder
) -> None:
    """
    The reaper's estimate stands until somebody knows better.
    """
    made = hold(1, TPM)
    await ledger.reserve(made)
    await ledger.extend(made, 25)
    clock.now_ms += HOLD_MS
    assert await store.sweep([TAG]) == 1
    assert events.reaped == 1
    await ledger.settle(made, used(44, 66))

    snapshot = await store.snapshot(TAG)
    outcomes = [
        (record["outcome"], record["output_tokens"], record["correction"])
        for record in snapshot.records
    ]
    assert outcomes == [("lost", "25", "0"), ("completed", "66", "1")]
    sums = snapshot.rollups[hour_of(START_MS)]
    group = "acme\x1facme-ci\x1fgpt-4o\x1fopenai\x1fchat_completions"
    assert sums[f"{group}\x1foutput_tokens"] == 66
    of_users = snapshot.user_rollups[hour_of(START_MS)]
    assert of_users[f"{group}\x1f{user_code('acme', 'ann')}\x1foutput_tokens"] == 66
    assert snapshot.holdings[made.id].state is State.SETTLED


async def test_a_settle_books_into_the_hour_of_its_reserve(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    An exchange that runs past the hour belongs to the hour in which it began.
    """
    clock.now_ms = 3_600_000 * hour_of(START_MS) + 3_599_999
    made = hold(1, TPM)
    await ledger.reserve(made)
    clock.now_ms += 5_000
    await ledger.settle(made, used(1, 1))

    assert list((await store.snapshot(TAG)).rollups) == [hour_of(START_MS)]


async def test_a_hold_under_two_tags_is_recorded_once(
    ledger: TaggedLedger, store: Store
) -> None:
    """
    The tenant's tag keeps the record; the other takes and gives back.
    """
    tag = shared_tag_of("openai", "provider=openai")
    shared = replace(tokens(1_000), quota="openai", partition="provider=openai")
    parts = (Part(TAG, (TPM,)), Part(tag, (shared,)))
    made = replace(hold(1), parts=parts)
    answer = await ledger.reserve(made)
    assert isinstance(answer, Granted)
    assert [state.limit for state in answer.states] == [TPM, shared]
    await ledger.settle(made, used(10, 10))

    assert len((await store.snapshot(TAG)).records) == 1
    assert len((await store.snapshot(tag)).records) == 0
    assert level_of(await store.snapshot(tag), shared, START_MS) == 980


async def test_a_denial_under_a_later_tag_gives_the_earlier_back(
    ledger: TaggedLedger, store: Store
) -> None:
    """
    A hold is granted under all of its tags or under none.
    """
    tag = shared_tag_of("openai", "provider=openai")
    shared = replace(tokens(50), quota="openai", partition="provider=openai")
    parts = (Part(TAG, (TPM,)), Part(tag, (shared,)))
    denied = await ledger.reserve(replace(hold(1), parts=parts))

    assert isinstance(denied, Denied)
    assert [failure.quota for failure in denied.failures] == ["openai"]
    assert level_of(await store.snapshot(TAG), TPM, START_MS) == 100
    assert (await outstanding(store, [TAG, tag])).holds == 0


async def test_a_flushed_ledger_charges_what_was_used(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    An id tells that its hold was made before the ledger began.
    """
    old = hold(1, TPM, epoch=str(START_MS - 10**7), made_ms=START_MS - 10**6)
    await ledger.reserve(hold(2))
    await ledger.settle(old, used(30, 20))

    snapshot = await store.snapshot(TAG)
    assert level_of(snapshot, TPM, clock.now_ms) == 50
    assert snapshot.records[-1]["outcome"] == "completed"


async def test_a_settle_from_beyond_the_tombstones_is_only_recorded(
    ledger: TaggedLedger, store: Store, clock: Clock
) -> None:
    """
    It may be a repetition that nobody can tell any more: levels stay as they are.
    """
    await ledger.reserve(hold(1))
    epoch = await ledger.epoch()
    assert epoch == str(START_MS)
    old = hold(2, TPM, epoch=epoch, made_ms=START_MS + 1)
    clock.now_ms += 10**6
    await ledger.settle(old, used(30, 20))

    snapshot = await store.snapshot(TAG)
    assert level_of(snapshot, TPM, clock.now_ms) == 100
    assert snapshot.records[-1]["hold"] == old.id


@pytest.mark.parametrize(
    "name",
    [
        "",
        "h",
        "7-xyz-1",
        f"{START_MS}-{16**12:x}-1",  # thirteen digits
        f"{10**15}-{START_MS:x}-1",  # sixteen
        f"{START_MS}-{START_MS:x}",
    ],
)
async def test_an_id_of_another_form_tells_nothing(
    ledger: TaggedLedger, store: Store, clock: Clock, name: str
) -> None:
    """
    Such a hold is taken for new: it starts now, and is charged.
    """
    await ledger.reserve(hold(1))
    clock.now_ms += 10**8
    await ledger.settle(replace(hold(2, TPM), id=name), used(30, 20))

    snapshot = await store.snapshot(TAG)
    assert level_of(snapshot, TPM, clock.now_ms) == 50
    assert snapshot.records[-1]["reserved_at_ms"] == str(clock.now_ms)


@pytest.mark.parametrize(("age_ms", "left"), [(REPLAY_MS, 50), (REPLAY_MS + 1, 100)])
async def test_an_unknown_hold_may_be_repeated_for_so_long(
    ledger: TaggedLedger, store: Store, clock: Clock, age_ms: int, left: int
) -> None:
    """
    To the millisecond: a settle that may be repeated is never taken for a new one.
    """
    await ledger.reserve(hold(1))
    late = hold(2, TPM, epoch=await ledger.epoch(), made_ms=START_MS)
    clock.now_ms += age_ms
    await ledger.settle(late, used(30, 20))

    assert level_of(await store.snapshot(TAG), TPM, clock.now_ms) == left


async def test_a_tombstone_ends_to_the_millisecond(
    ledger: TaggedLedger, clock: Clock
) -> None:
    """
    Until then a hold that was cancelled is refused, and then its id is free.
    """
    await ledger.cancel(hold(1))
    clock.now_ms += TOMBSTONE_MS - 1
    with pytest.raises(LedgerUnavailableError):
        await ledger.reserve(hold(1))
    clock.now_ms += 1

    assert isinstance(await ledger.reserve(hold(1)), Granted)


async def test_the_epoch_is_unknown_before_the_first_answer(
    ledger: TaggedLedger,
) -> None:
    """
    Ids made until then count as made before the ledger began.
    """
    assert await ledger.epoch() == "0"
    await ledger.ping()
    assert await ledger.epoch() == "0"


async def test_outstanding_says_what_is_reserved(
    ledger: TaggedLedger, store: Store
) -> None:
    """
    Holds and what they have taken, by limit; nothing of what has ended.
    """
    await ledger.reserve(hold(1, tokens(500), concurrency(9), requests(9)))
    await ledger.reserve(hold(2, tokens(500), concurrency(9)))
    await ledger.reserve(hold(3, tokens(500)))
    await ledger.settle(hold(3, tokens(500)), used(1, 1))
    await ledger.cancel(hold(4))
    state = await outstanding(store, [TAG])

    assert state.holds == 2
    assert state.reserved == {
        "tpm|tokens_per_minute|tenant=acme": 200,
        "slots|concurrency|tenant=acme": 2,
        "rpm|requests_per_minute|tenant=acme": 1,
    }


async def test_names_may_be_anything(ledger: TaggedLedger, store: Store) -> None:
    """
    Blanks, braces, zero bytes and half characters in names break nothing.
    """
    odd = "} {tw:000}:x \x00\x1f\n ü 漢 \ud800" + "é" * 300
    limit = replace(TPM, partition=f"user={odd}")
    made = Hold("0-0-1", (Part(TAG, (limit,)),), asking(10), replace(SUBJECT, user=odd))
    assert isinstance(await ledger.reserve(made), Granted)
    assert len(await store.holdings([TAG])) == 1
    await ledger.extend(made, 5)
    await ledger.settle(made, used(10, 5))

    snapshot = await store.snapshot(TAG)
    assert snapshot.records[0]["output_tokens"] == "5"
    assert [stored.reserved for stored in snapshot.buckets.values()] == [0]
