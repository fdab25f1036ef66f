"""Servers, empty databases and stores for the ledger's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from tests.ledger.builders import Clock, Recorder
from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.redis import RedisStore

Store = MemoryStore | RedisStore

# Far beyond what a healthy server needs, on a machine that others use too.
PATIENCE = 30.0


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The packaged Valkey, for the whole session."""
    server = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Debian's Redis, for the whole session."""
    if not REDIS_SERVER.exists():
        pytest.skip(f"needs Debian's Redis at {REDIS_SERVER}")
    server = start_redis(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def valkey(valkey_server: Server) -> Server:
    """The packaged Valkey, empty."""
    empty(valkey_server)
    return valkey_server


@pytest.fixture
def debian_redis(redis_server: Server) -> Server:
    """Debian's Redis, empty."""
    empty(redis_server)
    return redis_server


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Valkey that a test may pause, restart or break."""
    server = start_valkey(tmp_path_factory.mktemp("own"))
    yield server
    server.stop()


@pytest.fixture
def clock() -> Clock:
    """What the stores take for the time."""
    return Clock()


@pytest.fixture
def events() -> Recorder:
    """What the stores report."""
    return Recorder()


@pytest.fixture(params=["memory", "valkey", "redis"])
async def store(
    request: pytest.FixtureRequest, clock: Clock, events: Recorder
) -> AsyncIterator[Store]:
    """Each implementation of a store, empty, under a clock that tests set."""
    made: Store
    if request.param == "memory":
        made = MemoryStore(events, now_ms=clock)
    else:
        server = "valkey" if request.param == "valkey" else "debian_redis"
        url = request.getfixturevalue(server).url
        made = RedisStore(url, events, deadline_seconds=10, now_ms=clock)
    yield made
    await made.close()


@pytest.fixture(params=["valkey", "debian_redis"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each server, empty."""
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """A stranger with a connection."""
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        yield client


@pytest.fixture
async def live(server: Server, events: Recorder) -> AsyncIterator[RedisStore]:
    """A store that goes by the server's own clock."""
    store = RedisStore(server.url, events, deadline_seconds=PATIENCE)
    yield store
    await store.close()


def empty(server: Server) -> None:
    """Remove every key of *server*."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
