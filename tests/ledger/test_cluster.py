"""The ledger in a Cluster: its slots, while they stay and while they move."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fleet import ClusterFleet, ask, cluster_fleet, ports
from tests.governance.documents import signed
from tests.ledger.builders import SUBJECT, TAG, Recorder, budget
from tests.ledger.conftest import PATIENCE
from tests.ledger.load import (
    AMOUNTS,
    COST_NANOUSD,
    RATE_PER_SECOND,
    USED,
    Load,
    books_of,
)
from tests.ledger.test_stored_keys import play
from tests.pod import until
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Granted, Hold, Part
from tokenweir.core.partition import all_tags
from tokenweir.export.lag import lag_of_all
from tokenweir.export.streams import Streams
from tokenweir.governance.channel import Channel
from tokenweir.governance.envelope import POLICY
from tokenweir.ledger import keys
from tokenweir.ledger.cluster import MAX_REDIRECTIONS
from tokenweir.ledger.inspector import Inspector
from tokenweir.ledger.link import Link
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.slot_map import SLOTS, slot_of
from tokenweir.ledger.tagged import TaggedLedger

# Of each node one tag.
TAGS = ("tw:001", "tw:002", "tw:003")


@pytest.fixture(scope="module")
def whole_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterFleet]:
    """Three nodes, for all tests here."""
    with cluster_fleet(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def fleet(whole_fleet: ClusterFleet) -> ClusterFleet:
    """Three nodes, empty."""
    whole_fleet.empty()
    return whole_fleet


@pytest.fixture
async def store(fleet: ClusterFleet, events: Recorder) -> AsyncIterator[RedisStore]:
    """A store in the Cluster."""
    made = RedisStore(fleet.url, events, deadline_seconds=PATIENCE)
    yield made
    await made.close()


def slot(tag: str) -> int:
    """The slot that *tag* is in."""
    found = slot_of(("GET", keys.records(tag)))
    assert found is not None
    return found


def costly(number: int, tag: str) -> Hold:
    """The *number*-th hold, of `COST_NANOUSD`, under *tag*."""
    now_ms = time.time_ns() // 1_000_000
    limit = budget(2 * COST_NANOUSD, now_ms=now_ms)
    return Hold(f"0-{now_ms:x}-{number:04x}", (Part(tag, (limit,)),), AMOUNTS, SUBJECT)


async def test_every_verb_runs_where_its_tag_is(
    store: RedisStore, fleet: ClusterFleet, events: Recorder
) -> None:
    """A node refuses a key of another slot, even of a script: none was touched (L15)."""
    await play(TaggedLedger(store), store)

    assert len((await store.snapshot(TAG)).records) == 1
    assert len(await store.rollups(all_tags(), 0, 10**7)) == 1
    assert len(await store.holdings(all_tags())) == 4
    assert await store.eviction() == ""
    assert events.reasons == []
    owner = fleet.owner(slot(TAG))
    for node in fleet.nodes:
        stored = [each.decode() for each in ask(node.server, "KEYS", f"{{{TAG}}}:*")]
        assert bool(stored) is (node is owner)


async def test_a_processor_needs_few_rights(
    fleet: ClusterFleet, events: Recorder
) -> None:
    """With those that we ask for it finds its way, also while a slot moves."""
    for node in fleet.nodes:
        ask(node.server, "ACL", "SETUSER", "weir", "reset", "on", ">pw", *keys.ACCESS)
    url = fleet.url.replace("://", "://weir:pw@")
    store = RedisStore(url, events, deadline_seconds=PATIENCE)
    await play(TaggedLedger(store), store)
    home = fleet.owner(slot(TAG))
    target = next(node for node in fleet.nodes if node is not home)
    fleet.begin_move(slot(TAG), target)
    fleet.move_keys(slot(TAG), target, "{tw:017}:*")
    assert await store.link.read([("GET", f"{{{TAG}}}:e")]) != [None]
    fleet.end_move(slot(TAG), target)
    fleet.move(slot(TAG), home)

    assert events.reasons == []
    await store.close()


async def test_a_sweep_visits_every_node(fleet: ClusterFleet, events: Recorder) -> None:
    """Each is sent the script once, though it knows it of no other node (L14)."""
    store = RedisStore(fleet.url, events, deadline_seconds=PATIENCE, hold_ms=1)
    for node in fleet.nodes:
        ask(node.server, "SCRIPT", "FLUSH")
    for number, tag in enumerate(TAGS):
        answer = await TaggedLedger(store).reserve(costly(number, tag))
        assert isinstance(answer, Granted)
    await asyncio.sleep(0.01)

    assert await store.sweep(all_tags()) == len(TAGS)
    assert events.reaped == len(TAGS)
    for node in fleet.nodes:
        calls = ask(node.server, "INFO", "commandstats")
        assert calls["cmdstat_eval"]["calls"] >= 1
    await store.close()


async def test_operators_see_all_nodes(store: RedisStore, fleet: ClusterFleet) -> None:
    """Counters of budgets are found wherever they are, and put right there."""
    for number, tag in enumerate(TAGS):
        await TaggedLedger(store).reserve(costly(number, tag))
    inspector = Inspector(fleet.url, Recorder())

    found = await inspector.counters()
    assert set(found) == set(TAGS)
    assert (await inspector.look(TAGS[0], sorted(found[TAGS[0]]))).holds
    assert await inspector.now_ms() > 0
    assert await inspector.lead("me", 1_000)
    await inspector.close()


async def test_what_is_published_is_read(fleet: ClusterFleet) -> None:
    """Policies and keys lie in one slot as well."""
    async with Channel.open(fleet.url) as channel:
        await channel.publish(signed(1), after=0)
        assert await channel.versions() == {"policy": 1, "keys": 0}
        assert await channel.history(POLICY, 5) == [signed(1)]


async def test_what_was_used_is_exported(
    store: RedisStore, fleet: ClusterFleet
) -> None:
    """Streams of all nodes are read, acknowledged, and told the lag of."""
    load, over = Load(store, TAGS), asyncio.Event()
    running = asyncio.create_task(load.run_until(over))
    await until(lambda: load.settled >= 9)
    over.set()
    await running
    streams = Streams(fleet.url, "g", "c")
    await streams.join()
    assert streams.joined == TAGS
    assert (await lag_of_all(fleet.url, ["g"]))["g"].behind == load.settled
    found = await streams.new(streams.joined, 1_000)
    await streams.acknowledge((each.tag, each.entry) for each in found)

    assert len(found) == load.settled
    assert await streams.skipped() == 0
    assert (await lag_of_all(fleet.url, ["g"]))["g"].behind == 0
    await streams.leave()
    await streams.close()


async def test_resharding_under_load(fleet: ClusterFleet, events: Recorder) -> None:
    """
    A tag moves, key by key, under 200 exchanges a second: each has its answer in time,
    nothing is lost or charged twice, and nothing stays reserved.
    """
    deadline_seconds = 0.2
    store = RedisStore(fleet.url, events, deadline_seconds=deadline_seconds)
    load, over = Load(store, TAGS), asyncio.Event()
    running = asyncio.create_task(load.run_until(over))
    await until(lambda: load.settled >= 100)
    home = fleet.owner(slot(TAGS[0]))
    others = [node for node in fleet.nodes if node is not home]
    for target in (*others, home):
        before = load.settled
        await asyncio.to_thread(fleet.move, slot(TAGS[0]), target)
        assert fleet.owner(slot(TAGS[0])) is target
        await until(lambda least=before + 30: load.settled >= least)  # type: ignore[misc]
    over.set()
    await running
    await load.flush()

    books = await books_of(load)
    assert load.slowest_seconds < deadline_seconds + 5
    assert (books.reserved, books.slots, books.held) == (0, 0, 0)
    assert books.spent == books.recorded == load.settled
    assert books.records == 1
    assert load.settled >= RATE_PER_SECOND
    assert events.faults == []
    await store.close()


async def test_half_a_tag_answers_nobody(
    store: RedisStore, fleet: ClusterFleet, events: Recorder
) -> None:
    """
    While its keys are partly here and partly there nobody is let in for want of a level
    that is elsewhere; afterwards the limit is what it was (L15).
    """
    ledger, first = TaggedLedger(store), costly(1, TAG)
    assert isinstance(await ledger.reserve(first), Granted)
    await ledger.settle(first, USED)
    source = fleet.owner(slot(TAG))
    target = next(node for node in fleet.nodes if node is not source)
    fleet.begin_move(slot(TAG), target)
    for pattern in ("nothing", "{tw:017}:w:*", "{tw:017}:e", "{tw:017}:*"):
        fleet.move_keys(slot(TAG), target, pattern)
        with pytest.raises(LedgerUnavailableError):
            await ledger.reserve(costly(2, TAG))
        assert events.reasons.pop() in {"TryAgainError", "AskError"}
        # What only reads one key is answered by whoever has it.
        (records,) = await store.link.read([("XLEN", keys.records(TAG))])
        assert records == 1
    fleet.end_move(slot(TAG), target)

    assert isinstance(await ledger.reserve(costly(2, TAG)), Granted)
    (spending,) = (await store.snapshot(TAG)).spendings.values()
    assert (spending.spent, spending.reserved) == (COST_NANOUSD, COST_NANOUSD)
    fleet.move(slot(TAG), source)


async def test_a_slot_of_nobody_is_unavailable(
    store: RedisStore, fleet: ClusterFleet, events: Recorder
) -> None:
    """CLUSTERDOWN allows nothing; other slots go on, and this one once it is back."""
    ledger = TaggedLedger(store)
    await ledger.reserve(costly(1, TAG))
    owner = fleet.owner(slot(TAG))
    for node in fleet.nodes:
        ask(node.server, "CONFIG", "SET", "cluster-require-full-coverage", "no")
    ask(owner.server, "CLUSTER", "DELSLOTS", slot(TAG))
    with pytest.raises(LedgerUnavailableError):
        await ledger.reserve(costly(2, TAG))
    assert events.reasons == ["ClusterDownError"]
    assert events.faults == []
    ask(owner.server, "CLUSTER", "ADDSLOTS", slot(TAG))

    async def is_back() -> bool:
        with contextlib.suppress(LedgerUnavailableError):
            return isinstance(await ledger.reserve(costly(3, TAG)), Granted)
        return False

    await until(is_back)


async def test_a_server_of_its_own_is_no_cluster(
    events: Recorder, fleet: ClusterFleet
) -> None:
    """Whoever says Cluster of one, or leaves it out of a Cluster's URL, is told."""
    node = next(each for each in fleet.nodes if each is not fleet.owner(slot(TAG)))
    alone = Link(f"redis://127.0.0.1:{node.port}", events, deadline_seconds=PATIENCE)
    with pytest.raises(LedgerUnavailableError, match="MovedError"):
        await alone.read([("GET", keys.records(TAG))])
    await alone.close()


# === nodes that say what they are told to =====================================


@dataclass
class Script:
    """
    A node that answers as a test wants.

    Attributes:
        port: On 127.0.0.1.
        reply: To whatever is not about the map.
        maps: How often it was asked for that.
        asked: What else it was asked.
        has_map: Whether it tells one, with itself as the only node.
    """

    port: int = 0
    reply: str = "+OK"
    maps: int = 0
    asked: list[bytes] = field(default_factory=list)
    has_map: bool = True

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"redis+cluster://127.0.0.1:{self.port}?protocol=2"

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one connection."""
        while data := await reader.read(65_536):
            for command in data.split(b"*")[1:]:
                writer.write(self._answer(command))
        writer.close()

    def _answer(self, command: bytes) -> bytes:
        if b"CLIENT" in command:
            return b"+OK\r\n"
        if b"CLUSTER" in command:
            self.maps += 1
            if not self.has_map:
                return b"-ERR This instance has cluster support disabled\r\n"
            host = f"*2\r\n$9\r\n127.0.0.1\r\n:{self.port}\r\n"
            return f"*1\r\n*3\r\n:0\r\n:{SLOTS - 1}\r\n{host}".encode()
        self.asked.append(command)
        return f"{self.reply}\r\n".encode()


@pytest.fixture
async def node() -> AsyncIterator[Script]:
    """One such node."""
    made = Script()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("-MOVED 1 127.0.0.1:{port}", "MovedError"),
        ("-MOVED 1 :{port}", "MovedError"),
        ("-TRYAGAIN Multiple keys request during rehashing of slot", "TryAgainError"),
    ],
)
async def test_nobody_is_sent_round_for_ever(
    node: Script, reply: str, reason: str, events: Recorder
) -> None:
    """After so many redirections the call has failed."""
    node.reply = reply.format(port=node.port)
    link = Link(node.url, events, deadline_seconds=PATIENCE)
    with pytest.raises(LedgerUnavailableError):
        await link.read([("GET", "k")], verb="x")
    assert events.reasons == [reason]
    # Once with others that go out together, and then by itself.
    assert len(node.asked) == 1 + MAX_REDIRECTIONS + 1
    assert node.maps < MAX_REDIRECTIONS
    await link.close()


async def test_a_server_without_cluster_support_is_told(
    node: Script, events: Recorder
) -> None:
    """It answers, but has no map: nothing is sent to it."""
    node.has_map = False
    link = Link(node.url, events, deadline_seconds=PATIENCE)
    with pytest.raises(LedgerUnavailableError):
        await link.ping()

    assert node.asked == []
    await link.close()


async def test_many_calls_that_fail_read_the_map_once(
    node: Script, events: Recorder
) -> None:
    """A node that is lost is no storm for the others."""
    (port,) = ports(1)
    link = Link(node.url, events, deadline_seconds=PATIENCE)
    await link.ping()
    node.reply = f"-MOVED 1 127.0.0.1:{port}"
    answers = await asyncio.gather(
        *(link.read([("GET", "k")]) for _ in range(100)), return_exceptions=True
    )

    assert all(isinstance(answer, LedgerUnavailableError) for answer in answers)
    assert node.maps < 20
    await link.close()


async def test_without_any_node_there_is_no_ledger(events: Recorder) -> None:
    """That is known at once, and again at the next call."""
    (port,) = ports(1)
    link = Link(f"redis+cluster://127.0.0.1:{port}", events, deadline_seconds=PATIENCE)
    for _ in range(2):
        with pytest.raises(LedgerUnavailableError):
            await link.ping()

    assert events.reasons == ["ConnectionError"] * 2
    await link.close()


# === the last: after it a node is missing ======================================


async def test_a_replica_takes_over_under_load(
    fleet: ClusterFleet, events: Recorder, tmp_path: Path
) -> None:
    """A node dies under load, its replica has its tags: nothing is charged twice."""
    owner = fleet.owner(slot(TAGS[0]))
    replica = await asyncio.to_thread(fleet.add_replica, tmp_path, owner)
    store = RedisStore(fleet.url, events, hold_ms=1_000)
    load, over = Load(store, TAGS[:1]), asyncio.Event()
    running = asyncio.create_task(load.run_until(over))
    await until(lambda: load.settled >= 100)
    owner.server.stop()
    await until(lambda: load.refused > 0)
    before = load.settled
    ask(replica.server, "CLUSTER", "FAILOVER", "TAKEOVER")
    await until(lambda: load.settled >= before + 50)
    over.set()
    await running
    await load.flush()

    async def is_swept() -> bool:
        with contextlib.suppress(LedgerUnavailableError):
            await store.sweep(TAGS[:1])
            return (await books_of(load)).held == 0
        return False

    await until(is_swept)
    books = await books_of(load)
    assert (books.reserved, books.slots) == (0, 0)
    assert books.spent == books.recorded <= load.settled
    assert events.faults == []
    await store.close()
    replica.server.stop()
