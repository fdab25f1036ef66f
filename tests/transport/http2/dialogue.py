"""A client (python-hyper's h2) and a connection of ours, without a socket between."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes

from tests.recorder import Recorder
from tests.transport.http2.echo import PATH, STREAM_PATH, Echo
from tokenweir.transport.http2.connection import Connection, Host
from tokenweir.transport.http2.methods import Health, methods

Headers = Iterable[tuple[str, str]]


def framed(message: bytes) -> bytes:
    """Return *message* as gRPC writes it."""
    return struct.pack(">BI", 0, len(message)) + message


def head(path: str = PATH, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the head of a request of gRPC's."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "here"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *more,
    ]


@dataclass
class Heard:
    """
    What came back on one stream.

    Attributes:
        headers: Of the response.
        data: Of all its frames.
        trailers: Empty, if there were none.
        ended: Whether the server has ended it.
        reset: By which code, or None.
    """

    headers: dict[str, str] = field(default_factory=dict)
    data: bytes = b""
    trailers: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    reset: int | None = None

    @property
    def messages(self) -> list[bytes]:
        """The whole messages."""
        found, rest = [], self.data
        while rest:
            size = int.from_bytes(rest[1:5])
            found.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return found

    @property
    def status(self) -> tuple[str, str]:
        """Code and text of gRPC, from the trailers, or from headers alone."""
        told = self.trailers or self.headers
        return told["grpc-status"], told.get("grpc-message", "")


class Dialogue:
    """
    Plays a peer of a connection.

    Attributes:
        echo: What is served at `PATH`.
        sink: What is served at `STREAM_PATH`: it has a last word.
        recorder: Hears of faults.
        connection: Of ours.
        client: Of h2's.
        heard: What came back, by stream.
        terminated: How the connection was ended, if so.
        wakes: How often we were told that there is something to send.
        now: What the clock says.
    """

    def __init__(self, settings: dict[SettingCodes | int, int] | None = None) -> None:
        self.echo = Echo()
        self.sink = Echo(STREAM_PATH, b"bye")
        self.recorder = Recorder()
        self.health = Health()
        self.wakes = 0
        self.now = 0.0
        host = Host(
            methods((self.echo, self.sink), self.health),
            self.recorder,
            lambda: self.now,
        )
        self.connection = Connection(host, self._wake)
        self.client = H2Connection(H2Configuration(client_side=True))
        self.client.initiate_connection()
        if settings:
            self.client.update_settings(settings)
        self.heard: dict[int, Heard] = {}
        self.events: list[Event] = []
        self.terminated: ConnectionTerminated | None = None

    def _wake(self) -> None:
        self.wakes += 1

    def play(self) -> None:
        """Let both sides say what they have to, until both are silent."""
        while True:
            said = self.client.data_to_send()
            if said:
                self.connection.receive(said)
            answered = b"".join(self.connection.outlet.taken())
            if not said and not answered:
                return
            self._hear(self.client.receive_data(answered))

    def raw(self, data: bytes) -> None:
        """Send *data*, which h2 would not, and hear what comes back."""
        self.connection.receive(data)
        self.play()

    def open(self, path: str = PATH, *more: tuple[str, str], end: bool = False) -> int:
        """Open a stream."""
        stream_id = self.client.get_next_available_stream_id()
        self.heard[stream_id] = Heard()
        self.client.send_headers(stream_id, head(path, *more), end_stream=end)
        self.play()
        return stream_id

    def say(self, stream_id: int, *messages: bytes, end: bool = False) -> None:
        """Send *messages* in one frame."""
        data = b"".join(framed(message) for message in messages)
        self.client.send_data(stream_id, data, end_stream=end)
        self.play()

    async def turns(self, count: int = 5) -> None:
        """Let tasks run, and hear what they say."""
        for _ in range(count):
            await asyncio.sleep(0)
            self.play()

    def _hear(self, events: list[Any]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, ConnectionTerminated):
                self.terminated = event
            elif (heard := self.heard.get(getattr(event, "stream_id", 0))) is not None:
                self._hear_stream(event, heard)

    def _hear_stream(self, event: Any, heard: Heard) -> None:
        match event:
            case ResponseReceived():
                heard.headers = _decoded(event.headers)
            case DataReceived():
                heard.data += event.data
                size = event.flow_controlled_length
                if self.fetching:
                    self.client.acknowledge_received_data(size, event.stream_id)
            case TrailersReceived():
                heard.trailers = _decoded(event.headers)
            case StreamEnded():
                heard.ended = True
            case StreamReset():
                heard.reset = event.error_code
            case _:
                pass

    fetching = True
    """Whether the client lets the server send more."""


def _decoded(headers: Any) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers}
