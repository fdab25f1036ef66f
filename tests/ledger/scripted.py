"""A server that says what a test has it say, and keeps what it is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Scripted:
    """
    Takes connections on a unix socket, and greets each.

    Attributes:
        path: Of the socket.
        writers: Of each connection, to answer by hand.
        heard: What each of them has said, after the greeting.
        reads: How often something was read from each of them, ditto.
        is_mute: It greets nobody.
    """

    path: Path
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    is_mute: bool = False

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"unix://{self.path}?protocol=2"

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection."""
        number = len(self.writers)
        self.writers.append(writer)
        self.heard.append(b"")
        self.reads.append(0)
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 20):
                if b"CLIENT" not in data:
                    self.heard[number] += data
                    self.reads[number] += 1
                elif not self.is_mute:
                    writer.write(b"+OK\r\n" * data.count(b"*"))
        writer.close()


@contextlib.asynccontextmanager
async def scripted(path: Path) -> AsyncIterator[Scripted]:
    """Serve at *path*, until the end of the block."""
    made = Scripted(path)
    async with await asyncio.start_unix_server(made.serve, path):
        yield made
        for writer in made.writers:
            writer.close()
