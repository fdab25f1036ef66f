"""Servers for the exporter's tests."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import redis

from tests.export.postgres_server import PostgresServer, binaries
from tests.servers import Server, start_valkey


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The packaged Valkey, for the whole session."""
    server = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield server
    server.stop()


@pytest.fixture
def valkey(valkey_server: Server) -> Server:
    """The packaged Valkey, empty."""
    with redis.Redis.from_url(valkey_server.url) as client:
        client.flushall()
    return valkey_server


@pytest.fixture
def client(valkey: Server) -> Iterator[redis.Redis]:
    """A stranger with a connection to it."""
    with redis.Redis.from_url(valkey.url, decode_responses=True) as client:
        yield client


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Valkey that a test may pause or restart."""
    server = start_valkey(tmp_path_factory.mktemp("own"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL, for the whole session."""
    found = binaries()
    if found is None:
        pytest.skip("needs Debian's package postgresql: .ci/apt postgresql")
    server = PostgresServer(found)
    yield server
    server.remove()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> PostgresServer:
    """The PostgreSQL, empty."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")
    return postgres_server
