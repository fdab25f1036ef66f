"""How limits stand is read as it is, and reading changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import redis

from tests.ledger.builders import START_MS, TAG, Clock, Recorder
from tests.servers import Server
from tokenweir.core.calibration import Batch, Place, Side
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Amounts, Limit
from tokenweir.core.holding import Account, Share, key_of
from tokenweir.core.policy import Axis
from tokenweir.ledger.calibration import CalibrationLedger
from tokenweir.ledger.levels_reader import LevelsReader
from tokenweir.ledger.link import Link
from tokenweir.ledger.redis import RedisStore

HOUR = 3_600_000
BEGIN = START_MS - START_MS % HOUR
TURNS = tuple(BEGIN + turn * HOUR for turn in (-1, 0, 1, 2))
LIMITS = (
    Limit("a.tpm", Axis.TOKENS, "tenant=acme", 600, 1_000),
    Limit("a.slots", Axis.CONCURRENCY, "tenant=acme", 0, 8),
    Limit("a.usd", Axis.BUDGET_USD, "tenant=acme", 0, 10**9, False, TURNS, (50,)),
)
TAKEN = Amounts(1, 40, 60, 5_000)


@pytest_asyncio.fixture
async def reader(valkey: Server) -> AsyncIterator[LevelsReader]:
    """Give a reader of an empty server."""
    it = LevelsReader(valkey.url, Recorder())
    yield it
    await it.close()


def test_what_it_may_say() -> None:
    """The limits are of each kind that there are levels of."""
    assert {limit.axis for limit in LIMITS} == {
        Axis.TOKENS,
        Axis.CONCURRENCY,
        Axis.BUDGET_USD,
    }


async def test_an_empty_ledger(reader: LevelsReader) -> None:
    """Nothing was used: everything is full."""
    levels = await reader.levels(TAG, LIMITS, START_MS)

    assert not any(levels.slots.values())
    assert (levels.buckets, levels.spendings) == ({}, {})


async def test_what_was_taken(valkey: Server, reader: LevelsReader) -> None:
    """Buckets, slots with what is learned of them, and the window of the moment."""
    store = RedisStore(valkey.url, Recorder(), deadline_seconds=30, now_ms=Clock())
    settled = Share(f"0-{START_MS:x}-1", LIMITS, TAKEN, "m")
    held = Share(f"0-{START_MS:x}-2", LIMITS, TAKEN, "m")
    await store.reserve(TAG, settled)
    await store.settle(TAG, settled, Account(Amounts(1, 4, 6, 700), 1_500, 0))
    await store.reserve(TAG, held)
    snapshot = await store.snapshot(TAG)
    before = _everything(valkey)
    levels = await reader.levels(TAG, LIMITS, START_MS)
    after = _everything(valkey)
    await store.close()

    tokens, slots, budget = map(key_of, LIMITS)
    assert levels.buckets == {tokens: snapshot.buckets[tokens]}
    assert levels.slots == {slots: snapshot.slots[slots]}
    assert list(levels.slots[slots].until_ms) == [held.hold_id]
    assert levels.slots[slots].median_ms == 1_500
    assert levels.spendings == {(budget, BEGIN): snapshot.spendings[budget, BEGIN]}
    assert levels.spendings[budget, BEGIN].spent == 700
    assert before == after
    assert before


async def test_another_window(reader: LevelsReader) -> None:
    """Where the windows do not cover the moment there is none to read."""
    assert (await reader.levels(TAG, LIMITS, START_MS + 9 * HOUR)).spendings == {}


async def test_the_time(reader: LevelsReader) -> None:
    """It is the server's, in milliseconds."""
    first = await reader.now_ms()

    assert 1_600_000_000_000 < first <= await reader.now_ms()


async def test_a_slot_that_goes(
    reader: LevelsReader, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is given back between two reads is nobody's."""
    name = f"{{{TAG}}}:s:{key_of(LIMITS[1])}"
    client = redis.Redis(unix_socket_path=str(valkey.path))
    client.zadd(name, {"a": 5, "b": 6})
    read, gone = reader._link.read, []

    async def racing(commands: list[tuple[str, ...]]) -> list[object]:
        if commands[0][0] == "ZMSCORE":
            gone.append(client.zrem(name, "a"))
        return await read(commands)

    monkeypatch.setattr(reader._link, "read", racing)
    levels = await reader.levels(TAG, LIMITS[1:2], START_MS)
    client.close()

    assert gone == [1]
    assert next(iter(levels.slots.values())).until_ms == {"b": 6}


async def test_no_ledger(own_server: Server) -> None:
    """Nobody answers: that is told, and no level is made up."""
    own_server.stop()
    reader = LevelsReader(own_server.url, Recorder())

    with pytest.raises(LedgerUnavailableError):
        await reader.now_ms()
    with pytest.raises(LedgerUnavailableError):
        await reader.levels(TAG, LIMITS, START_MS)
    await reader.close()


def _everything(server: Server) -> dict[bytes, bytes]:
    """Return all that is in *server*, by key, as it is kept."""
    with redis.Redis(unix_socket_path=str(server.path)) as client:
        names: list[bytes] = list(client.scan_iter())
        return {name: client.dump(name) for name in names}


async def test_what_was_learned(valkey: Server, reader: LevelsReader) -> None:
    """Of one tenant, as it is kept."""
    spot = (Place("acme", "vllm", "m", "chat_completions"), Side.INPUT)
    link = Link(valkey.url, Recorder(), deadline_seconds=30)
    await CalibrationLedger(link).learn("acme", {spot: Batch(5, 500, 0, 500 * 20)})
    await link.close()

    assert set(await reader.learned("acme")) == {spot}
    assert await reader.learned("globex") == {}
