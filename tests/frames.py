"""
AWS event streams, as Bedrock writes them.

    event("messageStart", {"role": "assistant"})     one event, framed
    exception("throttlingException", {"message": "Too many"})
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any


def frame(headers: bytes, payload: bytes = b"") -> bytes:
    """Return a frame of encoded *headers* and *payload*, with true checksums."""
    size = 16 + len(headers) + len(payload)
    prelude = struct.pack(">II", size, len(headers))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


def header(name: str, value: str) -> bytes:
    """Return one header that is a string."""
    text = value.encode()
    return bytes([len(name)]) + name.encode() + struct.pack(">BH", 7, len(text)) + text


def event(name: str, payload: Mapping[str, Any] | bytes) -> bytes:
    """Return the event *name*, with JSON in it as AWS writes it."""
    body = payload if isinstance(payload, bytes) else _json(payload)
    headers = (
        header(":event-type", name)
        + header(":content-type", "application/json")
        + header(":message-type", "event")
    )
    return frame(headers, body)


def exception(name: str, payload: Mapping[str, Any]) -> bytes:
    """Return what ends a stream that has failed: the exception *name*."""
    headers = (
        header(":exception-type", name)
        + header(":content-type", "application/json")
        + header(":message-type", "exception")
    )
    return frame(headers, _json(payload))


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
