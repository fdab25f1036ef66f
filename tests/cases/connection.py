"""
A connection of an app to the gateway: exact bytes out, strict framing in.

    answer = await call(pod.port, request(OPENAI.request(stream=False)))

    async with Connection.open(pod.port) as app:
        await app.send(request(OPENAI.request()))
        head = await app.head()
        app.reset()

What is no answer in the sense of RFC 9112 (a chunk that is spliced, bytes behind the
end, two lengths) raises `FramingError`: clients differ in what they forgive.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tests.pod import KEY

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
LINE_END = b"\r\n"
PATIENCE_SECONDS = 30.0
# An answer may hold a line or a piece of that size.
READ_LIMIT_BYTES = 256 * 1024 * 1024
# Statuses without a body, whatever the headers say.
BODILESS = frozenset({204, 304})

Headers = Sequence[tuple[str, str]]


class FramingError(Exception):
    """What came is no HTTP/1.1 answer, or not a whole one."""


@dataclass(frozen=True)
class Head:
    """
    The head of an answer.

    Attributes:
        status: As sent.
        headers: In order; names in lower case.
    """

    status: int
    headers: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        """Return every value of the header *name* (lower case)."""
        return [value for key, value in self.headers if key == name]

    def header(self, name: str) -> str | None:
        """Return the only value of *name*, or None. Raises: FramingError if several."""
        values = self.all(name)
        if len(values) > 1:
            raise FramingError(f"{name} came {len(values)} times")
        return values[0] if values else None


@dataclass(frozen=True)
class Answer:
    """
    A whole answer.

    Attributes:
        head: Status and headers.
        body: Without its framing.
        seconds: From the last byte of the request to the last of the answer.
    """

    head: Head
    body: bytes
    seconds: float

    @property
    def status(self) -> int:
        """The status."""
        return self.head.status

    @property
    def refusal(self) -> str | None:
        """Why the gateway refused, or None if the provider answered."""
        return self.head.header("x-tokenweir-refusal")

    def header(self, name: str) -> str | None:
        """See `Head.header`."""
        return self.head.header(name)

    def json(self) -> Any:
        """Return what the body says."""
        return json.loads(self.body)

    @property
    def detail(self) -> dict[str, Any]:
        """The object `tokenweir` of a refusal, in whichever dialect."""
        found: dict[str, Any] = self.json()["error"]["tokenweir"]
        return found


def request(
    body: bytes = b"",
    *,
    method: str = "POST",
    path: str = CHAT,
    key: str | None = KEY,
    headers: Headers = (),
    version: str = "HTTP/1.1",
    chunks: Sequence[bytes] | None = None,
) -> bytes:
    """
    Return a whole request, with *key* as OpenAI's SDK sends it.

    With *chunks* they are the body, in chunked coding. Otherwise there is a
    content-length where there is a *body*, or the method is one that has one.
    """
    lines = [f"{method} {path} {version}", "host: tokenweir"]
    if key is not None:
        lines.append(f"authorization: Bearer {key}")
    lines += [f"{name}: {value}" for name, value in headers]
    if chunks is not None:
        lines.append("transfer-encoding: chunked")
        body = b"".join(chunked(piece) for piece in chunks) + chunked(b"")
    elif body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def chunked(piece: bytes) -> bytes:
    """Return *piece* in chunked coding; an empty one ends the body."""
    return f"{len(piece):x}".encode() + LINE_END + piece + LINE_END


class _Reader(asyncio.StreamReader):
    """Gives what came before a reset, as a client that reads at once has it."""

    def set_exception(self, exc: Exception) -> None:
        if isinstance(exc, ConnectionError):
            self.feed_eof()
        else:
            super().set_exception(exc)


class Connection:
    """One connection to the gateway."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._sent_at = time.monotonic()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, port: int) -> AsyncIterator[Self]:
        """Connect to *port* of this machine, and close at the end."""
        loop = asyncio.get_running_loop()
        reader = _Reader(limit=READ_LIMIT_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", port)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        app = cls(reader, writer)
        try:
            yield app
        finally:
            app.hang_up()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    # === out ====================================================================

    async def send(self, data: bytes) -> None:
        """Send *data* as it is; a gateway that stopped reading is no error."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()
        self._sent_at = time.monotonic()

    def hang_up(self) -> None:
        """Close the connection (FIN)."""
        self._writer.close()

    def reset(self) -> None:
        """Reset the connection (RST)."""
        linger = struct.pack("ii", 1, 0)
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    def half_close(self) -> None:
        """Say that nothing more will be sent, and stay for the answer."""
        self._writer.write_eof()

    # === in =====================================================================

    async def head(self) -> Head:
        """Return the head of the next final answer. Raises: FramingError."""
        while True:
            async with asyncio.timeout(PATIENCE_SECONDS):
                head = _parsed(await self._until(LINE_END * 2))
            if head.status >= 200:
                return head

    async def piece(self, *, patience_seconds: float = PATIENCE_SECONDS) -> bytes:
        """Return what has come of a body, framing included; empty at its end."""
        async with asyncio.timeout(patience_seconds):
            return await self._reader.read(65_536)

    async def everything(self) -> bytes:
        """Return what comes until the connection ends, framing included."""
        received = b""
        while data := await self.piece():
            received += data
        return received

    async def line(self) -> bytes:
        """Return the next line, such as that of an informational answer."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await self._until(LINE_END)).removesuffix(LINE_END)

    async def chunk(self) -> bytes:
        """Return the next piece of a chunked body; empty: that was the last."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            size_line = (await self._until(LINE_END)).removesuffix(LINE_END)
            try:
                size = int(size_line, 16)
            except ValueError:
                raise FramingError(f"no chunk size: {size_line[:80]!r}") from None
            data = await self._exactly(size + 2)
        if not data.endswith(LINE_END):
            raise FramingError("a chunk does not end where it said")
        return data[:-2]

    async def answer(self, *, to: str = "POST") -> Answer:
        """Return the whole answer to a request of method *to*. Raises: FramingError."""
        head = await self.head()
        if to == "HEAD" or head.status in BODILESS:
            return self._answer(head, b"")
        length = head.header("content-length")
        if head.header("transfer-encoding") == "chunked":
            if length is not None:
                raise FramingError("both a length and chunks")
            return self._answer(head, await self.rest())
        async with asyncio.timeout(PATIENCE_SECONDS):
            if length is not None:
                return self._answer(head, await self._exactly(int(length)))
            return self._answer(head, await self._reader.read())

    async def rest(self) -> bytes:
        """Return what is left of a chunked body."""
        body = bytearray()
        while data := await self.chunk():
            body += data
        return bytes(body)

    async def nothing_more(self) -> bytes:
        """Return what comes until the gateway closes: nothing should."""
        self.half_close()
        return await self.piece()

    def _answer(self, head: Head, body: bytes) -> Answer:
        return Answer(head, body, time.monotonic() - self._sent_at)

    async def _until(self, end: bytes) -> bytes:
        try:
            return await self._reader.readuntil(end)
        except asyncio.IncompleteReadError as error:
            raise FramingError(f"it ends after {error.partial[-200:]!r}") from None

    async def _exactly(self, size_bytes: int) -> bytes:
        try:
            return await self._reader.readexactly(size_bytes)
        except asyncio.IncompleteReadError as error:
            missing = size_bytes - len(error.partial)
            raise FramingError(f"{missing} bytes are missing") from None


async def call(port: int, data: bytes) -> Answer:
    """Send the request *data* on a connection of its own; return the whole answer."""
    async with Connection.open(port) as app:
        await app.send(data)
        return await app.answer(to=data.partition(b" ")[0].decode())


def _parsed(text: bytes) -> Head:
    status_line, *lines = text.decode("latin-1").split("\r\n")[:-2]
    _, status, *_ = status_line.split(" ")
    pairs = (line.partition(":") for line in lines)
    return Head(
        int(status), tuple((name.lower(), value.strip()) for name, _, value in pairs)
    )
