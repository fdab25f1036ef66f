"""A ledger for commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.servers import Server, start_valkey


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The packaged Valkey, for the module."""
    server = start_valkey(tmp_path_factory.mktemp("ledger"))
    yield server
    server.stop()


@pytest.fixture
def ledger(server: Server) -> Server:
    """The same, empty."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server
