"""L15: all keys of a ledger call lie in one slot of a cluster."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD
from tests.cases.scene import Scene
from tests.pod import OTHER_KEY, until
from tests.scripted_upstream import reply
from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUOTAS = [
    {"tokens_per_minute": 1, "capacity": 2_000},
    {"tokens_per_minute": 1, "capacity": 2_000, "partition": ["user"]},
    {"tokens_per_minute": 1, "capacity": 2_000, "partition": ["key", "model"]},
    {"concurrency": 3},
]
SHARED = [
    {"tokens_per_minute": 1, "capacity": 5_000, "partition": ["provider"]},
    {"requests_per_minute": 1, "capacity": 9, "partition": ["model"]},
]
FAILURES = "tokenweir_ledger_failures_total"


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def started(start: Callable[..., Server], folder: Path) -> Server:
    """Start a cluster's node; once more if somebody was faster to take its ports."""
    for attempts_left in (2, 1, 0):
        options = ["--cluster-enabled", "yes", "--bind", "127.0.0.1"]
        options += ["--port", str(free_port()), "--cluster-port", str(free_port())]
        try:
            return start(folder, *options)
        except RuntimeError:
            if not attempts_left:
                raise
    raise AssertionError


async def is_whole(scene: Scene) -> bool:
    """Tell if the cluster takes commands."""
    return b"cluster_state:ok" in await scene.redis("CLUSTER", "INFO")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["valkey", "redis"])
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """Give the module a pod on a cluster's node, which refuses to cross slots."""
    if request.param == "redis" and not REDIS_SERVER.exists():
        pytest.skip(f"needs Debian's Redis at {REDIS_SERVER}")
    start = start_valkey if request.param == "valkey" else start_redis
    with tempfile.TemporaryDirectory() as folder:
        server = await asyncio.to_thread(started, start, Path(folder))
        try:
            async with Scene.open(
                options={"server": server}, quotas=QUOTAS, shared_quotas=SHARED
            ) as opened:
                await opened.redis("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                await until(partial(is_whole, opened))
                yield opened
        finally:
            server.stop()


async def test_l15_tenant_user_key_model_and_provider_at_once(scene: Scene) -> None:
    """
    Limits of tenant, user, key, model and provider are taken without crossing slots.

    BerriAI/litellm#14968: CROSSSLOT. spring-cloud/spring-cloud-gateway#248: an error of
    the script read as "allowed, remaining -1".
    """
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body = OPENAI.request(stream=False, max_tokens=100, user="ann")
    before = scene.pod.processors[0].metric(FAILURES)  # there were no slots yet

    answers = [await scene.call(body) for _ in range(3)]
    answers += [await scene.call(body, key=OTHER_KEY) for _ in range(3)]
    refused = await scene.call(OPENAI.request(max_tokens=1_970, user="ann"))

    assert {answer.status for answer in answers} == {200}
    assert refused.status == 429
    left = [answer.header("x-ratelimit-remaining-tokens") for answer in answers]
    assert all(int(each or "-1") >= 0 for each in left)
    for tenant in ("acme", "globex"):
        await scene.ledger_shows(*[(TOLD.input, TOLD.output)] * 3, tenant=tenant)
    for processor in scene.pod.processors:
        assert processor.count("fault") == 0
        assert processor.metric(FAILURES) - before <= 2


async def test_l15_numbers_are_arguments_and_not_keys(scene: Scene) -> None:
    """
    Each key of the ledger has a hash tag, and no two tags of a call differ.

    BerriAI/litellm#14968: numbers were passed as KEYS.
    """
    keys = [key.decode() for key in await scene.redis("KEYS", "*")]

    assert keys
    assert all(key.startswith("{tw:") for key in keys)


async def test_l15_a_cluster_without_its_slots_admits_nobody(scene: Scene) -> None:
    """
    CLUSTERDOWN is a ledger that gives no answer: 503, and never "allowed".

    spring-cloud/spring-cloud-gateway#248
    """
    before = len(scene.upstream.requests)
    await scene.redis("CLUSTER", "DELSLOTSRANGE", 0, 16383)
    try:
        answer = await scene.call(OPENAI.request(max_tokens=10))
    finally:
        await scene.redis("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        await until(partial(is_whole, scene))

    assert (answer.status, answer.refusal) == (503, "ledger_unavailable")
    assert len(scene.upstream.requests) == before
