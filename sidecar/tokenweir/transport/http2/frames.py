"""Frames of HTTP/2: bytes to frames and back (RFC 9113, sections 4 and 6)."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator

from tokenweir.transport.http2.errors import ConnectionBrokenError, ErrorCode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES = 9
# What frames may be as long as we say nothing else, which we don't.
MAX_FRAME_BYTES = 16_384
# Payloads from here on are not copied out of what was read.
VIEW_BYTES = 2_048

END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY_FLAG = 0x20


class Kind(enum.IntEnum):
    """What a frame is."""

    DATA = 0x0
    HEADERS = 0x1
    PRIORITY = 0x2
    RST_STREAM = 0x3
    SETTINGS = 0x4
    PUSH_PROMISE = 0x5
    PING = 0x6
    GOAWAY = 0x7
    WINDOW_UPDATE = 0x8
    CONTINUATION = 0x9


Payload = bytes | memoryview
Frame = tuple[int, int, int, Payload]
"""Kind (a number: there are unknown ones), flags, stream's id, payload."""

_HEADER = struct.Struct(">HBBBI")
_NUMBER = struct.Struct(">I")
_GOAWAY = struct.Struct(">II")
_STREAM_ID = 0x7FFF_FFFF


class FrameReader:
    """Takes what a peer sends from its first byte on, cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""
        self._greeted = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """
        Yield the frames that *data* completes. They are to be used up at once.

        Raises: ConnectionBrokenError.
        """
        if self._rest:
            data = self._rest + data
            self._rest = b""
        position = 0
        if not self._greeted:
            if not self._greets(data):
                return
            position = len(PREFACE)
        end = len(data)
        while end - position >= HEADER_BYTES:
            high, low, kind, flags, stream_id = _HEADER.unpack_from(data, position)
            size = high << 8 | low
            if size > MAX_FRAME_BYTES:
                raise ConnectionBrokenError(
                    ErrorCode.FRAME_SIZE_ERROR, "frame too large"
                )
            begin = position + HEADER_BYTES
            if end - begin < size:
                break
            position = begin + size
            payload: Payload
            if size < VIEW_BYTES:
                payload = data[begin:position]
            else:
                payload = memoryview(data)[begin:position]
            yield kind, flags, stream_id & _STREAM_ID, payload
        self._rest = data[position:]

    def _greets(self, data: bytes) -> bool:
        """Tell if the preface is complete; keep what there is of it if not."""
        if data[: len(PREFACE)] != PREFACE[: len(data)]:
            raise ConnectionBrokenError(ErrorCode.PROTOCOL_ERROR, "this is no HTTP/2")
        if len(data) < len(PREFACE):
            self._rest = data
            return False
        self._greeted = True
        return True


def unpadded(flags: int, payload: Payload) -> Payload:
    """Return *payload* without its padding. Raises: ConnectionBrokenError."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionBrokenError(ErrorCode.PROTOCOL_ERROR, "more padding than frame")
    return payload[1 : len(payload) - payload[0]]


def frame_head(size_bytes: int, kind: Kind, flags: int, stream_id: int) -> bytes:
    """Return what stands before a payload of *size_bytes*."""
    return _HEADER.pack(size_bytes >> 8, size_bytes & 0xFF, kind, flags, stream_id)


def frame(kind: Kind, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Return a whole frame."""
    return frame_head(len(payload), kind, flags, stream_id) + payload


def number(payload: Payload) -> int:
    """Read a payload of one number. Raises: ConnectionBrokenError."""
    if len(payload) != _NUMBER.size:
        raise ConnectionBrokenError(ErrorCode.FRAME_SIZE_ERROR, "not a number")
    return int(_NUMBER.unpack(payload)[0])


def window_update(stream_id: int, increment_bytes: int) -> bytes:
    """Return a WINDOW_UPDATE."""
    return frame(Kind.WINDOW_UPDATE, 0, stream_id, _NUMBER.pack(increment_bytes))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """Return an RST_STREAM."""
    return frame(Kind.RST_STREAM, 0, stream_id, _NUMBER.pack(code))


def goaway(last_stream_id: int, code: ErrorCode, why: str = "") -> bytes:
    """Return a GOAWAY: nothing after *last_stream_id* was, or will be, looked at."""
    return frame(Kind.GOAWAY, 0, 0, _GOAWAY.pack(last_stream_id, code) + why.encode())
