"""Which connection calls share, before one is there and after one is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import hiredis
import pytest
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NotConnectedError

from tests.ledger.scripted import Scripted, scripted
from tests.pod import until
from tokenweir.ledger import lanes as module
from tokenweir.ledger.lanes import Lanes
from tokenweir.ledger.pool import PatientPool

PATIENCE = 30.0
COMMAND = bytes(hiredis.pack_command(("C",)))


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Scripted]:
    """Who is at the other end."""
    async with scripted(tmp_path / "peer.sock") as made:
        yield made


@pytest.fixture
async def pool(peer: Scripted) -> AsyncIterator[PatientPool]:
    """Connections to it."""
    made = PatientPool.from_url(peer.url, retry=Retry(NoBackoff(), 0))
    yield made
    await made.aclose()


@pytest.fixture
async def lanes(pool: PatientPool) -> AsyncIterator[Lanes]:
    """Lanes to it."""
    made = Lanes(pool)
    yield made
    await made.close()


async def test_whoever_comes_at_once_shares_one(lanes: Lanes, peer: Scripted) -> None:
    """And whoever comes later finds it there."""
    assert lanes.current is None
    found = await asyncio.gather(*(lanes.open() for _ in range(20)))

    assert set(found) == {lanes.current}
    assert await lanes.open() is found[0]
    assert len(peer.writers) == 1


async def test_a_caller_who_is_cancelled_leaves_it_to_others(
    lanes: Lanes, peer: Scripted
) -> None:
    """What was begun for one is finished for the next."""
    first, second = (asyncio.create_task(lanes.open()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert await second is lanes.current
    assert len(peer.writers) == 1


async def test_a_lost_one_is_replaced(
    lanes: Lanes, pool: PatientPool, peer: Scripted
) -> None:
    """Though it was lost while nobody used it; and that counts as a loss."""
    lane = await lanes.open()
    losses = pool.losses
    peer.writers[0].close()
    await lane.closed()
    assert lanes.current is None
    assert pool.losses > losses

    assert await lanes.open() is not lane
    # The lost one has been given back, and was connected anew.
    assert len(pool._in_use_connections) == 1


async def test_an_outdated_one_ends_its_calls(
    lanes: Lanes, pool: PatientPool, peer: Scripted
) -> None:
    """Nothing is sent on it any more, but what is under way is heard to the end."""
    lane = await lanes.open()
    call = lane.send(COMMAND, PATIENCE)
    losses = pool.losses
    await pool.outdate(1e12)
    lanes.leave_outdated()
    assert lanes.current is None
    assert pool.losses > losses
    assert not call.done()
    await lanes.open()
    peer.writers[0].write(b":7\r\n")

    assert await call == 7
    await lane.closed()
    assert len(peer.writers) == 2


async def test_one_that_takes_long_is_overtaken(
    lanes: Lanes, peer: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that never comes about keeps nobody for long."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    peer.is_mute = True
    stuck = asyncio.create_task(lanes.open())
    await until(lambda: len(peer.writers) == 1)
    await asyncio.sleep(0.06)
    peer.is_mute = False
    lane = await lanes.open()
    assert not stuck.done()
    peer.writers[0].write(b"+OK\r\n" * 2)  # at last

    assert await stuck is lane
    assert lanes.current is lane


async def test_all_are_told_why_there_is_none(tmp_path: Path) -> None:
    """Where nobody listens that is known at once, to everybody who waits."""
    retry = Retry(NoBackoff(), 0)
    pool = PatientPool.from_url(f"unix://{tmp_path / 'nobody'}", retry=retry)
    lanes = Lanes(pool)
    found = await asyncio.gather(
        *(lanes.open() for _ in range(3)), return_exceptions=True
    )

    assert [type(each) for each in found] == [NotConnectedError] * 3
    await lanes.close()
    await pool.aclose()


async def test_closing_waits_for_calls(lanes: Lanes, peer: Scripted) -> None:
    """Who waits for a connection is told that there will be none."""
    lane = await lanes.open()
    call = lane.send(COMMAND, PATIENCE)
    closing = asyncio.create_task(lanes.close())
    await until(lambda: peer.heard[0] == COMMAND)
    assert not closing.done()
    peer.writers[0].write(b":7\r\n")
    await closing

    assert await call == 7


async def test_closing_gives_up_what_is_not_connected(
    lanes: Lanes, peer: Scripted
) -> None:
    """Who waits for it is told."""
    peer.is_mute = True
    waiting = asyncio.create_task(lanes.open())
    await until(lambda: len(peer.writers) == 1)
    await lanes.close()

    with pytest.raises(NotConnectedError):
        await waiting
