"""States that real servers get into: each is told by name, and ends by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.fleet import ask
from tests.ledger.builders import Recorder, concurrency, hold, requests, used
from tests.ledger.conftest import PATIENCE
from tests.pod import until
from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Granted
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.spool import SpooledLedger
from tokenweir.ledger.tagged import TaggedLedger

LIMITS = (requests(1_000), concurrency(9))
# Of each key, while it reads its data: long enough to be met, and not for long.
LOADING = (
    "--key-load-delay",
    "3000",
    "--loading-process-events-interval-bytes",
    "1024",
)


@pytest.fixture(params=["valkey", "redis"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of each kind that a test may break, and that finds what it saved."""
    if request.param == "redis" and not REDIS_SERVER.exists():
        pytest.skip(f"needs Debian's Redis at {REDIS_SERVER}")
    start = start_valkey if request.param == "valkey" else start_redis
    server = start(tmp_path, "--dir", str(tmp_path), *LOADING)
    yield server
    server.stop()


async def answers(store: RedisStore, number: int) -> bool:
    """Tell if a hold is granted."""
    try:
        answer = await TaggedLedger(store).reserve(hold(number, *LIMITS))
    except LedgerUnavailableError:
        return False
    return isinstance(answer, Granted)


@pytest.mark.parametrize(
    ("breaks", "mends", "reasons"),
    [
        (
            [
                ("CONFIG", "SET", "replica-serve-stale-data", "no"),
                ("REPLICAOF", "127.0.0.1", "1"),
            ],
            ("REPLICAOF", "NO", "ONE"),
            {"MasterDownError"},
        ),
        (
            [("CONFIG", "SET", "min-replicas-to-write", "1")],
            ("CONFIG", "SET", "min-replicas-to-write", "0"),
            {"NOREPLICAS"},
        ),
        (
            [("REPLICAOF", "127.0.0.1", "1")],
            ("REPLICAOF", "NO", "ONE"),
            {"ReadOnlyError", "READONLY", "ConnectionError"},
        ),
    ],
    ids=["MASTERDOWN", "NOREPLICAS", "READONLY"],
)
async def test_a_server_that_may_not_write(
    made: Server,
    breaks: list[tuple[str, ...]],
    mends: tuple[str, ...],
    reasons: set[str],
    events: Recorder,
) -> None:
    """It admits nobody, what ends meanwhile waits, and once it may it is all settled."""
    store = RedisStore(made.url, events, deadline_seconds=PATIENCE)
    ledger, running = SpooledLedger(TaggedLedger(store), events), hold(1, *LIMITS)
    assert isinstance(await ledger.reserve(running), Granted)
    for command in breaks:
        ask(made, *command)
    for number in range(2, 5):
        assert not await answers(store, number)
    await ledger.settle(running, used(3, 4))
    assert events.spooled == [1]
    assert set(events.reasons) <= reasons
    ask(made, *mends)

    assert await ledger.flush(PATIENCE) == 0
    await until(lambda: answers(store, 5))
    assert events.faults == []
    await ledger.close()


async def test_a_server_that_reads_its_data(made: Server, events: Recorder) -> None:
    """
    It is told by name, connected to now and then, and used as soon as it is through.
    """
    store = RedisStore(made.url, events, deadline_seconds=PATIENCE)
    assert await answers(store, 1)
    with redis.Redis.from_url(made.url) as client:
        client.mset({f"other:{number}": "x" * 64 for number in range(500)})
        client.save()
    restarting = asyncio.create_task(asyncio.to_thread(made.restart))
    number = 1

    async def is_loading() -> bool:
        nonlocal number
        number += 1
        return not await answers(store, number) and "BusyLoadingError" in events.reasons

    await until(is_loading)
    await restarting
    await until(lambda: answers(store, 0))
    assert events.faults == []
    await store.close()
