"""HTTP/1.1 as far as both ends of the benchmark speak it: whole, and nothing odd."""

from __future__ import annotations

import json

HEAD_END = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_LENGTH = b"content-length:"


def request(path: str, key: str, content: object) -> bytes:
    """Return a POST of *content* as JSON, by the bearer of *key*."""
    body = json.dumps(content).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n"
        "content-type: application/json\r\naccept: application/json\r\n"
        "user-agent: bench/1\r\nx-request-source: bench\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def body_length(head: bytes) -> int | None:
    """Return the length that *head* announces; None if it announces none."""
    lower = head.lower()
    at = lower.find(_LENGTH)
    if at < 0:
        return None
    end = lower.find(b"\r\n", at)
    return int(lower[at + len(_LENGTH) : end if end >= 0 else None])


def chunk(data: bytes) -> bytes:
    """Return *data* as a chunk."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
