"""A header block that comes in pieces: HEADERS, then CONTINUATION."""

from __future__ import annotations

from tokenweir.transport.http2.errors import ConnectionBrokenError, ErrorCode
from tokenweir.transport.http2.frames import (
    END_HEADERS,
    END_STREAM,
    PRIORITY_FLAG,
    Payload,
    unpadded,
)

# Four times what metadata may have once it is read: names may be repeated.
MAX_BLOCK_BYTES = 128 * 1024
# Full frames would be eight; a peer may have its reasons, but not for ever.
MAX_PIECES = 64
PRIORITY_BYTES = 5


class HeaderBlock:
    """
    Gathers one block.

    Attributes:
        stream_id: Whose it is.
        ended: Whether the stream ends with it.
        complete: Whether nothing is missing.
    """

    __slots__ = ("_pieces", "_size_bytes", "complete", "ended", "stream_id")

    def __init__(self, flags: int, stream_id: int, payload: Payload) -> None:
        """Begin with a HEADERS frame. Raises: ConnectionBrokenError."""
        self.stream_id = stream_id
        self.ended = bool(flags & END_STREAM)
        self.complete = False
        self._pieces: list[Payload] = []
        self._size_bytes = 0
        piece = unpadded(flags, payload)
        if flags & PRIORITY_FLAG:
            if len(piece) < PRIORITY_BYTES:
                raise ConnectionBrokenError(
                    ErrorCode.FRAME_SIZE_ERROR, "no room for a priority"
                )
            piece = piece[PRIORITY_BYTES:]
        self._add(flags, piece)

    def go_on(self, flags: int, stream_id: int, payload: Payload) -> None:
        """Take a CONTINUATION frame. Raises: ConnectionBrokenError."""
        if stream_id != self.stream_id:
            raise ConnectionBrokenError(
                ErrorCode.PROTOCOL_ERROR, "continues another stream"
            )
        self._add(flags, payload)

    def joined(self) -> bytes:
        """Return the whole block."""
        if len(self._pieces) == 1:
            return bytes(self._pieces[0])
        return b"".join(self._pieces)

    def _add(self, flags: int, piece: Payload) -> None:
        # What was read is not kept for a block that is not complete.
        self.complete = bool(flags & END_HEADERS)
        self._pieces.append(piece if self.complete else bytes(piece))
        self._size_bytes += len(piece)
        if self._size_bytes > MAX_BLOCK_BYTES or len(self._pieces) > MAX_PIECES:
            raise ConnectionBrokenError(
                ErrorCode.ENHANCE_YOUR_CALM, "header block too large"
            )
