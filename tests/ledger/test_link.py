"""Deadlines and faults on the way to a server. Cases of the field by number."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from tests.ledger.builders import Recorder
from tests.pod import until
from tests.relay import relay_to
from tests.servers import Server, start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ledger import link as module
from tokenweir.ledger import scripts
from tokenweir.ledger.address import LedgerUrlError
from tokenweir.ledger.link import Link
from tokenweir.ledger.node import BATCH, MAX_CONNECTIONS, Node
from tokenweir.ledger.pool import CONNECT_SECONDS
from tokenweir.ledger.scripts import LEASE, Script

# Far beyond what a healthy server needs, on a machine that others use too.
PATIENCE = 30.0


@pytest.fixture
async def link(own_server: Server, events: Recorder) -> AsyncIterator[Link]:
    """A link to a server of its own."""
    link = Link(own_server.url, events, deadline_seconds=PATIENCE)
    yield link
    await link.close()


@pytest.fixture
def successor(tmp_path: Path) -> Iterator[Server]:
    """The server that takes over."""
    server = start_valkey(tmp_path)
    yield server
    server.stop()


def script(source: str) -> Script:
    """A script of that source."""
    made = scripts.script_of("test", source)
    assert made.source == source
    return made


def admin(server: Server, *command: str) -> object:
    """Give the server an operator's command."""
    with redis.Redis.from_url(server.url) as client:
        execute = client.execute_command
        return execute(*command)


async def test_a_script_runs_on_its_key_and_arguments(link: Link) -> None:
    """
    The answer is what the script returned, text as bytes.
    """
    echo = script("return {KEYS[1], ARGV[1], 7}")

    assert await link.run(echo, "k", ["ä \ud800", 5]) == [b"k", "ä ?".encode(), 7]


async def test_an_unknown_script_is_sent_along(
    link: Link, own_server: Server, events: Recorder
) -> None:
    """
    After SCRIPT FLUSH the next call works, and is counted once (L14).
    """
    count = script("return redis.call('INCR', KEYS[1])")
    assert await link.run(count, "k", []) == 1
    admin(own_server, "SCRIPT", "FLUSH")

    assert await link.run(count, "k", []) == 2
    assert events.calls == [("test", False), ("test", False)]


async def test_a_restarted_server_is_found_again(
    link: Link, own_server: Server
) -> None:
    """
    Connections and scripts of the old server are not missed.
    """
    assert await link.run(LEASE, "k", ["a", 1_000]) == 1
    own_server.restart()
    for _ in range(2):
        try:
            assert await link.run(LEASE, "k", ["b", 1_000]) == 1
            break
        except LedgerUnavailableError:
            continue  # it was told on the first that the connection had broken
    else:
        pytest.fail("not found again")


async def test_a_demoted_server_is_left(
    own_server: Server, successor: Server, events: Recorder, tmp_path: Path
) -> None:
    """
    READONLY drops the connections: the next are to whoever has the address (L16).
    """
    address = tmp_path / "address.sock"
    address.symlink_to(own_server.path)
    link = Link(f"unix://{address}", events, deadline_seconds=PATIENCE)
    count = script("return redis.call('INCRBY', KEYS[1], 5)")
    assert await link.run(count, "k", []) == 5
    admin(own_server, "REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(LedgerUnavailableError):
        await link.run(count, "k", [])
    await link.read([("PING",)])  # there is a connection to the replica
    address.unlink()
    address.symlink_to(successor.path)

    # This very call meets the replica first, and is repeated at the successor.
    assert await link.run(count, "k", []) == 5
    assert [failed for _, failed in events.calls] == [False, True, False, False]
    assert events.faults == []
    await link.close()


async def test_old_servers_say_readonly_inside_an_error(
    link: Link, events: Recorder
) -> None:
    """
    Before Redis 7 a script's error carries the server's state in its text.
    """
    wrapped = "ERR Error running script: @user_script: 1: -READONLY You can't write"
    old = script(f'redis.call("INCR", KEYS[1]) return redis.error_reply("{wrapped}")')
    with pytest.raises(LedgerUnavailableError):
        await link.run(old, "k", [])

    assert await link.read([("GET", "k")]) == [b"2"]
    assert events.faults == []


async def test_a_paused_server_is_given_up_in_time(
    own_server: Server, events: Recorder
) -> None:
    """
    A server that accepts and never answers costs the deadline, not more (L17).
    """
    link = Link(own_server.url, events, deadline_seconds=0.2)
    own_server.pause()
    started = time.monotonic()
    with pytest.raises(LedgerUnavailableError):
        await link.run(LEASE, "k", ["a", 1_000])
    waited_seconds = time.monotonic() - started
    own_server.resume()

    assert 0.15 < waited_seconds < 5
    assert events.calls == [("lease", True)]
    assert events.seconds >= 0.15
    for _ in range(100):
        try:
            await link.ping()
            break
        except LedgerUnavailableError:
            continue
    await link.close()


async def test_what_nobody_waits_for_has_more_time(
    own_server: Server, events: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A patient call outlives the deadline of those that exchanges wait for.
    """
    monkeypatch.setattr(module, "PATIENT_SECONDS", PATIENCE)
    link = Link(own_server.url, events, deadline_seconds=0.2)
    own_server.pause()
    call = asyncio.create_task(link.run(LEASE, "k", ["a", 60_000], patient=True))
    with pytest.raises(LedgerUnavailableError):
        await link.run(LEASE, "another", ["b", 60_000])
    assert not call.done()
    own_server.resume()

    assert await call == 1
    await link.close()


async def test_calls_that_time_out_lose_no_connection(
    own_server: Server, events: Recorder
) -> None:
    """
    After any number of timeouts, whoever comes next finds a connection.

    And nobody waits for longer than the deadline, however many are connecting.
    """
    link = Link(own_server.url, events, deadline_seconds=0.2)
    own_server.pause()
    calls = [link.run(LEASE, "k", ["a", 1_000]) for _ in range(3 * MAX_CONNECTIONS)]
    began = time.monotonic()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    waited_seconds = time.monotonic() - began
    own_server.resume()

    assert all(isinstance(answer, LedgerUnavailableError) for answer in answers)
    assert waited_seconds < CONNECT_SECONDS - 0.5
    node = link._servers
    assert isinstance(node, Node)
    assert not node._free.locked()
    # All but the one that calls share.
    await until(lambda: len(node._pool._in_use_connections) <= 1)
    await link.close()


async def test_a_stopped_server_is_unavailable(link: Link, own_server: Server) -> None:
    """
    Nobody listens: that is known at once (L17).
    """
    own_server.stop()
    for call in (
        link.run(LEASE, "k", ["a", 1_000]),
        link.run_all(LEASE, ["k"], ["a", 1_000]),
        link.read([("GET", "k")]),
        link.ping(),
    ):
        with pytest.raises(LedgerUnavailableError):
            await call


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("LOADING", "BusyLoadingError"),
        ("OOM", "OutOfMemoryError"),
        ("BUSY", "BUSY"),
        ("MASTERDOWN", "MasterDownError"),
        ("MISCONF", "MISCONF"),
        ("NOREPLICAS", "NOREPLICAS"),
        ("NOPERM", "NoPermissionError"),
        ("NOAUTH", "AuthenticationError"),
        ("CLUSTERDOWN", "ClusterDownError"),
        ("ERR Error running script: @user_script: 1: -READONLY", "READONLY"),
    ],
)
async def test_a_server_that_can_not_is_unavailable(
    link: Link, word: str, reason: str, events: Recorder
) -> None:
    """
    Whatever state it says it is in, nothing is ever taken for a permission, and the
    reason is told by its name (L17).
    """
    failing = script(f"return redis.error_reply('{word} try later')")
    with pytest.raises(LedgerUnavailableError):
        await link.run(failing, "k", [])

    assert events.faults == []
    assert events.reasons == [reason]


@pytest.mark.parametrize(
    ("line", "reason", "is_fault"),
    [
        ("-MOVED 1 127.0.0.1:1", "MovedError", False),
        ("-MOVED 3999 :6381", "MovedError", False),
        ("-ASK 1 127.0.0.1:1", "AskError", False),
        ("-MOVED and no more", "ValueError", True),
        ("-CROSSSLOT Keys in request don't hash to the same slot", "", True),
    ],
)
async def test_one_node_of_a_cluster_is_no_ledger(
    tmp_path: Path, line: str, reason: str, is_fault: bool, events: Recorder
) -> None:
    """
    Its redirections are not followed, allow nothing, and keep nobody waiting (L15).
    """

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65_536):
            writer.write(
                b"+OK\r\n" if b"EVALSHA" not in data else f"{line}\r\n".encode()
            )
        writer.close()

    path = tmp_path / "node.sock"
    async with await asyncio.start_unix_server(answer, path):
        link = Link(f"unix://{path}?protocol=2", events, deadline_seconds=PATIENCE)
        with pytest.raises(LedgerUnavailableError):
            await link.run(LEASE, "k", ["a", 1_000])
        await link.close()

    assert events.reasons[0].startswith(reason)
    assert bool(events.faults) is is_fault


async def test_a_server_without_memory_is_unavailable(
    link: Link, own_server: Server, events: Recorder
) -> None:
    """
    A server that may not write any more answers nobody (L17).
    """
    admin(own_server, "CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(LedgerUnavailableError):
        await link.run(script("return redis.call('SET', KEYS[1], 1)"), "k", [])

    assert events.faults == []


async def test_a_broken_script_is_reported_and_allows_nothing(
    link: Link, events: Recorder
) -> None:
    """
    A mistake of ours is a fault that somebody hears of, never an answer (L15).
    """
    broken = script("return redis.call('NO SUCH COMMAND')")
    with pytest.raises(LedgerUnavailableError, match=r"^refused: "):
        await link.run(broken, "k", [])

    ((where, _),) = events.faults
    assert where == "ledger"


async def test_a_lost_reply_is_not_asked_for_again(
    own_server: Server, events: Recorder, tmp_path: Path
) -> None:
    """
    What may have been applied is not repeated behind the caller's back (L14).
    """
    count = script("return redis.call('INCR', KEYS[1])")
    async with relay_to(own_server.path, tmp_path / "relay.sock") as relay:
        link = Link(relay.url, events, deadline_seconds=PATIENCE)
        assert await link.run(count, "k", []) == 1
        relay.drops_replies = True
        with pytest.raises(LedgerUnavailableError):
            await link.run(count, "k", [])
        relay.drops_replies = False

        assert await link.run(count, "k", []) == 3
        await link.close()


async def test_cancelled_callers_leave_no_reply_behind(
    link: Link, events: Recorder
) -> None:
    """
    Who comes next gets its own answer, and every call was applied to its end.
    """
    echo = script("redis.call('INCR', 'n') return ARGV[1]")
    for number in range(100):
        task = asyncio.create_task(link.run(echo, "k", [number]))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        if task.cancel():  # it may have had its answer
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await link.run(echo, "k", [f"next {number}"]) == b"next %d" % number
    await link.close()
    cancelled_before_the_start = sum(number % 7 == 0 for number in range(100))

    assert len(events.calls) == 200 - cancelled_before_the_start
    assert not any(failed for _, failed in events.calls)


async def test_a_call_that_does_not_end(
    own_server: Server, events: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no answer at its deadline, whatever it does about that; nor waits `close`."""
    for seconds in ("CLOSE_SECONDS", "PATIENT_SECONDS"):
        monkeypatch.setattr(module, seconds, 0.05)
    link, over = Link(own_server.url, events, deadline_seconds=0.05), asyncio.Event()

    async def hang(*_: object) -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    monkeypatch.setattr(link._servers, "execute", hang)
    with pytest.raises(LedgerUnavailableError, match="TimeoutError"):
        await link.ping()
    close = link._servers.close
    monkeypatch.setattr(link._servers, "close", hang)
    await link.close()

    (where, _), *others = events.faults
    assert (where, others) == ("ledger", [])
    over.set()
    await close()


async def test_more_calls_than_connections_wait(link: Link, own_server: Server) -> None:
    """
    A burst does not open a connection for each of its calls.
    """
    echo = script("return ARGV[1]")
    answers = await asyncio.gather(*(link.run(echo, "k", [n]) for n in range(200)))

    assert answers == [b"%d" % number for number in range(200)]
    with redis.Redis.from_url(own_server.url) as client:
        assert len(client.client_list()) <= MAX_CONNECTIONS + 1


async def test_many_commands_go_out_in_batches(link: Link, events: Recorder) -> None:
    """
    Answers come in the order of the commands, however many there are.
    """
    commands = [("ECHO", str(number)) for number in range(300)]

    assert await link.read(commands) == [b"%d" % number for number in range(300)]
    assert await link.read([]) == []
    assert events.calls == [("read", False)] * 2


async def test_a_script_runs_for_many_keys(link: Link, own_server: Server) -> None:
    """
    It need not be known to the server before.
    """
    admin(own_server, "SCRIPT", "FLUSH")
    echo = script("return KEYS[1] .. ARGV[1]")

    assert await link.run_all(echo, ["a", "b"], ["!"]) == [b"a!", b"b!"]


async def test_a_script_that_is_forgotten_meanwhile_runs_for_all_keys(
    link: Link, own_server: Server, events: Recorder
) -> None:
    """
    Of more keys than go out at once, none is left out after SCRIPT FLUSH (L14).
    """
    keys = [str(number) for number in range(3 * BATCH)]
    echo = script("return KEYS[1]")
    over = asyncio.Event()

    async def forget() -> None:
        while not over.is_set():
            await asyncio.to_thread(admin, own_server, "SCRIPT", "FLUSH")
            await asyncio.sleep(0.01)

    forgetting = asyncio.create_task(forget())
    # Rarely, it is forgotten between two commands of one batch: then all fails.
    answers: list[object] = []
    while not answers:
        with contextlib.suppress(LedgerUnavailableError):
            answers = await link.run_all(echo, keys, [])
    over.set()
    await forgetting

    assert answers == [key.encode() for key in keys]


async def test_only_redis_urls_are_taken(events: Recorder) -> None:
    """
    A mistyped scheme is found at once.
    """
    with pytest.raises(LedgerUrlError, match="redis://"):
        Link("http://127.0.0.1", events)
    for url in ("redis://127.0.0.1:1/0", "rediss://127.0.0.1:1", "unix:///nowhere"):
        await Link(url, events).close()
