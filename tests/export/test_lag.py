"""How far behind an exporter is, is told from what the server knows."""

from __future__ import annotations

import time

import pytest
import redis

from tests.export.ledgers import GROUP, TENANTS, MemorySink, export_once, put
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.partition import tag_of
from tokenweir.export import lag
from tokenweir.export.lag import Lag, lag_of_all
from tokenweir.export.streams import Streams, as_texts
from tokenweir.ledger.keys import records

HOLDS = [f"h{number}" for number in range(20)]


async def test_nobody_exports(valkey: Server) -> None:
    """Without a group there is nobody; one that is asked for is at the start."""
    assert await lag_of_all(valkey.url) == {}
    assert await lag_of_all(valkey.url, ["g"]) == {"g": Lag()}
    put(valkey.url, HOLDS)
    found = await lag_of_all(valkey.url, ["g"])

    assert found["g"].behind == 20
    assert found["g"].oldest_age_ms is not None


async def test_each_group_has_its_own(valkey: Server, client: redis.Redis) -> None:
    """What was not read and what is in hand counts; the oldest of it tells the age."""
    put(valkey.url, HOLDS)
    await export_once(valkey.url, MemorySink())
    slow = Streams(valkey.url, "slow", "c")
    await slow.join()
    await slow.new(slow.joined, 1)
    await slow.close()
    oldest_ms = min(
        int(str(entries[0][0]).partition("-")[0])
        for tenant in TENANTS
        if (entries := client.xrange(records(tag_of(tenant)), count=1))
    )
    found = await lag_of_all(valkey.url, now_s=lambda: oldest_ms / 1_000 + 90)

    assert found[GROUP] == Lag()
    assert found["slow"] == Lag(20, len(TENANTS), oldest_ms, 90_000)


async def test_only_in_hand(valkey: Server) -> None:
    """Entries that all are in somebody's hands have an age as well."""
    put(valkey.url, HOLDS)
    reader = Streams(valkey.url, GROUP, "c")
    await reader.join()
    await reader.new(reader.joined, 100)
    await reader.close()
    found = (await lag_of_all(valkey.url, now_s=lambda: time.time() - 3_600))[GROUP]

    assert (found.behind, found.pending) == (20, 20)
    assert found.oldest_ms
    assert found.oldest_age_ms == 0


async def test_a_server_that_does_not_count(
    valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Redis 7 entries are counted one by one, page by page."""
    monkeypatch.setattr(lag, "PAGE", 2)

    def without_lag(reply: object) -> dict[str, object]:
        told = as_texts(reply)
        del told["lag"]
        return told

    put(valkey.url, HOLDS)
    reader = Streams(valkey.url, GROUP, "c")
    await reader.join()
    await reader.new(reader.joined, 1)
    await reader.close()
    monkeypatch.setattr("tokenweir.export.lag.as_texts", without_lag)
    put(valkey.url, HOLDS)

    assert (await lag_of_all(valkey.url))[GROUP].behind == 40


async def test_no_answer(own_server: Server) -> None:
    """A ledger that is away is told."""
    own_server.stop()
    with pytest.raises(LedgerUnavailableError):
        await lag_of_all(own_server.url)
