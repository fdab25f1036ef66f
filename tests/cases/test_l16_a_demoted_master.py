"""L16: a master that has become a replica is left, without a restart."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.cases.apis import OPENAI, TOLD
from tests.cases.scene import Scene, key_of, tenants
from tests.ledger_view import LedgerView
from tests.pod import until
from tests.scripted_upstream import Hold, reply
from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# The case has 5 s; the rest is what a busy machine takes.
SECONDS_TO_RECOVER = 10.0
# The ledger's deadline: patient, as a busy machine is late by itself now and then.
PATIENT = {"arguments": ["--ledger-timeout-ms", "1000"]}
QUOTAS = [{"tokens_per_minute": 60_000}, {"concurrency": 50}]
OPEN = [{"tokens_per_minute": 60_000, "on_ledger_failure": "open"}]
BODY = OPENAI.request(stream=False, max_tokens=100)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["valkey", "redis"])
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Scene, Server]]:
    """Give the module a pod on one server, and a second server."""
    if request.param == "redis" and not REDIS_SERVER.exists():
        pytest.skip(f"needs Debian's Redis at {REDIS_SERVER}")
    start = start_valkey if request.param == "valkey" else start_redis
    with tempfile.TemporaryDirectory() as folder:
        servers = [await asyncio.to_thread(start, Path(folder)) for _ in range(2)]
        try:
            async with Scene.relayed(
                servers[0],
                quotas=QUOTAS,
                adapt=tenants(open=OPEN),
                retries=0,
                options=PATIENT,
            ) as scene:
                yield scene, servers[1]
        finally:
            for server in servers:
                server.stop()


async def test_l16_the_new_master_is_found_by_its_address(
    pair: tuple[Scene, Server],
) -> None:
    """
    READONLY: refused while there is no master; served within 5 s once there is one.

    envoyproxy/ratelimit#1191, gravitee-io/gravitee-api-management#19870: every write
    failed until the gateway was restarted.
    """
    scene, new_master = pair
    assert scene.relay is not None
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play_next(Hold(gate), reply(OPENAI.reply("Hi.", TOLD)))
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    running = asyncio.create_task(scene.call(BODY))
    await scene.upstream.wait_for_requests(1)

    await scene.redis("REPLICAOF", "127.0.0.1", 1)
    refused = await scene.call(BODY)
    admitted = await scene.call(BODY, key=key_of("open"))
    gate.set()
    assert (await running).status == 200

    scene.relay.target = new_master.path  # what DNS or Sentinel does
    began = time.monotonic()

    async def served() -> bool:
        answer = await scene.call(BODY)
        assert answer.status in (200, 503)
        return answer.status == 200

    await until(served)

    assert time.monotonic() - began < SECONDS_TO_RECOVER
    assert (refused.status, refused.refusal) == (503, "ledger_unavailable")
    assert admitted.status == 200
    # What ended meanwhile is told to the new master, which never heard of it.
    async with LedgerView.connect(new_master.url) as ledger:
        await until(lambda: ledger.nothing_held("acme", "open"))

        async def told() -> bool:
            return await ledger.total("acme") == (2 * TOLD.input, 2 * TOLD.output)

        await until(told)
        assert await ledger.total("open") == (TOLD.input, TOLD.output)
    assert scene.pod.processors[0].count("fault") == 0


async def test_l16_a_replica_that_stays_one_is_no_limit(
    pair: tuple[Scene, Server],
) -> None:
    """
    While only replicas answer, each call says so in time, and never 429.

    gravitee-io/gravitee-api-management#19870
    """
    scene, master = pair
    async with Redis(unix_socket_path=str(master.path)) as client:
        await client.replicaof("127.0.0.1", 1)
        try:
            answers = [await scene.call(BODY) for _ in range(5)]
        finally:
            await client.replicaof("NO", "ONE")

    assert {answer.status for answer in answers} == {503}
    assert {answer.refusal for answer in answers} == {"ledger_unavailable"}
    assert max(answer.seconds for answer in answers) < 5.0

    async def served() -> bool:
        return (await scene.call(BODY)).status == 200

    await until(served)
