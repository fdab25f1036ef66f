"""
A failover and a resharding under load: every call is answered in time and charged once.

Through Envoy and two processors, at 200 calls a second where the machine allows it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.priced import overlay
from tests.cases.scene import Scene, tenants
from tests.fleet import (
    ClusterFleet,
    SentinelFleet,
    ask,
    cluster_fleet,
    sentinel_fleet,
    wait_for,
)
from tests.gateway_load import LEDGER_TIMEOUT_MS, GatewayLoad, require_nothing_reserved
from tokenweir.core.partition import all_tags, tag_of
from tokenweir.ledger import keys
from tokenweir.ledger.slot_map import slot_of

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# Of the three nodes each has a tag of at least one.
NAMES = ("ann", "bob", "cyd", "dan")
QUOTAS: list[dict[str, Any]] = [
    {"tokens_per_minute": 100_000_000},
    {"concurrency": 10_000},
    {"budget_usd": 100_000, "per": "month"},
]
# Under a tag of its own: so each call is about two.
SHARED: list[dict[str, Any]] = [
    {"requests_per_minute": 1_000_000, "partition": ["model"]},
    {"concurrency": 10_000, "partition": ["provider"]},
]


@contextlib.asynccontextmanager
async def pod_on(url: str, folder: Path, **options: Any) -> AsyncIterator[Scene]:
    """Run a pod of two processors whose ledger is at *url*."""
    prices = overlay(folder)

    def adapt(content: dict[str, Any]) -> None:
        tenants(**dict.fromkeys(NAMES, QUOTAS))(content)
        content["prices"] = {"overlays": [prices]}

    options |= {
        "ledger_url": url,
        "view_url": url,
        "workers": 2,
        "program": "tests.cases.short_holds",
        "arguments": ["--ledger-timeout-ms", str(LEDGER_TIMEOUT_MS)],
    }
    async with Scene.open(options=options, adapt=adapt, shared_quotas=SHARED) as scene:
        yield scene


async def all_is_well(load: GatewayLoad) -> None:
    """Demand that calls are charged once, and that nothing is in flight anywhere."""
    await load.check()
    store = load.pod.ledger.store
    for tag in all_tags():
        if tag.startswith("tw:s"):
            require_nothing_reserved(await store.snapshot(tag))


# === Sentinels ==================================================================


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelFleet]:
    """A primary, a replica, and three Sentinels."""
    with sentinel_fleet(tmp_path_factory.mktemp("sentinel")) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched_load(
    watched: SentinelFleet, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayLoad]:
    """Calls through a pod on them."""
    folder = tmp_path_factory.mktemp("prices")
    server = watched.servers[0].server
    async with pod_on(watched.url, folder, server=server) as scene:
        yield GatewayLoad(scene.pod, scene.upstream, NAMES)


async def test_a_planned_failover(
    watched: SentinelFleet, watched_load: GatewayLoad
) -> None:
    """
    SENTINEL FAILOVER: the former primary takes calls for some time that the new one never
    hears of. They are told to it again.
    """
    load = watched_load
    former = watched.primary()
    async with load.running():
        await load.goes_on()
        await asyncio.to_thread(watched.fail_over)
        await load.goes_on()
    await all_is_well(load)
    # As Sentinels do themselves, some ten seconds later.
    ask(former.server, "REPLICAOF", "127.0.0.1", watched.primary().port)
    watched.be_quick()


async def test_a_primary_that_dies(
    watched: SentinelFleet, watched_load: GatewayLoad
) -> None:
    """What its replica had not heard of is told to that replica; nothing is lost."""
    load = watched_load
    former = watched.primary()
    replica = next(node for node in watched.servers if node is not former)
    await asyncio.to_thread(wait_for, lambda: follows(replica.server))
    async with load.running():
        await load.goes_on()
        former.server.stop()
        await load.meets_faults()
        await asyncio.to_thread(wait_for, lambda: watched.primary() is not former)
        await load.goes_on()
    await all_is_well(load)


def follows(server: Any) -> bool:
    """Tell if *server* is a replica that has what its primary has."""
    info = ask(server, "INFO", "replication")
    return bool(info.get("role") == "slave" and info["master_link_status"] == "up")


# === a Cluster ==================================================================


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterFleet]:
    """Three nodes that notice soon if one is gone."""
    quick = ("--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
    with cluster_fleet(tmp_path_factory.mktemp("cluster"), *quick) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster_load(
    nodes: ClusterFleet, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayLoad]:
    """Calls through a pod on them."""
    folder = tmp_path_factory.mktemp("prices")
    server = nodes.nodes[0].server
    async with pod_on(nodes.url, folder, server=server) as scene:
        yield GatewayLoad(scene.pod, scene.upstream, NAMES)


def slot(tag: str) -> int:
    """The slot that *tag* is in."""
    found = slot_of(("GET", keys.records(tag)))
    assert found is not None
    return found


async def test_slots_that_move(nodes: ClusterFleet, cluster_load: GatewayLoad) -> None:
    """Tags in use move, key by key, to another node and back."""
    load = cluster_load
    shared = await shared_tags(load)
    moving = [slot(tag_of(NAMES[0])), slot(tag_of(NAMES[1])), slot(shared[0])]
    homes = [nodes.owner(each) for each in moving]
    async with load.running():
        for is_back in (False, True):
            for each, home in zip(moving, homes, strict=True):
                other = next(node for node in nodes.nodes if node is not home)
                target = home if is_back else other
                await load.goes_on(20)
                await asyncio.to_thread(nodes.move, each, target)
                assert nodes.owner(each) is target
        await load.goes_on(20)
    await all_is_well(load)


async def shared_tags(load: GatewayLoad) -> list[str]:
    """Return the tags that limits of all tenants are under, once they are used."""
    async with load.running():
        await load.goes_on(10)
    store = load.pod.ledger.store
    tags = [tag for tag in all_tags() if tag.startswith("tw:s")]
    return [tag for tag in tags if (await store.snapshot(tag)).epoch]


async def test_a_node_that_dies(
    nodes: ClusterFleet, cluster_load: GatewayLoad, tmp_path: Path
) -> None:
    """Its replica takes over by the other nodes' votes, and is told what it missed."""
    load = cluster_load
    owner = nodes.owner(slot(tag_of(NAMES[0])))
    replica = await asyncio.to_thread(
        nodes.add_replica, tmp_path, owner, "--cluster-node-timeout", "1000"
    )
    try:
        async with load.running():
            await load.goes_on()
            owner.server.stop()
            await load.meets_faults()
            await asyncio.to_thread(wait_for, lambda: leads(replica.server))
            await load.goes_on()
        await all_is_well(load)
    finally:
        replica.server.stop()


def leads(server: Any) -> bool:
    """Tell if *server* is a primary."""
    return bool(ask(server, "INFO", "replication").get("role") == "master")
