"""SETTINGS: ours, and what the peer says (RFC 9113, section 6.5)."""

from __future__ import annotations

import enum
import struct

from tokenweir.transport.base import MAX_METADATA_BYTES, MAX_STREAMS
from tokenweir.transport.http2.errors import ConnectionBrokenError, ErrorCode
from tokenweir.transport.http2.flow import DEFAULT_WINDOW_BYTES, MAX_WINDOW_BYTES
from tokenweir.transport.http2.frames import MAX_FRAME_BYTES, Payload

# How much of a stream may wait here for its call. A message that is under way does not
# count: it is let in up to its end.
STREAM_WINDOW_BYTES = 1024 * 1024
LARGEST_FRAME_BYTES = 2**24 - 1


class Setting(enum.IntEnum):
    """Those that mean something to us."""

    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5
    MAX_HEADER_LIST_SIZE = 0x6


_SETTING = struct.Struct(">HI")

# No table: then equal bytes are equal headers, and need to be read once only.
OURS = b"".join(
    _SETTING.pack(*setting)
    for setting in (
        (Setting.HEADER_TABLE_SIZE, 0),
        (Setting.MAX_CONCURRENT_STREAMS, MAX_STREAMS),
        (Setting.INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES),
        (Setting.MAX_HEADER_LIST_SIZE, MAX_METADATA_BYTES),
    )
)


class PeerSettings:
    """
    What the peer has said of itself, and what holds as long as it has not.

    Attributes:
        window_bytes: How much may be sent on a stream before it asks for more.
        max_frame_bytes: Of one frame's payload.
    """

    def __init__(self) -> None:
        self.window_bytes = DEFAULT_WINDOW_BYTES
        self.max_frame_bytes = MAX_FRAME_BYTES

    def apply(self, payload: Payload) -> None:
        """Take a SETTINGS frame's *payload*. Raises: ConnectionBrokenError."""
        if len(payload) % _SETTING.size:
            raise ConnectionBrokenError(ErrorCode.FRAME_SIZE_ERROR, "half a setting")
        for setting, value in _SETTING.iter_unpack(payload):
            self._set(setting, value)

    def _set(self, setting: int, value: int) -> None:
        match setting:
            case Setting.INITIAL_WINDOW_SIZE:
                if value > MAX_WINDOW_BYTES:
                    raise ConnectionBrokenError(
                        ErrorCode.FLOW_CONTROL_ERROR, "window too large"
                    )
                self.window_bytes = value
            case Setting.MAX_FRAME_SIZE:
                if not MAX_FRAME_BYTES <= value <= LARGEST_FRAME_BYTES:
                    raise ConnectionBrokenError(
                        ErrorCode.PROTOCOL_ERROR, "no size of a frame"
                    )
                self.max_frame_bytes = value
            case Setting.ENABLE_PUSH if value > 1:
                raise ConnectionBrokenError(ErrorCode.PROTOCOL_ERROR, "no yes or no")
            case _:
                pass  # we compress nothing, open no streams, and send small headers
