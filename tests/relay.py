"""
A relay between a client and a server, which can lose and delay what is answered.

    async with relay_to(server.path, tmp_path / "relay.sock") as relay:
        relay.drops_replies = True
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Relay:
    """
    Passes bytes on, in both directions.

    Attributes:
        target: The server's unix socket.
        path: Its own.
        drops_replies: Requests reach the server; instead of an answer the connection
            is closed.
        delay_seconds: Before an answer is passed on.
    """

    target: Path
    path: Path
    drops_replies: bool = False
    delay_seconds: float = 0.0
    _pumps: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"unix://{self.path}"

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Relay one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        try:
            await self._relay(reader, writer)
        except asyncio.CancelledError:
            pass  # by `stop`: asyncio would print it as an error
        finally:
            writer.close()
            self._pumps.discard(task)

    async def stop(self) -> None:
        """End all connections."""
        for pump in tuple(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there, back = await asyncio.open_unix_connection(str(self.target))
        requests = asyncio.create_task(_pump(reader, back))
        try:
            await self._answer(there, writer)
        finally:
            # Whoever stops the relay must not leave half of a connection behind.
            requests.cancel()
            back.close()

    async def _answer(
        self, there: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await there.read(65_536):
            if self.drops_replies:
                return
            await asyncio.sleep(self.delay_seconds)
            writer.write(data)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


@contextlib.asynccontextmanager
async def relay_to(target: Path, path: Path) -> AsyncIterator[Relay]:
    """Run a relay to *target* that listens at *path*."""
    relay = Relay(target, path)
    server = await asyncio.start_unix_server(relay.serve, str(path))
    async with server:
        yield relay
        await relay.stop()
