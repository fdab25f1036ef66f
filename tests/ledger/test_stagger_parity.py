"""Staggered return through a ledger: the same in memory and in Redis."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.ledger.builders import SUBJECT, Clock, Recorder
from tests.servers import Server
from tokenweir.core.hold import Amounts, Denied, Granted, Hold, Limit, Part
from tokenweir.core.policy import Axis
from tokenweir.core.stagger import WINDOW_MS
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

LIMITS = (
    Limit("rpm", Axis.REQUESTS, "tenant=acme", 60, 1, staggered=True),
    Limit("tpm", Axis.TOKENS, "tenant=acme", 1_000, 2_000, staggered=True),
    Limit("slots", Axis.CONCURRENCY, "tenant=acme", 0, 2, staggered=True),
    Limit("all", Axis.TOKENS, "", 1_000, 2_000, staggered=True, queue="a"),
    Limit("plain", Axis.OUTPUT_TOKENS, "tenant=acme", 900, 900),
    Limit("trial", Axis.INPUT_TOKENS, "tenant=acme", 7, 7, shadow=True, staggered=True),
)


@pytest.fixture(params=["memory", "valkey_server", "redis_server"])
async def ledgers(
    request: pytest.FixtureRequest,
) -> AsyncIterator[tuple[Clock, TaggedLedger, TaggedLedger]]:
    """A clock, and the reference beside another store."""
    clock = Clock()
    memory = MemoryStore(Recorder(), now_ms=clock)
    if request.param == "memory":
        other: MemoryStore | RedisStore = MemoryStore(Recorder(), now_ms=clock)
    else:
        server: Server = request.getfixturevalue(request.param)
        other = RedisStore(server.url, Recorder(), deadline_seconds=30, now_ms=clock)
    yield clock, TaggedLedger(memory), TaggedLedger(other)
    await other.close()


def asking(
    number: int, limits: tuple[Limit, ...], amounts: Amounts, clock: Clock
) -> Hold:
    """Return a hold to ask for, of a tag that only one test has."""
    tag = f"tw:stagger{'-'.join(limit.quota for limit in limits)}"
    name = f"0-{clock.now_ms:x}-{number:04x}"
    return Hold(name, (Part(tag, limits),), amounts, SUBJECT)


async def test_refusals_at_one_moment_are_told_moments_apart(
    ledgers: tuple[Clock, TaggedLedger, TaggedLedger],
) -> None:
    """
    Each is told its true wait, and a moment that is a step behind the one before.
    """
    clock, *both = ledgers
    told = []
    for ledger in both:
        answers = [
            await ledger.reserve(asking(number, LIMITS[:1], Amounts(), clock))
            for number in range(5)
        ]
        assert isinstance(answers[0], Granted)
        denied = [answer for answer in answers if isinstance(answer, Denied)]
        told.append([answer.failures[0] for answer in denied])

    assert told[0] == told[1]
    assert [failure.wait_ms for failure in told[0]] == [1_000] * 4
    assert [failure.return_ms for failure in told[0]] == [1_000, 2_000, 3_000, 4_000]


async def test_tenants_do_not_put_each_other_off(
    ledgers: tuple[Clock, TaggedLedger, TaggedLedger],
) -> None:
    """
    Of a limit that they share, a caller of one is told its true wait, however often and
    for however much another one's are refused.
    """
    clock, *both = ledgers
    loud, quiet = (
        Limit("fair", Axis.TOKENS, "", 60_000, 60_000, staggered=True, queue=name)
        for name in ("loud", "quiet")
    )
    for ledger in both:
        taken = asking(0, (loud,), Amounts(1, 59_500), clock)
        assert isinstance(await ledger.reserve(taken), Granted)
        for number in range(1, 9):
            hold = asking(number, (loud,), Amounts(1, 25_000), clock)
            await ledger.reserve(hold)
        answer = await ledger.reserve(asking(9, (quiet,), Amounts(1, 1_500), clock))

        assert isinstance(answer, Denied)
        assert answer.failures[0].wait_ms == answer.failures[0].return_ms == 1_000


async def test_a_cursor_decays_and_admits_nobody(
    ledgers: tuple[Clock, TaggedLedger, TaggedLedger],
) -> None:
    """
    Who comes early is admitted if there is room, and what has passed counts no more.
    """
    clock, *both = ledgers
    limits = (replace(LIMITS[0], quota="decays"),)
    for ledger in both:
        clock.now_ms += 1_000_000
        for number in range(9):
            await ledger.reserve(asking(number, limits, Amounts(), clock))
        clock.now_ms += 1_000
        early = await ledger.reserve(asking(20, limits, Amounts(), clock))
        clock.now_ms += 100_000
        await ledger.reserve(asking(21, limits, Amounts(), clock))
        alone = await ledger.reserve(asking(22, limits, Amounts(), clock))

        assert isinstance(early, Granted)
        assert isinstance(alone, Denied)
        assert alone.failures[0].return_ms == alone.failures[0].wait_ms == 1_000


@pytest.mark.parametrize("seed", range(4))
async def test_stores_tell_the_same_moments(
    ledgers: tuple[Clock, TaggedLedger, TaggedLedger], seed: int
) -> None:
    """
    On any series, with a clock that may step back; limits in shadow mode and those
    that do not stagger have no offset, and none is longer than a window.
    """
    clock, *both = ledgers
    dice = random.Random(seed)
    offsets = 0
    for number in range(250):
        limits = tuple(
            replace(limit, quota=f"{limit.quota}{seed}")
            for limit in dice.sample(LIMITS, dice.randint(1, 4))
        )
        amounts = Amounts(1, dice.choice((0, 1, 90)), dice.choice((0, 200, 800)))
        hold = replace(
            asking(number, limits, amounts, clock),
            parts=(Part(f"tw:staggered{seed}", limits),),
        )
        answers = [await ledger.reserve(hold) for ledger in both]
        if isinstance(answers[0], Granted) and dice.random() < 0.5:
            for ledger in both:
                await ledger.cancel(hold)
        clock.now_ms += dice.choice((0, 0, 0, 1, 250, 4_000, 61_000, -30_000))

        assert answers[0] == answers[1]
        if isinstance(answers[0], Denied):
            for failure in (*answers[0].failures, *answers[0].shadowed):
                is_plain = failure.shadow or failure.quota.startswith("plain")
                assert 0 <= failure.stagger_ms <= (0 if is_plain else WINDOW_MS)
                offsets += failure.stagger_ms > 0
    assert offsets
