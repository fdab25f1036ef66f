"""
What a peer can do wrong.

- `PeerError`

  - `ConnectionBrokenError`: nothing more can be understood; the connection ends.
  - `StreamBrokenError`: one stream ends with RST_STREAM, the others go on.
"""

from __future__ import annotations

import enum


class ErrorCode(enum.IntEnum):
    """Of RFC 9113, section 7: those that are used here."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class PeerError(Exception):
    """
    The peer has broken the rules.

    Attributes:
        code: What it is told.
    """

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code


class ConnectionBrokenError(PeerError):
    """Nothing more can be understood on this connection. The text goes to the peer."""


class StreamBrokenError(PeerError):
    """One stream can't go on."""
