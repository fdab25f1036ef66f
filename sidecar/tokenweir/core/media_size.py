"""
How large a picture is, read from its first bytes.

Pure readers of headers: PNG, GIF, JPEG, WebP, HEIC, AVIF, BMP. Nothing is decoded,
nothing raises: what can't be read has no size, and whoever asked assumes the worst.
Of moving pictures models see the first. That a picture is shown turned (EXIF) changes
nothing: no rule knows width from height.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tokenweir.core.media_sound import is_picture_brand

_PNG = b"\x89PNG\r\n\x1a\n"

# Start-of-frame markers: FFC0 to FFCF without DHT, JPG and DAC.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers that stand alone: TEM, RST0 to RST7, SOI.
_JPEG_BARE = frozenset(range(0xD0, 0xD9)) | {0x01}
# Cameras write some dozens before the frame. A file made of thousands of empty
# segments is made to keep us busy, and there may be thousands of files in a request.
_JPEG_MAX_SEGMENTS = 128
# A file of boxes has some few: its whole, its tiles, a preview.
_MAX_SIZES = 64


class PixelSize(NamedTuple):
    """Pixels; both above 0."""

    width: int
    height: int


def pixel_size(head: bytes) -> PixelSize | None:
    """Return the size of the picture that begins with *head*, or None if unknown."""
    if head.startswith(_PNG):
        size = _big(head, 16, 4), _big(head, 20, 4)
    elif head[:6] in (b"GIF87a", b"GIF89a"):
        size = _little(head, 6, 2), _little(head, 8, 2)
    elif head.startswith(b"\xff\xd8"):
        size = _jpeg(head)
    else:
        size = _other(head)
    return PixelSize(*size) if min(size) > 0 else None


def _other(head: bytes) -> tuple[int, int]:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    if head[4:8] == b"ftyp" and is_picture_brand(head[8:12]):
        return _boxes(head)
    if head.startswith(b"BM") and len(head) >= 26:
        # Rows from the top down are told by a height below 0.
        width, height = struct.unpack_from("<ii", head, 18)
        return width, abs(height)
    return 0, 0


def _jpeg(head: bytes) -> tuple[int, int]:
    position = 2
    for _ in range(_JPEG_MAX_SEGMENTS):
        marker = _big(head, position, 2)
        kind = marker & 0xFF
        if marker < 0xFF00:
            break
        if kind == 0xFF:  # a fill byte
            position += 1
        elif kind in _JPEG_FRAMES:
            return _big(head, position + 7, 2), _big(head, position + 5, 2)
        elif kind in _JPEG_BARE:
            position += 2
        else:
            position += 2 + _big(head, position + 2, 2)
    return 0, 0


def _webp(head: bytes) -> tuple[int, int]:
    match head[12:16]:
        case b"VP8X":
            return _plus_one(head, 24, 3), _plus_one(head, 27, 3)
        case b"VP8L":
            bits = _little(head, 21, 4)
            present = bool(head[24:25])
            return (bits & 0x3FFF) + present, (bits >> 14 & 0x3FFF) + present
        case b"VP8 ":
            return _little(head, 26, 2) & 0x3FFF, _little(head, 28, 2) & 0x3FFF
        case _:
            return 0, 0


def _boxes(head: bytes) -> tuple[int, int]:
    """
    Return the largest of the sizes that a file of boxes has: HEIC, AVIF.

    It has one for each tile and each preview too, all smaller than the whole.
    """
    largest = 0, 0
    position = head.find(b"ispe")
    for _ in range(_MAX_SIZES):
        if position < 0:
            break
        size = _big(head, position + 8, 4), _big(head, position + 12, 4)
        largest = max(largest, size, key=lambda one: one[0] * one[1])
        position = head.find(b"ispe", position + 4)
    return largest


def _plus_one(head: bytes, start: int, length: int) -> int:
    """Read a size that is stored less one; 0 if it is cut off."""
    return _little(head, start, length) + 1 if len(head) >= start + length else 0


def _big(head: bytes, start: int, length: int) -> int:
    field = head[start : start + length]
    return int.from_bytes(field, "big") if len(field) == length else 0


def _little(head: bytes, start: int, length: int) -> int:
    field = head[start : start + length]
    return int.from_bytes(field, "little") if len(field) == length else 0
