"""
Brotli (RFC 7932): one stream, and nothing behind it.

Its decoder keeps what was made of the window, up to 16 MB; what it makes is asked for
in blocks of 32 KB.

If something stands behind the stream, the library raises, and keeps for itself what
the same piece held before the end. An answer's usage stands there. So the beginning of
the input is kept, and read once more, byte by byte where it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile

import brotli

from tokenweir.core.codings.base import CodingError

# Soft: the library's blocks are of 32 KB.
_OUTPUT_BYTES = 16 * 1024
# Of input that is kept; answers that are read have less.
_MAX_KEPT_BYTES = 256 * 1024


class Brotli:
    """
    A body in Brotli.

    Attributes:
        streams: See `Coding`.
    """

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._kept: bytearray | None = bytearray()
        self.streams = 0

    @property
    def whole(self) -> bool:
        """See `Coding`."""
        return self.streams > 0

    def decode(self, piece: bytes) -> Iterator[bytes]:
        """See `Coding`."""
        if not piece:
            return
        if self.streams:
            raise CodingError
        try:
            yield from _decoded(self._stream, piece)
        except brotli.error:
            yield from self._up_to_the_end(piece)
            raise CodingError from None
        self.streams = int(self._stream.is_finished())
        self._keep(piece)

    def _keep(self, piece: bytes) -> None:
        if self._kept is None:
            return
        self._kept += piece
        if len(self._kept) > _MAX_KEPT_BYTES:
            self._kept = None

    def _up_to_the_end(self, piece: bytes) -> Iterator[bytes]:
        if self._kept is None:
            return
        stream = brotli.Decompressor()
        for _ in _decoded(stream, bytes(self._kept)):
            yield b""  # it was there before
        self._kept = None
        places = takewhile(lambda _: not stream.is_finished(), range(len(piece)))
        with suppress(brotli.error):
            for at in places:
                yield from _decoded(stream, piece[at : at + 1])


def _decoded(stream: brotli.Decompressor, piece: bytes) -> Iterator[bytes]:
    while True:
        made = stream.process(piece, output_buffer_limit=_OUTPUT_BYTES)
        if made:
            yield made
        if stream.is_finished() or (not made and stream.can_accept_more_data()):
            return
        piece = b""
