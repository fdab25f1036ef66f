from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.ledger.builders import SUBJECT, hold, used
from tests.ledger_view import Silent
from tests.servers import Server, start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Hold
from tokenweir.core.partition import all_tags
from tokenweir.ledger.live import Entry, LiveReader
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

TAG = hold(0).parts[0].tag
BEGINNING = {TAG: "0-0"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """An empty ledger's server."""
    started = start_valkey(tmp_path)
    yield started
    started.stop()


@pytest.fixture
async def ledger(server: Server) -> AsyncIterator[TaggedLedger]:
    """What writes."""
    store = RedisStore(server.url, Silent(), deadline_seconds=10.0)
    yield TaggedLedger(store)
    await store.close()


@pytest.fixture
async def reader(server: Server) -> AsyncIterator[LiveReader]:
    """What is tested."""
    made = LiveReader(server.url, Silent())
    yield made
    await made.close()


def made(number: int) -> Hold:
    """A hold that was made just now."""
    return hold(number, made_ms=int(time.time() * 1_000))


async def test_entries_come_in_pages(ledger: TaggedLedger, reader: LiveReader) -> None:
    """Each entry is read once: at most so many at a time, after the last one's id."""
    for number in range(3):
        await ledger.settle(made(number), used(number + 1, 0))
    first = (await reader.entries(BEGINNING, 2))[TAG]
    second = (await reader.entries({TAG: first[-1].id}, 2))[TAG]
    third = (await reader.entries({TAG: second[-1].id}, 2))[TAG]

    assert [len(first), len(second), len(third)] == [2, 1, 0]
    told = [entry.record["input_tokens"] for entry in (*first, *second)]
    assert told == ["1", "2", "3"]
    assert abs(first[0].at_ms - await reader.now_ms()) < 600_000


def test_when_an_entry_was_written() -> None:
    """Its id tells."""
    assert Entry("1767225600123-4", {}).at_ms == 1_767_225_600_123


async def test_in_flight(ledger: TaggedLedger, reader: LiveReader) -> None:
    """All holds are counted, and no more are read than asked for."""
    for number in range(3):
        await ledger.reserve(made(number))
    await ledger.settle(made(3), used(1, 1))
    few = await reader.in_flight(all_tags(), 2)
    every = await reader.in_flight(all_tags(), 1_000)

    assert (few.count, len(few.holdings)) == (3, 2)
    assert (every.count, len(every.holdings)) == (3, 3)
    assert {holding.labels["tenant"] for holding in every.holdings} == {SUBJECT.tenant}


async def test_nothing_is_in_flight(reader: LiveReader) -> None:
    """An empty ledger has no holds and no entries."""
    assert (await reader.in_flight(all_tags(), 10)).count == 0
    assert await reader.entries(BEGINNING, 10) == {TAG: []}


async def test_no_server(server: Server, reader: LiveReader) -> None:
    """A server that is gone is told as such."""
    server.stop()
    with pytest.raises(LedgerUnavailableError):
        await reader.now_ms()
