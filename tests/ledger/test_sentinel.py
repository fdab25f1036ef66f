"""The ledger follows the primary that Sentinels name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.fleet import SERVICE, SentinelFleet, ports, sentinel_fleet
from tests.ledger.builders import Recorder
from tests.ledger.conftest import PATIENCE
from tests.ledger.load import RATE_PER_SECOND, Load, books_of
from tests.pod import until
from tests.servers import start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ledger import sentinel
from tokenweir.ledger.address import address_of
from tokenweir.ledger.link import Link
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.sentinel import PrimaryUnknownError, Sentinels
from tokenweir.ledger.servers import connect

TAGS = ("tw:001", "tw:002", "tw:003")
DEADLINE_SECONDS = 0.2
HOLD_MS = 1_000


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelFleet]:
    """A primary, a replica, and three Sentinels."""
    with sentinel_fleet(tmp_path_factory.mktemp("sentinel")) as made:
        yield made


@pytest.fixture
def two_servers(tmp_path: Path) -> Iterator[list[int]]:
    """The ports of two servers that know nothing of each other."""
    found = ports(2)
    with contextlib.ExitStack() as stack:
        for port in found:
            server = start_valkey(tmp_path, "--port", str(port), "--bind", "127.0.0.1")
            stack.callback(server.stop)
        yield found


def nobody() -> str:
    """Return an address that nobody listens at."""
    (port,) = ports(1)
    return f"127.0.0.1:{port}"


async def test_a_sentinel_that_is_gone_keeps_nobody_waiting(
    fleet: SentinelFleet, events: Recorder
) -> None:
    """The next one in the URL is asked."""
    url = fleet.url.replace("://", f"://{nobody()},")
    link = Link(url, events, deadline_seconds=PATIENCE)
    assert await link.read([("ECHO", "x")]) == [b"x"]
    await link.ping()

    assert events.reasons == []
    await link.close()


async def test_many_connections_ask_once(fleet: SentinelFleet) -> None:
    """A reconnect of all is no storm for the Sentinels."""
    sentinels = Sentinels(address_of(fleet.url))
    found = await asyncio.gather(*(sentinels.primary() for _ in range(50)))
    assert set(found) == {("127.0.0.1", fleet.primary().port)}
    (connections, *rest) = [
        len(node._pool._available_connections) for node in sentinels._nodes
    ]

    assert connections == 1
    assert rest == [0, 0]
    await sentinels.close()


async def test_a_question_that_never_ends(
    fleet: SentinelFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever becomes of it, the next Sentinel is asked: everybody waits for that."""
    sentinels, over = Sentinels(address_of(fleet.url)), asyncio.Event()

    async def hang(*_: object) -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    first = sentinels._nodes[0]
    monkeypatch.setattr(first, "execute", hang)

    assert await sentinels.primary() == ("127.0.0.1", fleet.primary().port)
    assert sentinels._nodes[0] is not first
    over.set()
    await sentinels.close()


@pytest.mark.parametrize("hosts", ["nobody", "fleet"])
async def test_without_a_primary_there_is_no_ledger(
    fleet: SentinelFleet, hosts: str, events: Recorder
) -> None:
    """No Sentinel answers, or none knows the service: that is told by name."""
    url = f"redis+sentinel://{nobody()}/m"
    if hosts == "fleet":
        url = fleet.url.replace(f"/{SERVICE}", "/unknown")
    link = Link(url, events, deadline_seconds=PATIENCE)
    with pytest.raises(LedgerUnavailableError, match=PrimaryUnknownError.__name__):
        await link.ping()

    assert events.reasons == [PrimaryUnknownError.__name__]
    assert events.faults == []
    await link.close()


async def test_a_new_primary_is_followed_though_the_old_one_answers(
    two_servers: list[int], events: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections to the former are left once Sentinels name another."""
    monkeypatch.setattr(sentinel, "WATCH_SECONDS", 0.0)
    async with told_by([two_servers[0]]) as (told, url):
        link = Link(url, events, deadline_seconds=PATIENCE)

        async def where() -> int:
            (told,) = await link.info("server")
            return int(told["tcp_port"])

        assert await where() == two_servers[0]
        told[0] = two_servers[1]
        await until(lambda: is_at(where, two_servers[1]))
        await link.close()
    assert events.reasons == []


async def test_another_primary_is_a_loss_without_any_connection(
    two_servers: list[int], events: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the former had taken last is said again, though none to it is left to lose."""
    monkeypatch.setattr(sentinel, "WATCH_SECONDS", 3_600.0)
    async with told_by([two_servers[0]]) as (told, url):
        servers = connect(url)
        await servers.execute("PING")
        await servers._pool.disconnect()  # type: ignore[attr-defined]
        before = servers.losses
        await servers.execute("PING")
        assert servers.losses == before
        await servers._pool.disconnect()  # type: ignore[attr-defined]
        told[0] = two_servers[1]
        await servers.execute("PING")

        assert servers.losses == before + 1
        await servers.close()
    assert events.reasons == []


async def test_the_first_sentinel_that_has_news_is_followed() -> None:
    """Those that are behind have none; and none goes back for one that stays behind."""
    async with told_by([1, 1, 1]) as (told, url):
        sentinels = Sentinels(address_of(url))
        found = []
        for told[:] in ([1, 1, 1], [1, 1, 2], [1, 2, 2], [1, 2, 2], [1, 1, 1]):
            await sentinels.look()
            assert sentinels.named is not None
            assert await sentinels.primary() == sentinels.named
            found.append(sentinels.named[1])
        await sentinels.close()

    assert found == [1, 2, 2, 2, 1]


async def test_most_sentinels_together_are_right(events: Recorder) -> None:
    """A Sentinel that was asked first, and is cut off from the others, is outvoted."""
    async with told_by([7, 1, 1]) as (told, url):
        sentinels = Sentinels(address_of(url))
        assert await sentinels.primary() == ("127.0.0.1", 7)
        told[0] = None
        await sentinels.look()

        assert sentinels.named == ("127.0.0.1", 1)
        await sentinels.close()
    assert events.faults == []


@contextlib.asynccontextmanager
async def told_by(
    ports_told: Sequence[int | None],
) -> AsyncIterator[tuple[list[int | None], str]]:
    """Run Sentinels that name these ports, which may be changed; none: no answer."""
    told = list(ports_told)

    def answering(number: int) -> Callable[..., Awaitable[None]]:
        async def answer(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            while data := await reader.read(65_536):
                port = told[number]
                if port is None:
                    break
                named = f"*2\r\n$9\r\n127.0.0.1\r\n${len(str(port))}\r\n{port}\r\n"
                is_asked = b"SENTINEL" in data
                reply = named.encode() if is_asked else b"+OK\r\n" * data.count(b"*")
                writer.write(reply)
            writer.close()

        return answer

    async with contextlib.AsyncExitStack() as stack:
        hosts = []
        for number in range(len(told)):
            listener = await asyncio.start_server(answering(number), "127.0.0.1", 0)
            await stack.enter_async_context(listener)
            hosts.append(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        yield told, f"redis+sentinel://{','.join(hosts)}/m?protocol=2"


async def is_at(where: Callable[[], Awaitable[int]], port: int) -> bool:
    """Tell if the link is at *port*."""
    return await where() == port


async def test_a_planned_failover_under_load(tmp_path: Path, events: Recorder) -> None:
    """
    After SENTINEL FAILOVER the former primary goes on taking what the new one never hears
    of. Nothing is lost: all that it took is said again.
    """
    with sentinel_fleet(tmp_path) as fleet:
        store = RedisStore(fleet.url, events, deadline_seconds=PATIENCE)
        load, over = Load(store, TAGS, is_repeated=True), asyncio.Event()
        running = asyncio.create_task(load.run_until(over))
        await until(lambda: load.settled >= 100)
        await asyncio.to_thread(fleet.fail_over)
        before = load.settled
        await until(lambda: load.settled >= before + 100)
        over.set()
        await running
        await load.flush()

        async def is_told() -> bool:
            await store.ping()  # as a sweeper looks at any ledger, every few seconds
            return (await books_of(load)).recorded >= load.settled

        await until(is_told)
        await load.flush()
        books = await books_of(load)
        assert books.spent == books.recorded == load.settled
        assert (books.reserved, books.slots, books.held) == (0, 0, 0)
        assert events.faults == []
        await store.close()


async def test_failover_under_load(fleet: SentinelFleet, events: Recorder) -> None:
    """
    The primary dies under 200 exchanges a second: each has its answer in time, nothing
    is charged twice, and nothing stays reserved.
    """
    store = RedisStore(
        fleet.url, events, deadline_seconds=DEADLINE_SECONDS, hold_ms=HOLD_MS
    )
    load, over = Load(store, TAGS), asyncio.Event()
    running = asyncio.create_task(load.run_until(over))
    await until(lambda: load.settled >= 100)
    former, before = fleet.primary(), load.settled
    former.server.stop()
    await until(lambda: load.refused > 0)
    await until(lambda: fleet.primary() is not former)
    refused = load.refused
    await until(lambda: load.settled >= before + 100)
    over.set()
    await running
    await load.flush()

    async def is_swept() -> bool:
        await store.sweep(TAGS)
        return (await books_of(load)).held == 0

    await until(is_swept)
    books = await books_of(load)
    assert refused > 0
    assert load.slowest_seconds < DEADLINE_SECONDS + 5
    assert (books.reserved, books.slots) == (0, 0)
    assert books.spent == books.recorded <= load.settled
    # What a replica had not heard of when its primary died is all that may be missing.
    assert books.spent >= load.settled - RATE_PER_SECOND
    assert events.faults == []
    await store.close()
