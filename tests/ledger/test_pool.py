"""Connections that take longer than a call may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NotConnectedError

from tests.ledger.builders import Recorder
from tests.pod import until
from tests.relay import Relay, relay_to
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ledger import pool
from tokenweir.ledger.link import Link
from tokenweir.ledger.pool import PatientPool

# A round trip is well within it, greeting and call together are not.
DEADLINE_SECONDS = 0.3
ROUND_TRIP_SECONDS = 0.2


@pytest.fixture
async def relay(valkey: Server, tmp_path: Path) -> AsyncIterator[Relay]:
    """A way to a server, which tests can make long."""
    async with relay_to(valkey.path, tmp_path / "relay.sock") as made:
        yield made


async def connect(patient: PatientPool) -> None:
    """Have a connection made, and give it back."""
    get: Callable[[], Awaitable[Any]] = patient.get_connection
    await patient.release(await get())


def made_of(patient: PatientPool) -> tuple[int, int]:
    """Return how many connections are free, and how many of them are connected."""
    free = patient._available_connections
    return len(free), sum(bool(each.is_connected) for each in free)


async def test_a_distant_ledger_is_reached_again(
    relay: Relay, events: Recorder
) -> None:
    """
    Where connecting takes longer than a call may, calls fail until it is done, and then
    succeed.
    """
    link = Link(relay.url, events, deadline_seconds=DEADLINE_SECONDS)
    await link.ping()
    relay.delay_seconds = ROUND_TRIP_SECONDS
    await relay.stop()  # the connection is lost
    failures = 0
    while True:
        try:
            await link.ping()
        except LedgerUnavailableError:
            failures += 1
            assert failures < 20
        else:
            break

    assert failures >= 1
    await link.ping()
    await link.close()


async def test_a_connection_is_finished_for_the_next_call(relay: Relay) -> None:
    """It is not free while it is being connected, and is used once it is."""
    patient = PatientPool.from_url(relay.url)
    relay.delay_seconds = ROUND_TRIP_SECONDS
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await connect(patient)
    assert made_of(patient) == (0, 0)
    [connecting] = patient._unfinished.values()
    await connecting
    await asyncio.sleep(0.01)

    assert made_of(patient) == (1, 1)
    await connect(patient)
    assert made_of(patient) == (1, 1)
    await patient.aclose()


async def test_what_can_not_be_connected_is_given_back(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that says nothing keeps a connection for a bounded time."""
    monkeypatch.setattr(pool, "CONNECT_SECONDS", 0.05)
    patient = PatientPool.from_url(relay.url)
    relay.delay_seconds = 60.0

    # Of two that watch the time, either may be the first to say so.
    with pytest.raises((TimeoutError, NotConnectedError)):
        await connect(patient)

    await asyncio.sleep(0.01)
    assert made_of(patient) == (1, 0)
    assert patient._unfinished == {}
    await patient.aclose()


async def test_no_more_than_so_many_are_left_at_work(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound nobody waits: the next attempt is refused at once."""
    monkeypatch.setattr(pool, "MAX_UNFINISHED", 2)
    patient = PatientPool.from_url(relay.url)
    relay.delay_seconds = 60.0
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await connect(patient)
    for _ in range(3):
        with pytest.raises(NotConnectedError):
            await connect(patient)

    assert len(patient._unfinished) == 2
    await patient.aclose()
    assert patient._unfinished == {}
    assert made_of(patient)[1] == 0


async def test_a_refused_connection_is_an_error_at_once(tmp_path: Path) -> None:
    """Where nobody listens, nobody waits, and the next attempt is made afresh."""
    retry = Retry(NoBackoff(), 0)
    patient = PatientPool.from_url(f"unix://{tmp_path / 'nobody'}", retry=retry)
    client = Redis.from_pool(patient)

    for _ in range(3):
        with pytest.raises(NotConnectedError):
            await client.ping()

    assert patient._unfinished == {}
    await client.aclose()


async def test_a_connection_that_the_server_closed_is_made_anew(
    own_server: Server,
) -> None:
    """It is noticed before a call is sent, and connected like a new one."""
    patient = PatientPool.from_url(own_server.url)
    await connect(patient)
    own_server.restart()
    await asyncio.sleep(0.01)
    await connect(patient)

    assert made_of(patient) == (1, 1)
    await patient.aclose()


async def test_a_connection_with_an_answer_to_nobody_is_made_anew(
    own_server: Server,
) -> None:
    """What it has to read would be taken for the answer to the next call."""
    patient = PatientPool.from_url(own_server.url)
    get: Callable[[], Awaitable[Any]] = patient.get_connection
    connection = await get()
    await connection.send_command("PING")
    await until(connection.can_read)
    await patient.release(connection)
    again = await get()
    await again.send_command("ECHO", "x")

    assert await again.read_response() == b"x"
    await patient.release(again)
    await patient.aclose()
