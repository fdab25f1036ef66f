"""Flow control, both ways (RFC 9113, section 5.2)."""

from __future__ import annotations

from tokenweir.transport.http2.errors import ErrorCode, PeerError

DEFAULT_WINDOW_BYTES = 65_535
MAX_WINDOW_BYTES = 2**31 - 1


class SendWindow:
    """
    What the peer lets us send.

    Attributes:
        free_bytes: How much still; below 0 after the peer has changed its mind.
    """

    __slots__ = ("free_bytes",)

    def __init__(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes

    def grow(self, by_bytes: int, error: type[PeerError]) -> None:
        """
        Take what the peer lets us send besides; by a setting, it may be less than 0.

        Raises: *error*, if it is more than a window can hold.
        """
        if self.free_bytes + by_bytes > MAX_WINDOW_BYTES:
            raise error(ErrorCode.FLOW_CONTROL_ERROR, "window too large")
        self.free_bytes += by_bytes


class ReceiveWindow:
    """What we let the peer send: always up to *size_bytes* that are not used up."""

    __slots__ = ("_free_bytes", "_used_bytes", "_worth_bytes")

    def __init__(self, size_bytes: int) -> None:
        self._free_bytes = size_bytes
        self._used_bytes = 0
        # Telling of each byte would double the frames; telling late stalls the peer.
        self._worth_bytes = size_bytes // 2

    def take(self, size_bytes: int, error: type[PeerError]) -> None:
        """Take what has arrived. Raises: *error*, if it is more than was let in."""
        if size_bytes > self._free_bytes:
            raise error(ErrorCode.FLOW_CONTROL_ERROR, "more than the window lets in")
        self._free_bytes -= size_bytes

    def use(self, size_bytes: int) -> int:
        """Note that *size_bytes* are used up; return what to let in now, often 0."""
        used = self._used_bytes + size_bytes
        if used < self._worth_bytes:
            self._used_bytes = used
            return 0
        self._used_bytes = 0
        self._free_bytes += used
        return used
