"""
What a message costs in each of our transports, and whether ours lasts.

    python -m bench.transport [--seconds 4] [--rounds 3] [--streams 1,16,64]
    python -m bench.transport --soak 1000000

Each transport serves an ext_proc that does nothing in a process of its own, over uvloop,
as the product does. A peer plays Envoy on a unix socket: it opens a stream, sends what
Envoy sends of a request (its head, then its body), each after the answer before, and
opens the next one when the server has ended it. Transports are measured by turns, round
by round; the figure is CPU of the server per message, the median of rounds, with the
least and the most, and the last column is the ratio of medians in this run.

`--soak` plays so many streams on ours, and prints what memory it has meanwhile; it exits 1
if it has grown by more than a tenth after the first one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import cast

import uvloop

from bench.open_streams import resident_mib
from tests.recorder import Recorder
from tokenweir.transport.base import Call
from tokenweir.transport.choice import Transport, make_server

PATH = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
MESSAGES = (b"h" * 700, b"b" * 4_096)
ANSWER = b"a" * 60
CHUNK_STREAMS = 1_000
SOAK_STREAMS = 64
SOAK_REPORTS = 20
GROWTH = 1.1


class NoOpCall:
    """Answers two messages."""

    def __init__(self) -> None:
        self.finished = False
        self._answered = 0

    def receive(self, message: bytes) -> bytes | Awaitable[bytes]:
        """See `Call`."""
        self._answered += 1
        self.finished = self._answered == len(MESSAGES)
        return self._later() if message == b"later" else ANSWER

    async def _later(self) -> bytes:
        return ANSWER

    def closed(self) -> None:
        """See `Call`."""


class NoOp:
    """See `tokenweir.transport.base.Service`."""

    path = PATH
    name = "no-op"
    refusal = ""
    last_word = None

    def open(self, metadata: Mapping[str, str]) -> Call:
        """Return a call, whoever asks."""
        assert metadata
        return NoOpCall()


async def serve(transport: Transport, path: Path) -> None:
    """Serve until this process is killed."""
    server = make_server(transport, [NoOp()], path, Recorder())
    await server.start()
    await asyncio.Event().wait()
    await server.stop(0)  # never: but grpcio's ends when nobody refers to it


# === the peer ======================================================================


def _frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3) + bytes((kind, flags)) + stream_id.to_bytes(4)
    return head + payload


def _field(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value


BLOCK = b"\x20" + b"".join(
    _field(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", PATH.encode()),
        (b":authority", b"processor"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"x-tokenweir-role", b"admission"),
    )
)
DATA, HEADERS, SETTINGS, PING, ACK, END_HEADERS = 0, 1, 4, 6, 1, 4
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(
    SETTINGS, 0, 0, (4).to_bytes(2) + (2**24).to_bytes(4)
)
GROW = _frame(8, 0, 0, (2**30).to_bytes(4))


class Peer(asyncio.Protocol):
    """Plays *total* streams, *at_once* of them at a time."""

    def __init__(self, at_once: int, total: int, deadline: float) -> None:
        self.ended = 0
        self.done = asyncio.get_running_loop().create_future()
        self._at_once = at_once
        self._total = total
        self._deadline = deadline
        self._next_id = 1
        self._sent: dict[int, int] = {}
        self._rest = b""
        self._out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the first streams."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none
        self._out += (HELLO, GROW)
        for _ in range(self._at_once):
            self._open()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Answer what the server says."""
        data = self._rest + data
        at = 0
        while len(data) - at >= 9:
            size = int.from_bytes(data[at : at + 3])
            if len(data) - at - 9 < size:
                break
            stream_id = int.from_bytes(data[at + 5 : at + 9])
            self._hear(data[at + 3], data[at + 4], stream_id, data[at + 9 : at + 17])
            at += 9 + size
        self._rest = data[at:]
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell that it is over."""
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("it hung up"))

    def _hear(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == DATA:
            self._say(stream_id)
        elif kind == HEADERS and flags & 1:
            self._sent.pop(stream_id)
            self.ended += 1
            if self.ended == self._total or time.monotonic() > self._deadline:
                if not self.done.done():
                    self.done.set_result(None)
            elif self._next_id // 2 < self._total:
                self._open()
        elif kind in (SETTINGS, PING) and not flags & ACK:
            self._out.append(_frame(kind, ACK, 0, b"" if kind == SETTINGS else payload))

    def _open(self) -> None:
        self._out.append(_frame(HEADERS, END_HEADERS, self._next_id, BLOCK))
        self._sent[self._next_id] = 0
        self._say(self._next_id)
        self._next_id += 2

    def _say(self, stream_id: int) -> None:
        sent = self._sent[stream_id]
        if sent < len(MESSAGES):
            message = MESSAGES[sent]
            framed = b"\0" + len(message).to_bytes(4) + message
            self._out.append(_frame(DATA, 0, stream_id, framed))
            self._sent[stream_id] = sent + 1

    def _flush(self) -> None:
        self._transport.write(b"".join(self._out))
        self._out.clear()


async def play(path: Path, at_once: int, total: int, seconds: float) -> int:
    """Return how many streams ended."""
    _, peer = await asyncio.get_running_loop().create_unix_connection(
        lambda: Peer(at_once, total, time.monotonic() + seconds), str(path)
    )
    await asyncio.wait_for(peer.done, seconds + 60)
    peer._transport.abort()  # noqa: SLF001 - its own
    return peer.ended


# === measuring =====================================================================


@contextlib.contextmanager
def server(transport: Transport, folder: Path) -> Iterator[tuple[int, Path]]:
    """Have *transport* serve in a process of its own; give its id, and the socket."""
    path = folder / f"{transport}.sock"
    command = [sys.executable, "-m", "bench.transport", "--serve", transport, str(path)]
    process = subprocess.Popen(command)
    try:
        while not path.is_socket():
            time.sleep(0.05)
        time.sleep(0.2)
        yield process.pid, path
    finally:
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float:
    """Return what CPU a process has used, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare(seconds: float, rounds: int, at_once: list[int]) -> None:
    """Print a table of both transports."""
    print("| streams at once | transport | CPU us/message | messages/s | ratio |")
    print("|---|---|---|---|---|")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tw-")))
        servers = {
            transport: stack.enter_context(server(transport, folder))
            for transport in Transport
        }
        for count in at_once:
            costs: dict[Transport, list[float]] = {each: [] for each in Transport}
            rates: dict[Transport, list[float]] = {each: [] for each in Transport}
            for _ in range(rounds):
                for transport, (pid, path) in servers.items():
                    before, began = cpu_seconds(pid), time.monotonic()
                    ended = uvloop.run(play(path, count, 2**30, seconds))
                    messages = ended * len(MESSAGES)
                    cpu = cpu_seconds(pid) - before
                    costs[transport].append(cpu / messages * 1e6)
                    rates[transport].append(messages / (time.monotonic() - began))
            for transport in Transport:
                cost = costs[transport]
                ratio = median(costs[Transport.GRPCIO]) / median(cost)
                print(
                    f"| {count} | {transport} | {median(cost):.1f} "
                    f"({min(cost):.1f}-{max(cost):.1f}) "
                    f"| {median(rates[transport]):,.0f} | {ratio:.1f} |"
                )


def soak(total: int) -> int:
    """Play *total* streams on ours; return how many tenths too much memory grew."""
    with (
        tempfile.TemporaryDirectory(prefix="tw-") as folder,
        server(Transport.ASYNCIO, Path(folder)) as (pid, path),
    ):
        began, first = time.monotonic(), 0.0
        each = max(total // SOAK_REPORTS, CHUNK_STREAMS)
        for done in range(each, total + 1, each):
            uvloop.run(play(path, SOAK_STREAMS, each, 3_600))
            now = resident_mib(pid)
            first = first or now
            print(
                f"{done:>9,} streams, {time.monotonic() - began:5.0f} s, "
                f"{cpu_seconds(pid):6.1f} s of CPU, {now:.1f} MiB"
            )
        return int(now > first * GROWTH)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", default="1,16,64")
    parser.add_argument("--soak", type=int, metavar="N")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        name, path = arguments.serve
        uvloop.run(serve(Transport(name), Path(path)))
    elif arguments.soak:
        return soak(arguments.soak)
    else:
        at_once = [int(count) for count in arguments.streams.split(",")]
        compare(arguments.seconds, arguments.rounds, at_once)
    return 0


if __name__ == "__main__":
    sys.exit(main())
