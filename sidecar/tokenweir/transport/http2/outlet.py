"""What leaves on one connection: frames of all its streams, in one order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tokenweir.transport.http2.flow import DEFAULT_WINDOW_BYTES, SendWindow
from tokenweir.transport.http2.frames import (
    END_HEADERS,
    Kind,
    Payload,
    frame,
    frame_head,
)
from tokenweir.transport.http2.headers import NO_TABLE
from tokenweir.transport.http2.settings import PeerSettings


class Starved(Protocol):
    """A stream that could send more if it was let."""

    def unblock(self) -> None:
        """Send what can be sent by now."""


class Outlet:
    """
    Gathers frames until they are taken.

    Attributes:
        window: What the peer lets all streams together send.
        peer: What it has said of itself.
        starved: Streams that wait for windows to grow, by id; in order.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """*wake* is called when there is something to be taken, once until it is."""
        self.window = SendWindow(DEFAULT_WINDOW_BYTES)
        self.peer = PeerSettings()
        self.starved: dict[int, Starved] = {}
        self._wake = wake
        self._parts: list[Payload] = []
        self._before_block = NO_TABLE

    def write(self, data: Payload) -> None:
        """Append *data*, which is whole frames, or a frame's head or payload."""
        if not self._parts:
            self._wake()
        self._parts.append(data)

    def headers(self, stream_id: int, block: bytes, flags: int = 0) -> None:
        """Write *block* as a stream's HEADERS."""
        if self._before_block:
            block = self._before_block + block
            self._before_block = b""
        self.write(frame(Kind.HEADERS, END_HEADERS | flags, stream_id, block))

    def data(self, stream_id: int, payload: Payload) -> None:
        """Write one frame of DATA that the peer's windows have room for."""
        self.window.free_bytes -= len(payload)
        self.write(frame_head(len(payload), Kind.DATA, 0, stream_id))
        self.write(payload)

    def taken(self) -> list[Payload]:
        """Return what there is, and forget it."""
        parts, self._parts = self._parts, []
        return parts

    def unblock(self) -> None:
        """Have streams send what windows have room for by now."""
        for stream in tuple(self.starved.values()):
            if self.window.free_bytes <= 0:
                return
            stream.unblock()
