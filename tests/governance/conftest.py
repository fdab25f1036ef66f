"""Servers for the tests of governance."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey
from tokenweir.governance.channel import Channel


@pytest.fixture(scope="session", params=["valkey", "redis"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of each kind, for the whole session."""
    if request.param == "redis" and not REDIS_SERVER.exists():
        pytest.skip(f"{REDIS_SERVER} is not installed")
    start = start_valkey if request.param == "valkey" else start_redis
    server = start(tmp_path_factory.mktemp("governance"))
    yield server
    server.stop()


@pytest.fixture
def client(running: Server) -> Iterator[redis.Redis]:
    """Somebody who may do anything, with an empty server."""
    with redis.Redis.from_url(running.url) as client:
        client.flushall()
        yield client


@pytest.fixture
async def channel(running: Server, client: redis.Redis) -> AsyncIterator[Channel]:
    """A channel on the empty server."""
    async with Channel.open(running.url) as channel:
        yield channel
