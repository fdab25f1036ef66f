"""Our own server: any number of services, and health, on one unix socket."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tokenweir.telemetry.hooks import Events
from tokenweir.transport.base import Service
from tokenweir.transport.http2.connection import Host
from tokenweir.transport.http2.methods import Health, methods
from tokenweir.transport.http2.statuses import Status
from tokenweir.transport.http2.wire import Wire
from tokenweir.transport.private_files import private_files

# How long a peer may take to read that streams were ended, and calls to be cancelled.
END_SECONDS = 1.0
POLL_SECONDS = 0.005
BACKLOG = 128


class Http2Server:
    """
    Serves *services* to one trusted local peer, at *socket_path*.

    What stands at the path is replaced at the start; at the end it is removed, unless
    a successor has bound it meanwhile.
    """

    def __init__(
        self, services: Sequence[Service], socket_path: Path, events: Events
    ) -> None:
        self._path = socket_path
        self._health = Health()
        self._host = Host(methods(services, self._health), events, time.monotonic)
        self._wires: set[Wire] = set()
        self._server: asyncio.Server | None = None
        self._inode = 0

    async def start(self) -> None:
        """See `tokenweir.transport.base.Server`."""
        self._path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        try:
            with private_files():
                listening.bind(str(self._path))
        except OSError:
            listening.close()
            raise
        self._inode = self._path.stat().st_ino
        self._server = await asyncio.get_running_loop().create_unix_server(
            self._accept, sock=listening, backlog=BACKLOG
        )

    async def drain(self) -> None:
        """See `tokenweir.transport.base.Server`."""
        self._health.drain()

    async def stop(self, grace_seconds: float) -> None:
        """See `tokenweir.transport.base.Server`."""
        if self._server is None:
            return
        self._server.close()
        self._unlink()
        for wire in self._wires:
            wire.connection.go_away()
        await _until(self._are_idle, grace_seconds)
        wires = tuple(self._wires)
        for wire in wires:
            wire.connection.end(Status.UNAVAILABLE, "the processor ends")
            wire.close()
        await _until(lambda: all(_is_over(wire) for wire in wires), END_SECONDS)
        for wire in self._wires:
            wire.abort()

    def _accept(self) -> Wire:
        wire = Wire(self._host, self._wires.discard)
        self._wires.add(wire)
        return wire

    def _are_idle(self) -> bool:
        connections = (wire.connection for wire in self._wires)
        return all(each.refusing and not each.calls for each in connections)

    def _unlink(self) -> None:
        if self._path.exists() and self._path.stat().st_ino == self._inode:
            self._path.unlink()


def _is_over(wire: Wire) -> bool:
    return not wire.connection.calls and wire.is_lost


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until *condition* holds, for *seconds* at the most."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # Polled: what is waited for changes with each stream, and a stop is rare.
    while not condition() and loop.time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)
