"""An app that speaks HTTP/2 (h2c), for its ways to hang up."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, ResponseReceived, StreamEnded

from tests.cases.app import KEY, PATIENCE_SECONDS, request

_STREAM = 1


class LeaveH2(enum.Enum):
    """How an app hangs up."""

    STREAM = "RST_STREAM"
    GOAWAY = "GOAWAY and FIN"
    CONNECTION = "FIN"


@dataclass
class CallH2:
    """
    A request on a connection of its own, whose response comes in.

    Attributes:
        request_id: Of the request.
        body: What came of the response's body so far.
        ended: It is over.
    """

    request_id: str
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    _http: H2Connection
    body: bytearray = field(default_factory=bytearray)
    began: bool = False
    ended: bool = False

    @classmethod
    async def begin(cls, port: int, path: str, body: bytes) -> Self:
        """Send *body* to *path*."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        http = H2Connection(H2Configuration(client_side=True))
        http.initiate_connection()
        request_id = request(path).id
        http.send_headers(
            _STREAM,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":authority", "app.internal"),
                (":path", path),
                ("authorization", f"Bearer {KEY}"),
                ("x-request-id", request_id),
                ("content-type", "application/json"),
            ],
        )
        http.send_data(_STREAM, body, end_stream=True)
        writer.write(http.data_to_send())
        return cls(request_id, reader, writer, http)

    async def until(self, *markers: bytes) -> None:
        """Return once the body holds all *markers*; none: once its head has come."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.began or not all(mark in self.body for mark in markers):
                await self._more()

    async def over(self) -> None:
        """Return once the response is over."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.ended:
                await self._more()

    def leave(self, how: LeaveH2) -> None:
        """Hang up."""
        match how:
            case LeaveH2.STREAM:
                self._http.reset_stream(_STREAM, ErrorCodes.CANCEL)
                self._writer.write(self._http.data_to_send())
            case LeaveH2.GOAWAY:
                self._http.close_connection()
                self._writer.write(self._http.data_to_send())
                self._writer.close()
            case LeaveH2.CONNECTION:
                self._writer.transport.abort()

    def hang_up(self) -> None:
        """Close what is left of the connection."""
        self._writer.transport.abort()

    async def _more(self) -> None:
        data = await self._reader.read(1 << 16)
        assert data, bytes(self.body)
        for event in self._http.receive_data(data):
            match event:
                case ResponseReceived():
                    self.began = True
                case DataReceived(data=piece, flow_controlled_length=length):
                    self.body += piece
                    self._http.acknowledge_received_data(length, _STREAM)
                case StreamEnded():
                    self.ended = True
                case _:  # settings, windows
                    pass
        self._writer.write(self._http.data_to_send())
