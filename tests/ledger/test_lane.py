"""One connection that many calls share: order, deadlines, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import hiredis
import pytest
from redis.exceptions import ConnectionError as NotConnectedError
from redis.exceptions import MovedError, ResponseError

from tests.ledger.scripted import Scripted, scripted
from tests.pod import until
from tokenweir.ledger.lane import Lane
from tokenweir.ledger.pool import PatientPool

# Far beyond what a healthy server needs, on a machine that others use too.
PATIENCE = 30.0


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Scripted]:
    """Who is at the other end."""
    async with scripted(tmp_path / "peer.sock") as made:
        yield made


@pytest.fixture
async def lane(peer: Scripted) -> AsyncIterator[Lane]:
    """A lane to it."""
    pool = PatientPool.from_url(peer.url)
    get: Callable[[], Any] = pool.get_connection
    made = Lane.over(await get(), lambda _: None)
    yield made
    made.retire()
    await pool.aclose()


def named(name: str) -> bytes:
    """A command that can be told from others."""
    return bytes(hiredis.pack_command((name,)))


async def asked(peer: Scripted, count: int) -> None:
    """Wait until so many commands have come."""
    await until(lambda: peer.heard[0].count(b"*") >= count)


async def test_calls_of_one_turn_are_one_write(lane: Lane, peer: Scripted) -> None:
    """They go out together, and each has the reply that is its own."""
    slots = [lane.send(named(f"c{number}"), PATIENCE) for number in range(50)]
    await asked(peer, 50)
    assert peer.reads == [1]
    peer.writers[0].write(b"".join(b":%d\r\n" % number for number in range(50)))

    assert await asyncio.gather(*slots) == list(range(50))


async def test_replies_may_be_cut_anywhere(lane: Lane, peer: Scripted) -> None:
    """However they come, they are the same."""
    replies = b"$4\r\na\r\nb\r\n*2\r\n:1\r\n*1\r\n+x\r\n-ERR no\r\n:3\r\n"
    slots = [lane.send(named("c"), PATIENCE) for _ in range(4)]
    await asked(peer, 4)
    for number in range(len(replies)):
        peer.writers[0].write(replies[number : number + 1])
        await peer.writers[0].drain()
        await asyncio.sleep(0)
    found = await asyncio.gather(*slots, return_exceptions=True)

    assert found[:2] == [b"a\r\nb", [1, [b"x"]]]
    assert isinstance(found[2], ResponseError)
    assert found[3] == 3


async def test_a_cancelled_call_touches_no_other(lane: Lane, peer: Scripted) -> None:
    """Its reply is dropped in its order; its heir is told, if it has one."""
    told: list[Any] = []
    first = lane.send(named("a"), PATIENCE)
    second = lane.send(named("b"), PATIENCE, told.append)
    third = lane.send(named("c"), PATIENCE, told.append)
    first.cancel()
    second.cancel()
    await asked(peer, 3)
    peer.writers[0].write(b":1\r\n:2\r\n:3\r\n")

    assert await third == 3
    assert told == [2]


async def test_a_late_reply_is_dropped_in_its_order(lane: Lane, peer: Scripted) -> None:
    """After a deadline the connection is as good as before, if the server speaks."""
    late = lane.send(named("late"), 0.05)
    prompt = lane.send(named("prompt"), PATIENCE)
    await asked(peer, 2)
    peer.writers[0].write(b"+")  # something is heard, but no reply
    with pytest.raises(TimeoutError):
        await late
    assert lane.is_open
    peer.writers[0].write(b"late\r\n+prompt\r\n")

    assert await prompt == b"prompt"
    again = lane.send(named("again"), PATIENCE)
    peer.writers[0].write(b"+again\r\n")
    assert await again == b"again"


async def test_a_silent_connection_is_retired(lane: Lane, peer: Scripted) -> None:
    """Once a call has waited in vain, and nobody waits any more, it is closed."""
    patient = lane.send(named("patient"), PATIENCE)
    with pytest.raises(TimeoutError):
        await lane.send(named("hasty"), 0.05)
    assert not lane.is_open
    assert not patient.done()
    peer.writers[0].write(b"+patient\r\n")

    assert await patient == b"patient"
    await lane.closed()


async def test_deadlines_of_any_order(lane: Lane, peer: Scripted) -> None:
    """Each call has its own; whoever was cancelled leaves its heir in no doubt."""
    told: list[Any] = []
    calls = [lane.send(named("c"), seconds) for seconds in (0.2, 0.05, 0.1)]
    gone = lane.send(named("gone"), 0.05, told.append)
    gone.cancel()
    found = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(each) for each in found] == [TimeoutError] * 3
    assert [type(each) for each in told] == [TimeoutError]
    assert peer.heard[0].count(b"*") == 4
    await lane.closed()


async def test_a_lost_connection_ends_all_its_calls(lane: Lane, peer: Scripted) -> None:
    """Each is told, heirs too, and nobody waits for the deadline."""
    told: list[Any] = []
    calls = [lane.send(named("c"), PATIENCE) for _ in range(3)]
    lane.send(named("gone"), PATIENCE, told.append).cancel()
    await asked(peer, 4)
    peer.writers[0].close()
    found = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(each) for each in (*found, *told)] == [NotConnectedError] * 4
    await lane.closed()
    assert not lane.is_open


@pytest.mark.parametrize("nonsense", [b":1\r\n:2\r\n", b":1\r\n?what\r\n"])
async def test_what_nobody_asked_for_ends_the_connection(
    lane: Lane, peer: Scripted, nonsense: bytes
) -> None:
    """From then on replies could belong to other calls."""
    call = lane.send(named("c"), PATIENCE)
    await asked(peer, 1)
    peer.writers[0].write(nonsense)

    assert await call == 1
    await lane.closed()


async def test_errors_are_what_they_say(lane: Lane, peer: Scripted) -> None:
    """They are redis-py's own; one that can't be read is told as such."""
    calls = [lane.send(named("c"), PATIENCE) for _ in range(3)]
    await asked(peer, 3)
    peer.writers[0].write(b"-MOVED 7 h:1\r\n-MOVED and no more\r\n-ERR \xff\r\n")
    moved, unreadable, other = await asyncio.gather(*calls, return_exceptions=True)

    assert isinstance(moved, MovedError)
    assert (moved.host, moved.port) == ("h", 1)
    assert isinstance(unreadable, ValueError)
    assert isinstance(other, ResponseError)


async def test_news_is_no_reply(lane: Lane, peer: Scripted) -> None:
    """What RESP3 servers push is left out."""
    call = lane.send(named("c"), PATIENCE)
    await asked(peer, 1)
    peer.writers[0].write(b">2\r\n+invalidate\r\n*0\r\n:1\r\n")

    assert await call == 1


async def test_asking_goes_before(lane: Lane, peer: Scripted) -> None:
    """Its reply is nobody's, whatever it is."""
    calls = [
        lane.send(named("GO"), PATIENCE, is_asking=True),
        lane.send(named("ON"), PATIENCE),
    ]
    await asked(peer, 3)
    assert peer.heard[0].split(b"\r\n")[2::3] == [b"ASKING", b"GO", b"ON"]
    peer.writers[0].write(b"-ERR unknown\r\n:1\r\n:2\r\n")

    assert await asyncio.gather(*calls) == [1, 2]
