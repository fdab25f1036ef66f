"""
What does `watch.lua` cost Envoy for each chunk of a stream?

    python -m bench.watch_lua [--rounds 12] [--chunks 100] [--streams 4] [--pace-ms 2]

One Envoy has a listener for each way in which the filter is used. All take turns in
short rounds; what is printed is how much more processor time a chunk takes than without
the filter in the same round: the median of the rounds, and their quartiles.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.envoy_process import EnvoyProcess
from tests.scripted_upstream import LAST_CHUNK, chunk, head
from tokenweir.envoyconf.filters import watch_source

LUA = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"
ROUTER = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
METADATA = "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config"
HCM = (
    "type.googleapis.com/envoy.extensions.filters.network."
    "http_connection_manager.v3.HttpConnectionManager"
)
STRIP = "strip"
# What the governor has told, by the name that is printed; None: there is no filter.
WAYS: Mapping[str, Mapping[str, object] | None] = {
    "none": None,
    "asked for nothing": {"path": "inspect"},
    "strip": {"path": "inspect", "strip_usage": True},
    "native": {"path": "native"},
    "native and strip": {"path": "native", "strip_usage": True},
}
REQUEST = b"GET / HTTP/1.1\r\nhost: app\r\n\r\n"
HEAD = head(
    headers=(("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
)
# 220 bytes, as OpenAI's are.
DELTA = (
    'data: {{"id":"chatcmpl-0123456789abcdefghijklmnopqrs","object":'
    '"chat.completion.chunk","created":1760000000,"model":"gpt-4o-2024-08-06",'
    '"system_fingerprint":"fp_0123456789","choices":[{{"index":0,"delta":'
    '{{"content":" word{}"}},"finish_reason":null}}],"usage":null}}\n\n'
)
USAGE = (
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":100,'
    b'"total_tokens":109}}\n\n'
)
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Load:
    """
    Attributes:
        chunks: Of a stream.
        streams: At a time.
        pace_seconds: Between two chunks of a stream.
    """

    chunks: int
    streams: int
    pace_seconds: float


async def provider(load: Load) -> asyncio.Server:
    """Serve paced streams on a free port."""
    deltas = [chunk(DELTA.format(i % 10).encode()) for i in range(load.chunks - 2)]
    pieces = [*deltas, chunk(USAGE), chunk(DONE)]

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(HEAD)
                for piece in pieces:
                    writer.write(piece)
                    await asyncio.sleep(load.pace_seconds)
                writer.write(LAST_CHUNK)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    return await asyncio.start_server(play, "127.0.0.1", 0)


async def read_streams(port: int, load: Load) -> None:
    """Read as many streams at once as *load* says, to their ends."""

    async def read() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await reader.readuntil(LAST_CHUNK)
        writer.close()

    await asyncio.gather(*(read() for _ in range(load.streams)))


def bootstrap(provider_port: int) -> dict[str, Any]:
    """Return a configuration with a listener for each of `WAYS`, in their order."""
    cluster = {
        "name": "up",
        "connect_timeout": "5s",
        "load_assignment": {
            "cluster_name": "up",
            "endpoints": [{"lb_endpoints": [_endpoint(provider_port)]}],
        },
    }
    listeners = [_listener(number, told) for number, told in enumerate(WAYS.values())]
    return {"static_resources": {"listeners": listeners, "clusters": [cluster]}}


def _endpoint(port: int) -> dict[str, Any]:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return {"endpoint": {"address": address}}


def _listener(number: int, told: Mapping[str, object] | None) -> dict[str, Any]:
    filters = [{"name": "router", "typed_config": {"@type": ROUTER}}]
    if told is not None:
        filters = [_watch(), _admission(told), *filters]
    route = {
        "name": "r",
        "virtual_hosts": [
            {
                "name": "v",
                "domains": ["*"],
                "routes": [
                    {"match": {"prefix": "/"}, "route": {"cluster": "up"}},
                ],
            }
        ],
    }
    manager = {
        "@type": HCM,
        "stat_prefix": f"way-{number}",
        "route_config": route,
        "http_filters": filters,
    }
    address = {"socket_address": {"address": "127.0.0.1", "port_value": 0}}
    return {
        "name": f"way-{number}",
        "address": address,
        "filter_chains": [{"filters": [{"name": "hcm", "typed_config": manager}]}],
    }


def _watch() -> dict[str, Any]:
    source = {"inline_string": watch_source()}
    return {
        "name": "watch",
        "typed_config": {"@type": LUA, "default_source_code": source},
    }


def _admission(told: Mapping[str, object]) -> dict[str, Any]:
    """Return what stands for admission: it tells the same of every request."""
    entry = {"metadata_namespace": "tokenweir", "value": {**told, "ticket": "x" * 1500}}
    return {
        "name": "set_metadata",
        "typed_config": {"@type": METADATA, "metadata": [entry]},
    }


def ports_of(envoy: EnvoyProcess) -> list[int]:
    """Return the ports, in the order of `WAYS`."""
    lines = envoy.admin("/listeners").splitlines()
    found = dict(line.split("::", 1) for line in lines)
    return [
        int(found[f"way-{number}"].rpartition(":")[2]) for number in range(len(WAYS))
    ]


def busy_us(pid: int) -> float:
    """Return how long all threads of *pid* have run, in microseconds."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1_000


async def measure(envoy: EnvoyProcess, load: Load, rounds: int) -> list[list[float]]:
    """Return what a chunk took in each round, in microseconds: a list for each way."""
    ports = ports_of(envoy)
    for port in ports:
        await read_streams(port, load)
    found: list[list[float]] = [[] for _ in ports]
    for number in range(rounds):
        # Each begins in turn, so that none is always the one behind another.
        for place in range(len(ports)):
            way = (place + number) % len(ports)
            before = busy_us(envoy.pid)
            await read_streams(ports[way], load)
            passed = load.chunks * load.streams
            found[way].append((busy_us(envoy.pid) - before) / passed)
    return found


def table(found: Sequence[Sequence[float]]) -> str:
    """Return what to print."""
    base = found[0]
    lines = [f"{'way':<20} {'us a chunk':>12} {'more: median (quartiles)':>28}"]
    for name, figures in zip(WAYS, found, strict=True):
        more = [a - b for a, b in zip(figures, base, strict=True)]
        low, middle, high = statistics.quantiles(more, n=4)
        spread = f"{middle:+.1f} ({low:+.1f} .. {high:+.1f})"
        lines.append(f"{name:<20} {statistics.median(figures):>12.1f} {spread:>28}")
    return "\n".join(lines)


async def run(load: Load, rounds: int) -> None:
    """Measure, and print."""
    server = await provider(load)
    port = server.sockets[0].getsockname()[1]
    envoy = await asyncio.to_thread(EnvoyProcess.start, bootstrap(port))
    with envoy:
        started = time.monotonic()
        print(table(await measure(envoy, load, rounds)))
        print(f"{rounds} rounds, {time.monotonic() - started:.0f} s")
    server.close()


def main() -> None:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--pace-ms", type=float, default=2.0)
    given = parser.parse_args()
    load = Load(given.chunks, given.streams, given.pace_ms / 1_000)
    asyncio.run(run(load, given.rounds))


if __name__ == "__main__":
    main()
