"""A consumer of a real server gets every entry, and what it had before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import redis

from tests.export.ledgers import GROUP, TENANTS, pending, put
from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.partition import tag_of
from tokenweir.export.streams import START, Delivery, Streams
from tokenweir.ledger.keys import records

HOLDS = [f"h{number}" for number in range(20)]
TAG = tag_of(TENANTS[0])
KEY = records(TAG)


@pytest.fixture(scope="module", params=["valkey", "valkey-resp3", "redis"])
def each_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, str]]:
    """A server of each kind, and its URL for either protocol."""
    if request.param == "redis" and not REDIS_SERVER.exists():
        pytest.skip(f"{REDIS_SERVER} is not installed")
    start = start_redis if request.param == "redis" else start_valkey
    server = start(tmp_path_factory.mktemp("server"))
    resp3 = "?protocol=3" if request.param.endswith("resp3") else ""
    yield server, server.url + resp3
    server.stop()


@pytest.fixture
def url(each_server: tuple[Server, str]) -> str:
    """The URL of an empty ledger."""
    server, url = each_server
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return url


@pytest.fixture
async def streams(url: str) -> AsyncIterator[Streams]:
    """A consumer that knows of no stream yet."""
    made = Streams(url, GROUP, "c1")
    yield made
    await made.close()


def names(deliveries: list[Delivery]) -> list[str]:
    """Return the holds that were delivered, in order of their names."""
    fields = [delivery.fields for delivery in deliveries]
    return sorted((each or {b"hold": b"expired"})[b"hold"].decode() for each in fields)


async def test_every_entry_is_delivered_once(url: str, streams: Streams) -> None:
    """What was there before the group and what came later is delivered, once."""
    await streams.join()
    assert streams.joined == ()
    put(url, HOLDS[:10])
    await streams.join()
    first = await streams.new(streams.joined, 100)
    put(url, HOLDS[10:])
    await streams.join()
    second = await streams.new(streams.joined, 100)

    assert names(first + second) == sorted(HOLDS)
    assert await streams.new(streams.joined, 100) == []
    assert len(streams.joined) == len(TENANTS)
    assert pending(url) == 20


async def test_no_key_is_made(url: str, streams: Streams) -> None:
    """Where nothing was used nothing is left: no stream that never expires."""
    await streams.join()
    with redis.Redis.from_url(url) as client:
        assert client.dbsize() == 0


async def test_what_is_not_acknowledged_comes_again(url: str, streams: Streams) -> None:
    """The same consumer gets it again until it is acknowledged; a bit at a time."""
    put(url, HOLDS)
    await streams.join()
    first = await streams.new(streams.joined, 100)
    again = await streams.mine(streams.joined, 2)
    assert names(await streams.mine(streams.joined, 100)) == sorted(HOLDS)
    assert len(again) == 2 * len(TENANTS)
    await streams.acknowledge((each.tag, each.entry) for each in first)

    assert await streams.mine(streams.joined, 100) == []
    assert pending(url) == 0


async def test_what_another_one_left(url: str, streams: Streams) -> None:
    """What a consumer had and left is taken over by another, page by page."""
    put(url, [f"h{number}" for number in range(200)])
    await streams.join()
    await streams.new(streams.joined, 1_000)
    other = Streams(url, GROUP, "c2")
    await other.join()
    assert (await other.abandoned({KEY[1:-3]: START}, 5, 3_600_000))[0] == []
    taken: list[Delivery] = []
    cursors = dict.fromkeys(other.joined, START)
    while cursors:
        found, cursors = await other.abandoned(cursors, 5, 0)
        taken += found
    await other.acknowledge((each.tag, each.entry) for each in taken)
    await other.close()

    assert len(names(taken)) == 200
    assert await streams.mine(streams.joined, 100) == []


async def test_entries_that_have_expired(url: str, streams: Streams) -> None:
    """What expired in somebody's hands is told, and does not come for ever."""
    put(url, HOLDS)
    await streams.join()
    await streams.new(streams.joined, 100)
    with redis.Redis.from_url(url) as client:
        for tenant in TENANTS:
            client.xtrim(records(tag_of(tenant)), maxlen=0, approximate=False)
    mine = await streams.mine(streams.joined[:3], 100)
    assert {each.fields for each in mine} == {None}
    await streams.acknowledge((each.tag, each.entry) for each in mine)
    assert await streams.mine(streams.joined[:3], 100) == []
    taken, left = await streams.abandoned(dict.fromkeys(streams.joined, START), 100, 0)

    assert len(mine) + len(taken) == 20
    assert {each.fields for each in taken} == {None}
    assert left == {}


async def test_entries_that_have_expired_before_redis_7(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Such a server does not say which of what is taken over has expired: it leaves a gap,
    and what is missing in it stays in hand. So that is asked for, page by page, once.
    """
    streams = Streams("unix:///nowhere", GROUP, "c1")
    fields = {b"hold": b"h"}
    replies: dict[str, list[object]] = {
        # Two elements, as there was no third one: the cursor and the entries.
        "XAUTOCLAIM": [
            [b"7-0", [(b"5-0", fields), (None, None)]],
            [b"0-0", [(b"8-0", fields)]],
        ],
        # What is ours by now: 5-0 and 8-0 are there, the others have expired.
        "XREADGROUP": [
            [[KEY.encode(), [(b"5-0", fields), (b"6-0", None)]]],
            [[KEY.encode(), [(b"7-0", {}), (b"8-0", fields)]]],
            [[KEY.encode(), []]],
        ],
    }
    after: list[str] = []

    async def call(_client: object, commands: Sequence[Sequence[str]]) -> list[object]:
        after.extend(each[-1] for each in commands if each[0] == "XREADGROUP")
        return [replies[each[0]].pop(0) for each in commands]

    monkeypatch.setattr("tokenweir.export.streams.call", call)
    taken, cursors = await streams.abandoned({TAG: START}, 2, 0)
    assert names(taken) == ["h"]
    more, left = await streams.abandoned(cursors, 2, 0)
    await streams.close()

    assert (cursors, left) == ({TAG: "7-0"}, {})
    assert [(each.entry, each.fields) for each in more] == [
        ("8-0", fields),
        ("6-0", None),
        ("7-0", None),
    ]
    assert after == [START, "6-0", "8-0"]
    assert replies == {"XAUTOCLAIM": [], "XREADGROUP": []}


async def test_entries_that_nobody_saw(url: str, streams: Streams) -> None:
    """What expired before the group had read it is counted."""
    put(url, HOLDS)
    await streams.join()
    assert await streams.skipped() == 0
    await streams.new(streams.joined, 100)
    assert await streams.skipped() == 0
    put(url, HOLDS)
    with redis.Redis.from_url(url) as client:
        for tenant in TENANTS:
            client.xtrim(records(tag_of(tenant)), maxlen=1, approximate=False)

    assert await streams.skipped() == 20 - len(TENANTS)


async def test_a_stream_that_goes(url: str, streams: Streams) -> None:
    """A stream that expires, group and all, is read from its start when it is back."""
    put(url, HOLDS)
    await streams.join()
    await streams.new(streams.joined, 100)
    with redis.Redis.from_url(url) as client:
        client.flushall()
    put(url, HOLDS[:2])
    assert await streams.skipped() == 0
    await streams.rewind()
    await streams.leave()
    assert await streams.new(streams.joined, 100) == []
    assert await streams.mine(streams.joined, 100) == []
    await streams.join()

    assert names(await streams.new(streams.joined, 100)) == ["h0", "h1"]


async def test_from_the_start(url: str, streams: Streams) -> None:
    """What was exported long ago can be had once more."""
    put(url, HOLDS)
    await streams.join()
    await streams.acknowledge(
        (each.tag, each.entry) for each in await streams.new(streams.joined, 100)
    )
    await streams.rewind()

    assert names(await streams.new(streams.joined, 100)) == sorted(HOLDS)


async def test_leaving(url: str, streams: Streams) -> None:
    """Who leaves is no consumer any more."""
    put(url, HOLDS)
    await streams.join()
    found = await streams.new(streams.joined, 100)
    await streams.acknowledge((each.tag, each.entry) for each in found)
    await streams.leave()
    with redis.Redis.from_url(url) as client:
        assert client.xinfo_consumers(KEY, GROUP) == []


async def test_names_of_the_dead(
    url: str, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that nobody uses any more go; whoever has something in hand stays."""
    monkeypatch.setattr("tokenweir.export.streams.GONE_MS", 0)
    put(url, HOLDS[:7])
    for name in ("dead", "busy"):
        other = Streams(url, GROUP, name)
        await other.join()
        await other.new(other.joined, 1)
        if name == "dead":
            taken = await other.mine(other.joined, 1)
            await other.acknowledge((each.tag, each.entry) for each in taken)
            put(url, HOLDS[:7])
        await other.close()
    await streams.join()
    await streams.tidy()
    with redis.Redis.from_url(url) as client:
        names_left = {str(each["name"]) for each in client.xinfo_consumers(KEY, GROUP)}
        client.flushall()
    assert names_left == {"b'busy'"}
    await streams.tidy()


async def test_a_key_of_another_kind(url: str, streams: Streams) -> None:
    """What is no stream is told by the server's word, and not taken for nothing."""
    with redis.Redis.from_url(url) as client:
        client.set(KEY, "x")
    with pytest.raises(LedgerUnavailableError, match="WRONGTYPE"):
        await streams.join()


async def test_a_ledger_that_is_away(tmp_path: Path) -> None:
    """Nobody there is told in a word."""
    away = Streams(f"unix://{tmp_path}/none.sock", GROUP, "c")
    with pytest.raises(LedgerUnavailableError, match="ConnectionError"):
        await away.join()
    await away.disconnect()
    await away.close()


async def test_a_ledger_that_is_silent(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that accepts and says nothing is away after a while."""
    monkeypatch.setattr("tokenweir.export.streams.DEADLINE_SECONDS", 0.2)
    streams = Streams(own_server.url, GROUP, "c")
    own_server.pause()
    try:
        with pytest.raises(LedgerUnavailableError, match="TimeoutError"):
            await streams.join()
    finally:
        own_server.resume()
    await streams.disconnect()
    await asyncio.sleep(0)
    await streams.close()
