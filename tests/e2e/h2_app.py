"""
An app that speaks HTTP/2 by prior knowledge (h2c), several requests at once.

    async with AppH2.open(pod.port) as app:
        stream = app.begin(path, body[:9])
        app.go_on(stream, body[9:], end=True)
        answer = await app.answer(stream)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from tests.pod import KEY

PATIENCE_SECONDS = 30.0
Headers = Sequence[tuple[str, str]]


@dataclass
class AnswerH2:
    """
    What came on a stream.

    Attributes:
        ended: The stream is over as it should be.
        reset: It was reset, with this code.
        informational: Statuses below 200.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    trailers: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    reset: int | None = None
    informational: list[int] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return self.ended or self.reset is not None


class AppH2:
    """One connection to the gateway."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.answers: dict[int, AnswerH2] = {}
        self._reader = reader
        self._writer = writer
        settings = H2Configuration(
            client_side=True,
            header_encoding="utf-8",
            # Some tests send what no app should.
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self._http = H2Connection(settings)
        self._http.initiate_connection()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, port: int) -> AsyncIterator[Self]:
        """Connect to *port* of this machine; hang up at the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        app = cls(reader, writer)
        try:
            yield app
        finally:
            writer.transport.abort()

    def begin(
        self,
        path: str,
        body: bytes = b"",
        *,
        method: str = "POST",
        key: str = KEY,
        headers: Headers = (),
        end: bool = False,
    ) -> int:
        """Send the head and some of the body; return the stream."""
        stream = self._http.get_next_available_stream_id()
        self.answers[stream] = AnswerH2()
        head = [(":method", method), (":scheme", "http"), (":authority", "app")]
        head += [(":path", path), ("authorization", f"Bearer {key}"), *headers]
        self._http.send_headers(stream, head, end_stream=end and not body)
        if body:
            self.go_on(stream, body, end=end)
        self._flush()
        return stream

    def go_on(
        self, stream: int, body: bytes, *, end: bool = False, frame_bytes: int = 16_384
    ) -> None:
        """Send more of the body; it must fit into the window."""
        for at in range(0, len(body), frame_bytes):
            self._http.send_data(stream, body[at : at + frame_bytes], pad_length=3)
        if end:
            self._http.send_data(stream, b"", end_stream=True)
        self._flush()

    def end_with(self, stream: int, trailers: Headers) -> None:
        """End the request with *trailers*."""
        self._http.send_headers(stream, trailers, end_stream=True)
        self._flush()

    def reset(self, stream: int) -> None:
        """Leave the stream."""
        self._http.reset_stream(stream, ErrorCodes.CANCEL)
        self._flush()

    def go_away(self) -> None:
        """Say that no more streams will come."""
        self._http.close_connection()
        self._flush()

    async def until_it_says(self, stream: int, text: bytes) -> None:
        """Return once the answer's body holds *text*."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while text not in self.answers[stream].body:
                await self._more()

    async def answer(self, stream: int) -> AnswerH2:
        """Return what came on *stream*, once it is over."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.answers[stream].over:
                await self._more()
        return self.answers[stream]

    def _flush(self) -> None:
        self._writer.write(self._http.data_to_send())

    async def _more(self) -> None:
        data = await self._reader.read(1 << 16)
        assert data, {stream: bytes(each.body) for stream, each in self.answers.items()}
        for event in self._http.receive_data(data):
            self._take(event)
        self._flush()

    def _take(self, event: Event) -> None:
        match event:
            case InformationalResponseReceived(stream_id=stream, headers=headers):
                named = {str(name): str(value) for name, value in headers or ()}
                self.answers[stream or 0].informational.append(int(named[":status"]))
            case ResponseReceived(stream_id=stream, headers=headers):
                answer = self.answers[stream or 0]
                answer.headers = {
                    str(name): str(value) for name, value in headers or ()
                }
                answer.status = int(answer.headers[":status"])
            case DataReceived(stream_id=stream, data=data):
                self.answers[stream or 0].body += data or b""
                self._http.acknowledge_received_data(
                    event.flow_controlled_length or 0, stream or 0
                )
            case TrailersReceived(stream_id=stream, headers=headers):
                self.answers[stream or 0].trailers = {
                    str(name): str(value) for name, value in headers or ()
                }
            case StreamEnded(stream_id=stream):
                self.answers[stream or 0].ended = True
            case StreamReset(stream_id=stream, error_code=code):
                self.answers[stream or 0].reset = int(code or 0)
            case _:
                pass
