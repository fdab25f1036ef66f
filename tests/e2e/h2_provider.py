"""
A provider that plays scripts over HTTP/2, with TLS and ALPN or by prior knowledge.

    async with H2Provider(authority.server_context("localhost", alpn=("h2",))) as far:
        far.play(Answer(200), b"{}", END)

A script is played to each request once it has come whole, on its own stream.
"""

from __future__ import annotations

import asyncio
import enum
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame


@dataclass(frozen=True)
class Begin:
    """The head of the answer."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)


@dataclass(frozen=True)
class Trailers:
    """Trailers, which end the stream."""

    headers: tuple[tuple[str, str], ...] = (("x-checksum", "1"),)


class Then(enum.Enum):
    """What else a script may do."""

    END = "an empty frame that ends the stream"
    GO_AWAY = "GOAWAY: no new streams"
    HANG_UP = "the connection is closed"
    PAUSE = "what came so far arrives by itself"
    SEEN = "the app has seen what came so far: see `H2Provider.seen`"


Step = Begin | Trailers | Then | ErrorCodes | bytes


@dataclass
class Received:
    """One request."""

    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)


class H2Provider:
    """
    The provider, on a free port.

    Attributes:
        requests: Those that arrived whole.
        resets: How many streams the other side has reset.
        seen: To be set by whoever watches the app.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Received] = []
        self.resets = 0
        self.seen = asyncio.Event()
        self._tls = tls
        self._script: Sequence[Step] = (Begin(), Then.END)
        self._next: deque[Sequence[Step]] = deque()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The TCP port."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def play(self, *steps: Step) -> None:
        """Play *steps* to every request."""
        self.requests, self.resets = [], 0
        self.seen.clear()
        self._script = steps
        self._next.clear()

    def play_next(self, *steps: Step) -> None:
        """Play *steps* to the next request that has no other script, once."""
        self._next.append(steps)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._tls
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.add(writer)
        http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        http.initiate_connection()
        open_requests: dict[int, Received] = {}
        try:
            while not writer.transport.is_closing():
                writer.write(http.data_to_send())
                data = await reader.read(65_536)
                if not data:
                    break
                for event in http.receive_data(data):
                    self._take(http, event, open_requests, writer)
        except (OSError, ProtocolError):
            pass  # it left, or goes on after our GOAWAY
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _take(
        self,
        http: H2Connection,
        event: Event,
        requests: dict[int, Received],
        writer: asyncio.StreamWriter,
    ) -> None:
        match event:
            case RequestReceived(stream_id=stream, headers=headers):
                assert stream is not None
                assert headers is not None
                named = {str(name): str(value) for name, value in headers}
                requests[stream] = Received(named)
            case DataReceived(stream_id=stream, data=data):
                assert stream is not None
                assert data is not None
                requests[stream].body += data
                http.acknowledge_received_data(
                    event.flow_controlled_length or 0, stream
                )
            case StreamEnded(stream_id=stream):
                assert stream is not None
                self.requests.append(requests.pop(stream))
                script = self._next.popleft() if self._next else self._script
                task = asyncio.ensure_future(self._answer(http, stream, script, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case StreamReset():
                self.resets += 1
            case _:
                pass

    async def _answer(
        self,
        http: H2Connection,
        stream: int,
        script: Sequence[Step],
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            for step in script:
                await _play(http, stream, step, writer)
                if step is Then.SEEN:
                    await self.seen.wait()
                writer.write(http.data_to_send())
                await writer.drain()
        except (OSError, ProtocolError):
            pass  # the other side has left the stream


async def _play(
    http: H2Connection, stream: int, step: Step, writer: asyncio.StreamWriter
) -> None:
    match step:
        case Begin(status, headers):
            http.send_headers(stream, [(":status", str(status)), *headers])
        case Trailers(headers):
            http.send_headers(stream, headers, end_stream=True)
        case bytes():
            for at in range(0, len(step), 16_384):
                http.send_data(stream, step[at : at + 16_384])
        case ErrorCodes():
            http.reset_stream(stream, step)
        case Then():
            await _do(http, stream, step, writer)


async def _do(
    http: H2Connection, stream: int, what: Then, writer: asyncio.StreamWriter
) -> None:
    match what:
        case Then.END:
            http.send_data(stream, b"", end_stream=True)
        case Then.GO_AWAY:
            # Not by the library: it would be over for it at once.
            writer.write(GoAwayFrame(0, last_stream_id=stream).serialize())
        case Then.HANG_UP:
            writer.transport.abort()
        case Then.PAUSE:
            await asyncio.sleep(0.05)
        case Then.SEEN:
            pass  # whoever plays waits for it
