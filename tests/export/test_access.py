"""An exporter's Redis user of deploy/redis can export, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.export.ledgers import GROUP, TENANTS, MemorySink, Told, export_once, put
from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey
from tokenweir.core.partition import tag_of
from tokenweir.export.exporter import ExportSettings
from tokenweir.export.lag import lag_of_all
from tokenweir.ledger.keys import records

ACL = Path("deploy/redis/tokenweir.acl")
KEY = records(tag_of(TENANTS[0]))
HOLDS = [f"h{number}" for number in range(20)]


@pytest.fixture(scope="module", params=["valkey", "redis"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of each kind, with the users of deploy/redis and some records."""
    if request.param == "redis" and not REDIS_SERVER.exists():
        pytest.skip(f"{REDIS_SERVER} is not installed")
    start = start_valkey if request.param == "valkey" else start_redis
    started = start(tmp_path_factory.mktemp("server"))
    with redis.Redis.from_url(started.url) as client:
        for line in ACL.read_text().splitlines():
            execute(client, "ACL", "SETUSER", *line.split()[1:])
    put(started.url, HOLDS)
    yield started
    started.stop()


def execute(client: redis.Redis, *command: str) -> object:
    """Send one command as it is."""
    answer: object = client.execute_command(*command)  # type: ignore[no-untyped-call]
    return answer


def exporter_url(server: Server) -> str:
    """Return the URL of the exporter's user."""
    return server.url.replace(
        "unix://", "unix://tokenweir-exporter:CHANGE-ME-EXPORTER@"
    )


async def test_an_exporter_can_do_its_work(server: Server) -> None:
    """Reading, taking over, acknowledging, rewinding, leaving and the lag are allowed."""
    url = exporter_url(server)
    sink, told = MemorySink(), Told()
    settings = ExportSettings(once=True, from_start=True, abandoned_seconds=0)
    assert await export_once(url, sink, told, settings)
    put(server.url, HOLDS[:7])
    lag = (await lag_of_all(url, [GROUP]))[GROUP]

    assert len(sink.holds) >= 20
    assert lag.behind == 7
    assert "export_waiting" not in told.events()


@pytest.mark.parametrize(
    "command",
    [
        ("XADD", KEY, "*", "a", "b"),
        ("XDEL", KEY, "1-1"),
        ("XTRIM", KEY, "MAXLEN", "0"),
        ("XGROUP", "DESTROY", KEY, GROUP),
        ("DEL", KEY),
        ("EXPIRE", KEY, "1"),
        ("XRANGE", "{tw:000}:h:1", "-", "+"),
        ("HGETALL", "{tw:000}:a:1"),
        ("XRANGE", "another-app", "-", "+"),
        ("SCAN", "0"),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
        ("EVAL", "return 1", "0"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_nothing_else_is_an_exporters(server: Server, command: tuple[str, ...]) -> None:
    """It can't write, trim or drop records, nor see holds, sums or other keys."""
    refusal = pytest.raises(redis.ResponseError, match=r"(?i)permission|access|acl")
    with redis.Redis.from_url(exporter_url(server)) as client, refusal:
        execute(client, *command)
