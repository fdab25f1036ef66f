"""A connection on a socket: all of ours that touches one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from tokenweir.transport.http2.connection import Connection, Host

# While the peer leaves more than that unread, nothing of what it sends is read.
UNREAD_BYTES = 1024 * 1024
# Below, one copy is cheaper than many buffers handed to the kernel.
JOINED_PARTS_BYTES = 64 * 1024


class Wire(asyncio.Protocol):
    """
    One of a server's sockets.

    Attributes:
        connection: What is said on it.
    """

    def __init__(self, host: Host, on_lost: Callable[[Wire], object]) -> None:
        self._host = host
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.connection = Connection(host, self._wake)

    @property
    def is_lost(self) -> bool:
        """Whether it is closed."""
        return self._transport is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._flush()

    def connection_lost(self, _: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._transport = None
        self.connection.lost()
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            self.connection.receive(data)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not go unheard
            self._host.events.fault("transport", error)
            self.abort()
        if self.connection.closing:
            self.close()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Send what there is, and close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _wake(self) -> None:
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        parts = self.connection.outlet.taken()
        if not parts:
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif sum(map(len, parts)) <= JOINED_PARTS_BYTES:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
