"""Reading back what scripts wrote; that it is right is compared in test_parity.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis

from tests.ledger.builders import (
    START_MS,
    TAG,
    Clock,
    Recorder,
    concurrency,
    hold,
    tokens,
    used,
)
from tests.servers import Server
from tokenweir.core.partition import user_code
from tokenweir.core.record import hour_of
from tokenweir.ledger import reader
from tokenweir.ledger.link import Link
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.store import Snapshot
from tokenweir.ledger.tagged import TaggedLedger

TPM = tokens(100_000)
GROUP = "acme\x1facme-ci\x1fgpt-4o\x1fopenai\x1fchat_completions"
OTHER = "tw:018"


@pytest.fixture
async def link(valkey: Server, events: Recorder) -> AsyncIterator[Link]:
    """A link to an empty server."""
    link = Link(valkey.url, events, deadline_seconds=30)
    yield link
    await link.close()


@pytest.fixture
async def ledger(
    valkey: Server, clock: Clock, events: Recorder
) -> AsyncIterator[TaggedLedger]:
    """A ledger on it."""
    store = RedisStore(valkey.url, events, deadline_seconds=30, now_ms=clock)
    yield TaggedLedger(store)
    await store.close()


async def test_nothing_is_an_empty_snapshot(link: Link) -> None:
    """
    A tag that nobody has used has nothing.
    """
    assert await reader.snapshot(link, TAG) == Snapshot()
    assert await reader.holdings(link, [TAG]) == []
    assert await reader.rollups(link, [TAG], 0, 10**6) == []


async def test_a_snapshot_has_all_pages(link: Link, ledger: TaggedLedger) -> None:
    """
    However many keys there are, none is missing and none of another tag's is there.
    """
    for number in range(150):
        await ledger.reserve(hold(number, TPM, tokens(200, quota=f"q{number}")))
    snapshot = await reader.snapshot(link, TAG)

    assert len(snapshot.holdings) == len(snapshot.expiries) == 150
    assert len(snapshot.buckets) == 151
    assert await reader.snapshot(link, OTHER) == Snapshot()


async def test_a_snapshot_tells_slots_and_durations(
    link: Link, ledger: TaggedLedger
) -> None:
    """
    Limits that hold slots, that have learned, and both.
    """
    both, free = concurrency(5, quota="both"), concurrency(5, quota="free")
    await ledger.reserve(hold(1, both, free))
    await ledger.settle(hold(1, both, free), used(1, 1, duration_ms=700))
    await ledger.reserve(hold(2, both, concurrency(5, quota="new")))
    slots = (await reader.snapshot(link, TAG)).slots

    assert {key: (len(s.until_ms), s.median_ms) for key, s in slots.items()} == {
        "both|concurrency|tenant=acme": (1, 700),
        "free|concurrency|tenant=acme": (0, 700),
        "new|concurrency|tenant=acme": (1, None),
    }


async def test_holdings_are_those_that_are_held(
    link: Link, ledger: TaggedLedger, valkey: Server
) -> None:
    """
    What ended between two reads, or whose key is gone, is not among them.
    """
    for number in range(4):
        await ledger.reserve(hold(number, TPM))
    await ledger.settle(hold(0, TPM), used(1, 1))
    with redis.Redis.from_url(valkey.url) as client:
        client.zadd("{tw:017}:x", {hold(0).id: START_MS})
        client.delete(f"{{tw:017}}:h:{hold(1).id}")
    found = await reader.holdings(link, [OTHER, TAG])

    assert [holding.labels["hold"] for holding in found] == [hold(2).id, hold(3).id]


async def test_rollups_are_those_of_the_hours_asked_for(
    link: Link, ledger: TaggedLedger, clock: Clock
) -> None:
    """
    Both ends are included.
    """
    for number in range(4):
        clock.now_ms = START_MS + 3_600_000 * number
        await ledger.settle(hold(number, made_ms=clock.now_ms), used(number, 0))
    first = hour_of(START_MS)
    found = await reader.rollups(link, [OTHER, TAG], first + 1, first + 2)
    inputs = [
        (each.tag, each.hour, each.sums[f"{GROUP}\x1finput_tokens"]) for each in found
    ]

    assert inputs == [(TAG, first + 1, 1), (TAG, first + 2, 2)]
    assert [each.users for each in found] == [{}, {}]


async def test_sums_by_user_are_read_if_asked_for(
    link: Link, ledger: TaggedLedger, valkey: Server
) -> None:
    """
    Those that are no longer kept are missing, and the others are there all the same.
    """
    await ledger.settle(hold(1), used(7, 0))
    found = await reader.rollups(link, [TAG], 0, 10**6)
    code = user_code("acme", "ann")

    (with_users,) = await reader.with_users(link, found)
    assert with_users.users[f"{GROUP}\x1f{code}\x1finput_tokens"] == 7
    with redis.Redis.from_url(valkey.url) as client:
        client.delete(f"{{{TAG}}}:n:{hour_of(START_MS)}")
    assert list(await reader.with_users(link, found)) == list(found)
