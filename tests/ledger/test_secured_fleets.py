"""
TLS and users of least rights where several servers are one ledger.

Each speaks TLS only, shows a certificate and wants to see one, and knows the users of
deploy/redis. The packaged Valkey speaks no TLS: there it is only the users.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import (
    ClusterFleet,
    Node,
    SentinelFleet,
    ask,
    cluster_fleet,
    sentinel_fleet,
    wait_for,
)
from tests.ledger.builders import TAG, Recorder, concurrency, hold, requests, used
from tests.ledger.certificates import Authority, authority
from tests.ledger.conftest import PATIENCE
from tests.pod import until
from tests.servers import REDIS_SERVER, start_redis, start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Granted
from tokenweir.core.partition import all_tags
from tokenweir.ledger.address import require_url
from tokenweir.ledger.advice import advice
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.slot_map import slot_of
from tokenweir.ledger.tagged import TaggedLedger

# asyncio ends a TLS connection once the other side has said goodbye, which it has no time
# for at the end of a test.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)

ACL = Path("deploy/redis/tokenweir.acl")
LOGIN = "tokenweir-sidecar:CHANGE-ME-SIDECAR@"
SENTINELS_OWN = "only-for-sentinels"


@pytest.fixture(scope="module", params=["redis", "valkey"])
def trusted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Authority | None:
    """Whom all trust; None: there is no TLS."""
    if request.param == "valkey":
        return None
    if not REDIS_SERVER.exists():
        pytest.skip(f"needs Debian's Redis at {REDIS_SERVER}")
    return authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", autouse=True)
def _no_leftovers() -> Iterator[None]:
    """Leave nothing of that to the tests of other modules."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def secured(trusted: Authority | None) -> tuple[str, ...]:
    """What servers are started with."""
    return trusted.server_options if trusted else ()


def know_users(nodes: list[Node]) -> None:
    """Have *nodes* know the users of deploy/redis."""
    for node in nodes:
        for line in ACL.read_text().splitlines():
            ask(node.server, "ACL", "SETUSER", *line.split()[1:])


@pytest.fixture(scope="module")
def cluster(
    trusted: Authority | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterFleet]:
    """Three nodes."""
    start = start_redis if trusted else start_valkey
    folder = tmp_path_factory.mktemp("cluster")
    with cluster_fleet(folder, start=start, tls=secured(trusted)) as made:
        know_users(made.nodes)
        yield made


@pytest.fixture(scope="module")
def watched(
    trusted: Authority | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SentinelFleet]:
    """A primary, a replica and a Sentinel that asks for a password of its own."""
    start = start_redis if trusted else start_valkey
    with sentinel_fleet(
        tmp_path_factory.mktemp("sentinel"),
        start=start,
        sentinels=1,
        tls=secured(trusted),
        password=SENTINELS_OWN,
    ) as made:
        know_users(made.servers)
        yield made


def url(
    fleet: ClusterFleet | SentinelFleet, trusted: Authority | None, **more: object
) -> str:
    """The fleet's URL for a processor, with *more* options."""
    options = [f"{name}={value}" for name, value in more.items()]
    if trusted:
        options.append(trusted.url_options)
    return f"{fleet.url.replace('://', f'://{LOGIN}')}?{'&'.join(options)}"


async def does_its_work(store: RedisStore, number: int) -> None:
    """Demand that *store* can do all that a processor does."""
    ledger, limits = TaggedLedger(store), (requests(100), concurrency(9))
    made = hold(number, *limits)
    assert isinstance(await ledger.reserve(made), Granted)
    await ledger.extend(made, 5)
    await ledger.settle(made, used(3, 4))
    await ledger.cancel(hold(number + 1, *limits))
    await store.tally(TAG, 0, {"matched_x": 1})
    assert await store.sweep(all_tags()) == 0
    await store.lead("me", 1_000)
    assert await store.eviction() == ""


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_cluster(
    cluster: ClusterFleet, trusted: Authority | None, protocol: int, events: Recorder
) -> None:
    """A processor's user does its work on each node, also while a slot moves."""
    where = url(cluster, trusted, protocol=protocol)
    require_url(where)
    store = RedisStore(where, events, deadline_seconds=PATIENCE)
    await does_its_work(store, 10 * protocol)
    slot = slot_of(("GET", f"{{{TAG}}}:e"))
    assert slot is not None
    home = cluster.owner(slot)
    target = next(node for node in cluster.nodes if node is not home)
    await asyncio.to_thread(cluster.move, slot, target)
    await does_its_work(store, 10 * protocol + 5)

    assert events.reasons == []
    assert events.faults == []
    await store.close()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_sentinels_with_a_password_of_their_own(
    watched: SentinelFleet, trusted: Authority | None, protocol: int, events: Recorder
) -> None:
    """Servers are reached as another user than Sentinels."""
    options = {"protocol": protocol, "sentinel_password": SENTINELS_OWN}
    where = url(watched, trusted, **options)
    require_url(where)
    store = RedisStore(where, events, deadline_seconds=PATIENCE)
    await does_its_work(store, 10 * protocol)

    assert events.reasons == []
    assert events.faults == []
    await store.close()


async def test_sentinels_say_whom_they_know_not(
    watched: SentinelFleet, trusted: Authority | None, events: Recorder
) -> None:
    """That it was the password is told by name, and not that there is no primary."""
    where = url(watched, trusted, sentinel_password="wrong")
    store = RedisStore(where, events, deadline_seconds=PATIENCE)
    with pytest.raises(LedgerUnavailableError, match="AuthenticationError"):
        await store.ping()

    assert events.reasons == ["AuthenticationError"]
    await store.close()


@pytest.mark.parametrize("kind", ["cluster", "watched"])
async def test_a_stranger_is_told_by_name(
    kind: str,
    trusted: Authority | None,
    request: pytest.FixtureRequest,
    events: Recorder,
    tmp_path: Path,
) -> None:
    """Nobody vouches for these servers: that is told as such, whoever showed it."""
    if trusted is None:
        pytest.skip("the packaged Valkey speaks no TLS")
    stranger = authority(tmp_path / "stranger")
    more = {"sentinel_password": SENTINELS_OWN} if kind == "watched" else {}
    where = url(request.getfixturevalue(kind), trusted, **more).replace(
        f"ssl_ca_certs={trusted.own.certificate}",
        f"ssl_ca_certs={stranger.own.certificate}",
    )
    store = RedisStore(where, events, deadline_seconds=PATIENCE)
    with pytest.raises(LedgerUnavailableError) as refusal:
        await store.ping()

    assert events.reasons == ["SSLCertVerificationError"]
    assert "ssl_ca_certs" in advice(refusal.value)
    await store.close()


async def test_a_failover_of_secured_servers(
    watched: SentinelFleet, trusted: Authority | None, events: Recorder
) -> None:
    """The new primary is reached as the former was."""
    where = url(watched, trusted, sentinel_password=SENTINELS_OWN)
    store = RedisStore(where, events, deadline_seconds=PATIENCE)
    await does_its_work(store, 50)
    former = watched.primary()
    ask(watched.sentinels[0].server, "SENTINEL", "FAILOVER", "ledger")
    await asyncio.to_thread(wait_for, lambda: watched.primary() is not former)
    former.server.stop()

    async def goes_on() -> bool:
        with contextlib.suppress(LedgerUnavailableError):
            await does_its_work(store, 60)
            return True
        return False

    await until(goes_on)
    assert events.faults == []
    await store.close()
