"""A server that would drop levels and holds is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
import redis

from tests.ledger.builders import Recorder
from tests.ledger.conftest import PATIENCE
from tests.pod import until
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ledger.eviction import EvictionWatch
from tokenweir.ledger.redis import RedisStore


class Asked:
    """Answers what it was told to, one after the other; the last one for ever."""

    def __init__(self, *answers: str | Exception | None) -> None:
        self._answers = list(answers)
        self.times = 0

    async def __call__(self) -> str | None:
        """Answer, or raise."""
        self.times += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def unlimited(client: redis.Redis) -> Iterator[redis.Redis]:
    """A stranger who may limit the server's memory; the limits go with the test."""
    yield client
    client.config_set("maxmemory", "0")
    client.config_set("maxmemory-policy", "noeviction")


@pytest.mark.parametrize(
    ("limit", "policy", "told"),
    [
        ("0", "noeviction", ""),
        ("0", "allkeys-lru", ""),
        ("1gb", "noeviction", ""),
        ("1gb", "allkeys-lru", "allkeys-lru"),
        ("1gb", "volatile-ttl", "volatile-ttl"),
    ],
)
async def test_a_server_tells_what_it_drops(
    live: RedisStore, unlimited: redis.Redis, limit: str, policy: str, told: str
) -> None:
    """
    With a limit and any policy but one keys are dropped: all of ours have an expiry.
    """
    unlimited.config_set("maxmemory", limit)
    unlimited.config_set("maxmemory-policy", policy)

    assert await live.eviction() == told


async def test_a_server_that_does_not_tell_is_no_fault(
    server: Server, client: redis.Redis, events: Recorder
) -> None:
    """
    A user without the right to ask is told nothing, and nothing is made of it.
    """
    as_admin: Callable[..., object] = client.execute_command
    as_admin("ACL", "SETUSER", "mute", "reset", "on", ">pw", "+@connection")
    url = server.url.replace("unix://", "unix://mute:pw@")
    store = RedisStore(url, events, deadline_seconds=PATIENCE)
    told = await store.eviction()
    await store.close()
    as_admin("ACL", "DELUSER", "mute")

    assert told is None
    assert events.faults == []
    assert events.calls == [("info", False)]


async def test_each_answer_is_told(events: Recorder) -> None:
    """
    Of a server that gives none, or does not tell, nothing is said.
    """
    watch = EvictionWatch(
        Asked(LedgerUnavailableError("x"), None, "allkeys-lru", ""), events
    )
    for _ in range(4):
        await watch.look()

    assert events.evictions == ["allkeys-lru", ""]
    assert events.faults == []


async def test_a_watch_survives_a_fault(events: Recorder) -> None:
    """
    What is not foreseen is reported, and asked for again.
    """
    asked = Asked(ValueError("x"), "allkeys-lru")
    watch = EvictionWatch(asked, events, interval_seconds=0.001)
    watch.start()
    await until(lambda: events.evictions)
    await watch.stop()
    times = asked.times
    await asyncio.sleep(0.01)

    assert [where for where, _ in events.faults] == ["eviction"]
    assert asked.times == times


async def test_a_watch_may_be_stopped_before_it_began(events: Recorder) -> None:
    """
    A processor that could not start stops all that it has.
    """
    await EvictionWatch(Asked(""), events).stop()

    assert events.evictions == []
