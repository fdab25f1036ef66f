"""
Zstandard (RFC 8878), one frame after the other.

RFC 9659, 3: "encoders MUST NOT use a Window_Size greater than 8 MB" in HTTP, and what
needs more memory is none of this coding.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tokenweir.core.codings.base import CodingError

if sys.version_info >= (3, 14):  # pragma: no cover - it is the standard library's
    from compression import zstd
else:
    from backports import zstd

_OUTPUT_BYTES = 64 * 1024
_WINDOW_BITS = 23
_OPTIONS = {int(zstd.DecompressionParameter.window_log_max): _WINDOW_BITS}


class Zstandard:
    """
    A body in Zstandard. Frames that are to be skipped are.

    Attributes:
        streams: See `Coding`.
    """

    def __init__(self) -> None:
        self._frame: zstd.ZstdDecompressor | None = None
        self.streams = 0

    @property
    def whole(self) -> bool:
        """See `Coding`."""
        return self.streams > 0 and self._frame is None

    def decode(self, piece: bytes) -> Iterator[bytes]:
        """See `Coding`."""
        while piece:
            frame = self._frame = self._frame or zstd.ZstdDecompressor(options=_OPTIONS)
            yield from _decoded(frame, piece)
            if not frame.eof:
                return
            self._frame = None
            self.streams += 1
            # Behind the end of a frame there may be another one.
            piece = frame.unused_data


def _decoded(frame: zstd.ZstdDecompressor, piece: bytes) -> Iterator[bytes]:
    while True:
        try:
            made = frame.decompress(piece, max_length=_OUTPUT_BYTES)
        except zstd.ZstdError:
            raise CodingError from None
        if made:
            yield made
        if frame.eof or (frame.needs_input and not made):
            return
        piece = b""
