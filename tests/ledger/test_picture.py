from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.ledger.builders import START_MS, SUBJECT, Clock, Recorder, hold, used
from tokenweir.core.hold import Amounts, Hold, Limit, Part
from tokenweir.core.partition import tag_of
from tokenweir.core.policy import Axis
from tokenweir.core.record import hour_of
from tokenweir.ledger.live import Entry, InFlight
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.picture import Painter
from tokenweir.ledger.tagged import TaggedLedger


class Living:
    """What is read of a store in memory while it works."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.most = 0

    async def now_ms(self) -> int:
        """See `Living`."""
        return self._clock.now_ms

    async def entries(
        self, after: Mapping[str, str], count: int
    ) -> dict[str, list[Entry]]:
        """Return all records of each tag once."""
        found: dict[str, list[Entry]] = {}
        for tag, last in after.items():
            records = (await self._store.snapshot(tag)).records
            is_new = not last.startswith(f"{self._clock.now_ms}-")
            entry = f"{self._clock.now_ms}-0"
            found[tag] = [Entry(entry, each) for each in records[:count] if is_new]
        return found

    async def in_flight(self, tags: Sequence[str], most: int) -> InFlight:
        """Return all holds."""
        self.most = most
        found = await self._store.holdings(tags)
        return InFlight(len(found), found)


@pytest.fixture
def store(events: Recorder, clock: Clock) -> MemoryStore:
    """An empty ledger."""
    return MemoryStore(events, now_ms=clock)


def asked(number: int, tenant: str = "acme", *, shared: bool = False) -> Hold:
    """A hold of 40 and 60 tokens under a limit of its tenant, and a shared one."""
    own = Limit(f"{tenant}.tokens", Axis.TOKENS, f"tenant={tenant}", 1_000, 1_000)
    slots = Limit(f"{tenant}.slots", Axis.CONCURRENCY, f"tenant={tenant}", 0, 4)
    parts = [Part(tag_of(tenant), (own, slots))]
    if shared:
        limit = Limit("all.tokens", Axis.TOKENS, "", 1_000, 1_000)
        parts.append(Part("tw:255", (limit,)))
    return replace(
        hold(number, made_ms=START_MS),
        parts=tuple(parts),
        amounts=Amounts(1, 40, 60, 7),
        subject=replace(SUBJECT, tenant=tenant),
    )


async def test_picture(store: MemoryStore, clock: Clock) -> None:
    """The minute, the hour and what is in flight, by group; reserved by limit too."""
    ledger = TaggedLedger(store)
    await ledger.reserve(asked(1))
    await ledger.settle(asked(1), used(10, 20))
    await ledger.reserve(asked(2, shared=True))
    await ledger.reserve(asked(3, "globex"))
    picture = await Painter(store, Living(store, clock), ("tenant",)).look()

    assert (picture.at_ms, picture.hour) == (clock.now_ms, hour_of(clock.now_ms))
    assert picture.minute[("acme",)]["input_tokens"] == 10
    assert picture.this_hour[("acme",)]["output_tokens"] == 20
    one = {"in_flight": 1, "reserved_tokens": 100, "reserved_nanousd": 7}
    assert picture.flying == {("acme",): one, ("globex",): one}
    assert picture.reserved == {
        "acme.tokens|tokens_per_minute|tenant=acme": 100,
        "acme.slots|concurrency|tenant=acme": 1,
        "globex.tokens|tokens_per_minute|tenant=globex": 100,
        "globex.slots|concurrency|tenant=globex": 1,
        "all.tokens|tokens_per_minute|": 100,
    }
    assert picture.minute_is_whole
    assert picture.flying_is_whole


async def test_one_tenant(store: MemoryStore, clock: Clock) -> None:
    """Only what is that tenant's is told."""
    ledger = TaggedLedger(store)
    await ledger.reserve(asked(1))
    await ledger.reserve(asked(2, "globex"))
    await ledger.settle(asked(3, "globex"), used(1, 1))
    painter = Painter(store, Living(store, clock), ("user", "tenant"), "globex")
    picture = await painter.look()

    assert {group[1] for group in picture.flying} == {"globex"}
    assert {group[1] for group in (*picture.minute, *picture.this_hour)} == {"globex"}
    assert all("globex" in limit for limit in picture.reserved)


async def test_too_much_in_flight(store: MemoryStore, clock: Clock) -> None:
    """What was not read is told to be missing."""

    class Crowded(Living):
        """Has more holds than are read."""

        async def in_flight(self, tags: Sequence[str], most: int) -> InFlight:
            """Return a few of many."""
            return InFlight(most + len(tags), ())

    picture = await Painter(store, Crowded(store, clock), ("tenant",)).look()

    assert not picture.flying_is_whole
    assert picture.flying == {}
