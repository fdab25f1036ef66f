"""
An app that looks at exact bytes, piece by piece, and knows how to hang up.

    call = await Call.begin(port, request(api.path, body))
    await call.until(b"weir")
    call.leave(Leave.RESET)

Each call has a connection and a request id of its own.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

PATIENCE_SECONDS = 30.0
KEY = "sk-tw-acme"

_numbers = itertools.count()


class Leave(enum.Enum):
    """How an app hangs up."""

    CLOSE = "FIN"
    RESET = "RST"
    HALF_CLOSE = "shutdown of the writing side"


@dataclass(frozen=True)
class Request:
    """A request, ready to be sent: *raw*, under the id *id*."""

    id: str
    raw: bytes


@dataclass(frozen=True)
class Reply:
    """
    One response.

    Attributes:
        status: HTTP status.
        headers: The last value of each, names in lower case.
        body: Without its framing.
        whole: The framing says that nothing is missing.
        request_id: Of the request.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool
    request_id: str


def request(
    path: str,
    body: bytes = b"",
    *headers: str,
    key: str = KEY,
    method: str = "POST",
) -> Request:
    """Return a request; *headers* are whole lines."""
    request_id = f"case-{next(_numbers)}"
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: app.internal",
        f"authorization: Bearer {key}",
        f"x-request-id: {request_id}",
        *headers,
    ]
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return Request(request_id, "\r\n".join([*lines, "", ""]).encode() + body)


@dataclass
class Call:
    """
    A request whose response comes in.

    Attributes:
        request_id: Of the request.
        status: HTTP status; 0: none yet.
        headers: See `Reply`.
        body: What came of it so far, without framing.
        arrivals: When so many bytes of it had come: (seconds, bytes).
        whole: The framing says that it is over.
    """

    request_id: str
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    whole: bool = False
    _unread: bytearray = field(default_factory=bytearray)
    _left: int | None = None

    @classmethod
    async def begin(cls, port: int, request: Request) -> Self:
        """Send *request* to *port* of 127.0.0.1."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.raw)
        return cls(request.id, reader, writer)

    async def until(self, *markers: bytes) -> None:
        """Return once the body holds all *markers*; none: once its head has come."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.status or not all(mark in self.body for mark in markers):
                assert await self._more(), bytes(self.body)

    async def until_length(self, size_bytes: int) -> None:
        """Return once so much of the body has come."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.body) < size_bytes:
                assert await self._more(), bytes(self.body)

    async def reply(self) -> Reply:
        """Return the response once it is over, or broken off; and hang up."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.whole and await self._more():
                pass
        self.leave(Leave.CLOSE)
        return Reply(
            self.status, self.headers, bytes(self.body), self.whole, self.request_id
        )

    def leave(self, how: Leave) -> None:
        """Hang up."""
        if how is Leave.HALF_CLOSE:
            self._writer.write_eof()
            return
        if how is Leave.RESET:
            linger = struct.pack("ii", 1, 0)  # close() then sends RST
            sock = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    async def _more(self) -> bool:
        """Take what comes next, or tell that nothing will."""
        try:
            data = await self._reader.read(1 << 20)
        except OSError:
            return False
        if not data:
            self.whole = self.whole or (self.status > 0 and self._left is None)
            return False
        self._unread += data
        if not self.status:
            self._take_head()
        if self.status:
            self._take_body()
        return True

    def _take_head(self) -> None:
        head, found, rest = bytes(self._unread).partition(b"\r\n\r\n")
        if not found:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ")[1])
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self._unread[:] = rest
        if self.headers.get("transfer-encoding") == "chunked":
            self._left = 0
        elif "content-length" in self.headers:
            self._left = int(self.headers["content-length"])
            self.whole = self._left == 0

    def _take_body(self) -> None:
        before = len(self.body)
        if self.headers.get("transfer-encoding") == "chunked":
            self._take_chunks()
        elif self._left is None:  # until the connection ends
            self.body += self._unread
            self._unread.clear()
        else:
            self.body += self._unread[: self._left]
            self._left -= len(self.body) - before
            self._unread.clear()
            self.whole = self._left == 0
        if len(self.body) > before:
            self.arrivals.append((time.monotonic(), len(self.body)))

    def _take_chunks(self) -> None:
        while not self.whole:
            line, found, _ = bytes(self._unread[:20]).partition(b"\r\n")
            if not found:
                return
            size, start = int(line, 16), len(line) + 2
            if len(self._unread) < start + size + 2:
                return
            self.body += self._unread[start : start + size]
            del self._unread[: start + size + 2]
            self.whole = size == 0


async def ask(port: int, request: Request) -> Reply:
    """Send *request* and return its response."""
    call = await Call.begin(port, request)
    return await call.reply()


async def ask_all(port: int, requests: Sequence[Request]) -> list[Reply]:
    """Send all *requests* at once and return their responses, in their order."""
    return list(await asyncio.gather(*(ask(port, each) for each in requests)))
