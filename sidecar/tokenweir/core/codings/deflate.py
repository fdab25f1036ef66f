"""
gzip and deflate (RFC 1950, 1951, 1952), one stream after the other.

A gzip body may have several members (RFC 1952, 2.2): all of them are the body.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from tokenweir.core.codings.base import CodingError

_OUTPUT_BYTES = 64 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_ZLIB_WINDOW = zlib.MAX_WBITS
_RAW_WINDOW = -zlib.MAX_WBITS

WindowOf = Callable[[bytes], int | None]
"""Tells zlib's window from the first bytes, or None if there are too few of them."""


class Deflate:
    """
    A body that zlib reads; *window_of* tells how.

    Attributes:
        streams: See `Coding`.
    """

    def __init__(self, window_of: WindowOf) -> None:
        self._window_of = window_of
        self._head = b""
        self._stream: zlib._Decompress | None = None
        self.streams = 0

    @property
    def whole(self) -> bool:
        """See `Coding`."""
        return self.streams > 0 and self._stream is None and not self._head

    def decode(self, piece: bytes) -> Iterator[bytes]:
        """See `Coding`."""
        while piece:
            stream, piece = self._begun(piece)
            if stream is None:
                return
            yield from self._inflated(stream, piece)
            # Behind the end of a stream there may be another one.
            piece = stream.unused_data

    def _begun(self, unread: bytes) -> tuple[zlib._Decompress | None, bytes]:
        if self._stream is None:
            unread = self._head + unread
            window = self._window_of(unread)
            if window is None:
                self._head = unread
                return None, b""
            self._head = b""
            self._stream = zlib.decompressobj(window)
        return self._stream, unread

    def _inflated(self, stream: zlib._Decompress, unread: bytes) -> Iterator[bytes]:
        filled = False
        # A full piece of output may not be all that the input holds, even if none
        # of the input is left.
        while (unread or filled) and not stream.eof:
            try:
                made = stream.decompress(unread, _OUTPUT_BYTES)
            except zlib.error:
                raise CodingError from None
            if made:
                yield made
            filled = len(made) == _OUTPUT_BYTES
            unread = stream.unconsumed_tail
        if stream.eof:
            self._stream = None
            self.streams += 1


def gzip_window(head: bytes) -> int | None:
    """Return what reads gzip."""
    return _GZIP_WINDOW if head else None


def deflate_window(head: bytes) -> int | None:
    """
    Tell the two things apart that are sent as "deflate".

    RFC 1950, 2.2: a zlib stream begins with the method 8, and its first two bytes
    are a multiple of 31. Without that it is the bare RFC 1951, as some send it.
    """
    if len(head) < 2:
        return None
    is_zlib = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return _ZLIB_WINDOW if is_zlib else _RAW_WINDOW
