"""Looking into real servers, and putting counters right there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import redis

from tests.ledger.builders import (
    TAG,
    Clock,
    Recorder,
    budget,
    hold,
    requests,
    used,
)
from tests.servers import Server
from tokenweir.core.amendment import Amendment, amended
from tokenweir.core.budget import MAX_SPENT, Spending
from tokenweir.core.hold import Amounts, Hold, Limit, Part
from tokenweir.core.window import Window
from tokenweir.ledger import inspector as module
from tokenweir.ledger.inspector import Inspector, Look
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

BUDGET = budget(5_000)
NAME = ("budget|budget_usd|tenant=acme", BUDGET.turns[1])
TODAY = Window(*BUDGET.turns[1:3])
SHARED = "tw:s017"


@pytest.fixture
async def inspector(server: Server, events: Recorder) -> AsyncIterator[Inspector]:
    """One that looks into an empty server of each kind."""
    made = Inspector(server.url, events)
    yield made
    await made.close()


@pytest.fixture
async def ledger(
    server: Server, clock: Clock, events: Recorder
) -> AsyncIterator[TaggedLedger]:
    """A ledger there."""
    store = RedisStore(server.url, events, deadline_seconds=30, now_ms=clock)
    yield TaggedLedger(store)
    await store.close()


def costly(number: int, *limits: Limit, nanousd: int = 400) -> Hold:
    """A hold that costs so much in the worst case."""
    made = hold(number, *limits, amounts=Amounts(1, 40, 60, nanousd))
    return replace(made, parts=(*made.parts, Part(SHARED, limits)))


async def settle(ledger: TaggedLedger, made: Hold, nanousd: int) -> None:
    """Have *made* end for so much."""
    await ledger.settle(made, replace(used(40, 10), cost_nanousd=nanousd))


async def test_an_empty_server_has_nothing(inspector: Inspector) -> None:
    """A tag that nobody has used, and counters that nobody has written."""
    assert await inspector.counters() == {}
    assert await inspector.look(TAG, [NAME]) == Look()
    assert [each async for each in inspector.records(TAG, 0, "+")] == []


async def test_the_moment_is_the_servers(
    inspector: Inspector, client: redis.Redis
) -> None:
    """In milliseconds."""
    seconds, _ = client.time()

    assert 0 <= await inspector.now_ms() - seconds * 1_000 < 60_000


async def test_a_look_is_all_of_a_moment(
    inspector: Inspector, ledger: TaggedLedger, client: redis.Redis
) -> None:
    """Counters, what holds have taken of them, which holds, and the newest record."""
    other = budget(5_000, quota="größer: other")
    for number in range(4):
        await ledger.reserve(costly(number, BUDGET, other, requests(100)))
    await settle(ledger, costly(0, BUDGET, other, requests(100)), 70)
    await ledger.cancel(costly(1, BUDGET, other, requests(100)))
    third = ("größer: other|budget_usd|tenant=acme", TODAY.begin_ms)
    missing = ("no such", TODAY.begin_ms)
    client.zadd("{tw:017}:x", {"0-0-gone": 1})

    assert await inspector.counters() == {TAG: {NAME, third}, SHARED: {NAME, third}}
    look = await inspector.look(TAG, [missing, third, NAME])
    held = {hold(number).id for number in (2, 3)}
    assert look.holds == held
    assert look.taken == {NAME: 800, third: 800}
    spending = Spending(TODAY.end_ms, 70, 800)
    assert look.spendings == {NAME: spending, third: replace(spending)}
    [(entry, record)] = [
        each async for each in inspector.records(TAG, 0, look.last_record)
    ]
    assert entry == look.last_record
    assert (record["hold"], record["cost_nanousd"]) == (hold(0).id, "70")
    shared = await inspector.look(SHARED, [NAME])
    assert (shared.last_record, shared.taken) == ("", look.taken)


async def test_a_look_writes_nothing(
    inspector: Inspector, ledger: TaggedLedger, client: redis.Redis
) -> None:
    """Tombstones that are over stay, too."""
    await ledger.reserve(costly(1, BUDGET))
    before = {key: client.dump(key) for key in client.scan_iter()}
    await inspector.look(TAG, [NAME])
    await inspector.look("tw:099", [NAME])

    assert {key: client.dump(key) for key in client.scan_iter()} == before


async def test_records_come_page_by_page(
    inspector: Inspector, ledger: TaggedLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, in order, up to the one that was asked for."""
    monkeypatch.setattr(module, "RECORDS_A_PAGE", 3)
    for number in range(9):
        await settle(ledger, costly(number), number)
    found = [each async for each in inspector.records(TAG, 0, "+")]
    some = [each async for each in inspector.records(TAG, 0, found[6][0])]
    none = [each async for each in inspector.records(TAG, 10**14, "+")]

    assert [int(record["cost_nanousd"]) for _, record in found] == list(range(9))
    assert some == found[:7]
    assert none == []


@pytest.mark.parametrize(
    ("seen", "add"),
    [(70, 0), (70, 500), (70, -30), (70, -999), (60, 10), (71, 10), (0, MAX_SPENT)],
)
async def test_amending_is_what_the_core_says(
    inspector: Inspector, ledger: TaggedLedger, seen: int, add: int
) -> None:
    """The script is its twin: what is spent, reserved and told."""
    thresholds = (5, 50, 80)
    limit = budget(1_000, thresholds=thresholds)
    await ledger.reserve(costly(1, limit))
    await ledger.reserve(costly(2, limit))
    await settle(ledger, costly(1, limit), 70)
    amendment = Amendment(NAME[0], TODAY, seen, add, 1_000, thresholds)
    expected = amended(Spending(TODAY.end_ms, 70, 400, 5), amendment, 400)

    assert await inspector.amend(TAG, [amendment]) == [expected is not None]
    look = await inspector.look(TAG, [NAME])
    assert look.spendings[NAME] == expected or Spending(TODAY.end_ms, 70, 400, 5)


async def test_amending_what_is_reserved(
    inspector: Inspector, ledger: TaggedLedger, client: redis.Redis
) -> None:
    """It is set to what holds have taken, and a counter that is gone comes back."""
    await ledger.reserve(costly(1, BUDGET))
    key = f"{{tw:017}}:w:{NAME[1]}:{NAME[0]}"
    client.set(key, f"70 12345 50 {TODAY.end_ms}")
    amendment = Amendment(NAME[0], TODAY, 70, 0, 1_000)
    again = replace(amendment, key="other|budget_usd|tenant=acme", seen=0, add=30)

    assert await inspector.amend(TAG, [amendment, again]) == [True, True]
    other = (again.key, NAME[1])
    assert (await inspector.look(TAG, [NAME, other])).spendings == {
        NAME: Spending(TODAY.end_ms, 70, 400, 50),
        other: Spending(TODAY.end_ms, 30),
    }
    assert client.pttl(f"{{tw:017}}:w:{NAME[1]}:{again.key}") > 0


async def test_one_at_a_time(inspector: Inspector) -> None:
    """Who has the lease may ask again, and give it up."""
    assert await inspector.lead("a", 60_000)
    assert not await inspector.lead("b", 60_000)
    assert await inspector.lead("a", 60_000)
    assert not await inspector.lead("a", 0)
    assert await inspector.lead("b", 60_000)
