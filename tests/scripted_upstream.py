"""
A provider that plays exact bytes, and keeps every byte that it receives.

A script is a sequence of steps, played when a request has arrived whole:

    bytes                  are written as they are: status line, framing and all
    Pause(seconds)         waits, so that what follows arrives as a piece of its own
    Hold(gate)             waits until the test sets the event
    End.CLOSE              closes the connection (a clean TCP end)
    End.RESET              resets it (RST)
    End.STALL              says nothing more until the other side leaves

A connection stays open for the next request unless a script ends it. What else
arrives on it, such as the tail of a smuggled request, is parsed as the next one:
look at `ScriptedUpstream.requests` and `ScriptedUpstream.received`.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self, SupportsIndex

LAST_CHUNK = b"0\r\n\r\n"
_PATIENCE_SECONDS = 20.0
_READ_LIMIT_BYTES = 128 * 1024 * 1024  # never push back: the test wants every byte


@dataclass(frozen=True)
class Pause:
    """Wait for *seconds*."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """Wait until *gate* is set."""

    gate: asyncio.Event


class End(enum.Enum):
    """How a script ends a connection."""

    CLOSE = "close"
    RESET = "reset"
    STALL = "stall"


Step = bytes | Pause | Hold | End
Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class ReceivedRequest:
    """
    One request, as it came in.

    Attributes:
        connection: Number of the connection, from 0.
        method: As sent.
        target: As sent, query included.
        version: ``"HTTP/1.1"``.
        headers: In order, names as sent.
        body: Without its framing.
    """

    connection: int
    method: str
    target: str
    version: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def all(self, name: str) -> list[str]:
        """Return every value of the header *name* (any case)."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """Return the only value of *name*, or None. Raises: ValueError if several."""
        values = self.all(name)
        if len(values) > 1:
            raise ValueError(f"{name} came {len(values)} times")
        return values[0] if values else None


def reply(
    body: bytes = b"",
    status: str = "200 OK",
    headers: Headers = (("content-type", "application/json"),),
) -> bytes:
    """Return a whole response with a content-length."""
    framing = [*headers, ("content-length", str(len(body)))]
    return head(status, framing) + body


def head(status: str = "200 OK", headers: Headers = ()) -> bytes:
    """Return a status line and headers, nothing added."""
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    """Return *data* as one HTTP chunk."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event_stream(pieces: Iterable[bytes], pause_seconds: float = 0.0) -> list[Step]:
    """Return a 200 event stream whose chunks are *pieces*, and its end."""
    headers = (("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
    steps: list[Step] = [head(headers=headers)]
    for piece in pieces:
        steps.extend((chunk(piece), Pause(pause_seconds)))
    return [*steps, LAST_CHUNK]


def cut(data: bytes, *positions: int) -> list[bytes]:
    """Return *data* in pieces that end at *positions* and at its end."""
    bounds = [0, *sorted(positions), len(data)]
    return [data[start:end] for start, end in pairwise(bounds) if end > start]


class ScriptedUpstream:
    """
    Serves scripts on a free port of 127.0.0.1, over TLS if a context is given.

        async with ScriptedUpstream() as upstream:
            upstream.play(reply(b"{}"))             # to every request
            upstream.play_next(reply(status="503 Service Unavailable"))  # to the next

    Attributes:
        port: Where it listens.
        requests: Those that arrived whole, in that order.
        received: Every byte, by connection.
        hang_ups: Connections that the other side closed.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[bytearray] = []
        self._tls = tls
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.reset()

    def reset(self) -> None:
        """Forget requests and scripts; connections stay."""
        self.requests: list[ReceivedRequest] = []
        self.hang_ups = 0
        self._choose: Callable[[ReceivedRequest], Sequence[Step]] = lambda _: [reply()]
        self._next: deque[Sequence[Step]] = deque()

    @property
    def connections(self) -> int:
        """How many connections were ever opened."""
        return len(self.received)

    def play(self, *steps: Step) -> None:
        """Play *steps* to every request that has no script of its own."""
        self._choose = lambda _: steps

    def play_next(self, *steps: Step) -> None:
        """Play *steps* once; several calls queue up."""
        self._next.append(steps)

    def choose(self, script_of: Callable[[ReceivedRequest], Sequence[Step]]) -> None:
        """Ask *script_of* what to play to every request that has no script."""
        self._choose = script_of

    async def wait_for_requests(self, count: int) -> None:
        """Return once *count* requests have arrived. Raises: TimeoutError."""
        await self._wait_until(lambda: len(self.requests) >= count)

    async def wait_for_hang_ups(self, count: int) -> None:
        """Return once *count* connections were closed by the other side."""
        await self._wait_until(lambda: self.hang_ups >= count)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._protocol, "127.0.0.1", 0, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._connections):
            connection.abort()

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(condition)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        recorded = bytearray()
        reader = _RecordingReader(recorded)
        self.received.append(recorded)
        number = len(self.received) - 1

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = _Connection(number, reader, writer)
            self._connections.add(connection)
            task = asyncio.ensure_future(self._serve(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return asyncio.StreamReaderProtocol(reader, connected)

    async def _serve(self, connection: _Connection) -> None:
        try:
            while (request := await connection.read_request()) is not None:
                self.requests.append(request)
                await self._notify()
                script = self._next.popleft() if self._next else self._choose(request)
                await connection.play(script)
        except OSError:
            pass  # it left while we were writing
        finally:
            self._connections.discard(connection)
            self.hang_ups += connection.gone.is_set()
            connection.abort()
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class _RecordingReader(asyncio.StreamReader):
    """A reader that keeps what arrives even if nobody reads it, and the end too."""

    def __init__(self, recorded: bytearray) -> None:
        super().__init__(limit=_READ_LIMIT_BYTES)
        self.gone = asyncio.Event()
        self._recorded = recorded

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self._recorded.extend(data)
        super().feed_data(data)

    def feed_eof(self) -> None:
        self.gone.set()
        super().feed_eof()

    def set_exception(self, exc: Exception) -> None:
        self.gone.set()
        super().set_exception(exc)


class _Connection:
    """One accepted connection."""

    def __init__(
        self, number: int, reader: _RecordingReader, writer: asyncio.StreamWriter
    ) -> None:
        self.gone = reader.gone
        self._number = number
        self._reader = reader
        self._writer = writer

    def abort(self) -> None:
        """Drop the connection, if it is still there."""
        self._writer.transport.abort()

    async def read_request(self) -> ReceivedRequest | None:
        """Return the next request, or None at the end of the connection."""
        try:
            text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request_line, *lines = text.split("\r\n")[:-2]
            method, target, version = request_line.split(" ")
            headers = tuple(_header(line) for line in lines)
            body = await self._read_body({k.lower(): v for k, v in headers})
        except (asyncio.IncompleteReadError, OSError):
            return None
        return ReceivedRequest(self._number, method, target, version, headers, body)

    async def _read_body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", 0)))
        body = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readuntil(b"\r\n")  # scripts' peers send no trailers
        return body

    async def play(self, script: Sequence[Step]) -> None:
        """Play *script*. Raises: OSError if the other side leaves meanwhile."""
        for step in script:
            match step:
                case bytes():
                    self._writer.write(step)
                    await self._writer.drain()
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Hold(gate):
                    await self._wait(gate)
                case End():
                    await self._end(step)

    async def _end(self, end: End) -> None:
        if end is End.STALL:
            await self.gone.wait()
        elif end is End.RESET:
            linger = struct.pack("ii", 1, 0)  # close() then sends RST
            sock = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._writer.transport.abort()
        else:
            self._writer.close()

    async def _wait(self, gate: asyncio.Event) -> None:
        waits = [
            asyncio.ensure_future(gate.wait()),
            asyncio.ensure_future(self.gone.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.strip()
