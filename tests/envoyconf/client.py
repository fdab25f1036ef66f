"""
An app that writes exact bytes, and looks at exact bytes.

Other clients mend what they get; this one tells whether the framing was right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

_PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Reply:
    """
    One response.

    Attributes:
        status: HTTP status; 0: none came.
        version: ``"HTTP/1.1"``.
        headers: In order, names in lower case.
        body: Without its framing.
        whole: The framing says that nothing is missing (a body that ends with the
            connection can't say it).
    """

    status: int
    version: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    whole: bool

    def all(self, name: str) -> list[str]:
        """Return every value of the header *name*."""
        return [value for key, value in self.headers if key == name]

    def header(self, name: str) -> str | None:
        """Return the only value of *name*, or None. Raises: ValueError if several."""
        values = self.all(name)
        if len(values) > 1:
            raise ValueError(f"{name} came {len(values)} times")
        return values[0] if values else None


def request(
    method: str = "POST",
    path: str = "/v1/chat/completions",
    body: bytes = b"",
    headers: Sequence[str] = (),
    version: str = "HTTP/1.1",
) -> bytes:
    """Return a request; *headers* are whole lines. A body gets a content-length."""
    lines = [f"{method} {path} {version}", "host: app.internal", *headers]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class App:
    """
    A connection to Envoy.

        async with App.connect(port) as app:
            reply = await app.ask(request(body=b"{}"))
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        """Open a connection to *port* of 127.0.0.1."""
        limit = 256 * 1024 * 1024
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=limit))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.hang_up()

    def send(self, data: bytes) -> None:
        """Write *data*."""
        self._writer.write(data)

    def hang_up(self) -> None:
        """Drop the connection."""
        self._writer.transport.abort()

    async def ask(self, data: bytes) -> Reply:
        """Write *data*, which is one request, and return the response."""
        self.send(data)
        return await self.reply(bodiless=data.startswith(b"HEAD "))

    async def reply(self, *, bodiless: bool = False) -> Reply:
        """Return the next response. Raises: TimeoutError."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            try:
                text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            except (asyncio.IncompleteReadError, OSError):
                return Reply(0, "", (), b"", whole=False)
            first, *lines = text.split("\r\n")[:-2]
            pairs = (line.split(": ", 1) for line in lines)
            headers = tuple((name.lower(), value) for name, value in pairs)
            version, status = first.split(" ")[:2]
            body, whole = b"", True
            if not (bodiless or status in ("204", "304")):
                body, whole = await self._body(dict(headers))
        return Reply(int(status), version, headers, body, whole)

    async def _body(self, headers: dict[str, str]) -> tuple[bytes, bool]:
        body = b""
        try:
            if headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readuntil(b"\r\n"), 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readuntil(b"\r\n")
                return body, True
            if "content-length" in headers:
                length = int(headers["content-length"])
                return await self.reader.readexactly(length), True
            while data := await self.reader.read(65_536):
                body += data
        except asyncio.IncompleteReadError as error:
            return body + error.partial, False
        except OSError:
            return body, False
        return body, False


async def ask(port: int, data: bytes) -> Reply:
    """Send one request on a connection of its own and return the response."""
    async with await App.connect(port) as app:
        return await app.ask(data)
