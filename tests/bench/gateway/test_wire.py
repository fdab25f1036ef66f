"""HTTP as both ends speak it."""

from __future__ import annotations

import json

from bench.gateway.wire import HEAD_END, body_length, chunk, request


def test_a_request_announces_its_length() -> None:
    """In bytes, and the body is JSON."""
    data = request("/v1/x", "sk-1", {"text": "é"})
    head, _, body = data.partition(HEAD_END)

    assert head.startswith(b"POST /v1/x HTTP/1.1\r\n")
    assert b"authorization: Bearer sk-1" in head
    assert body_length(head) == len(body)
    assert json.loads(body) == {"text": "é"}


def test_a_length_is_found_in_any_case_and_place() -> None:
    """The last line has no end of its own."""
    assert body_length(b"HTTP/1.1 200 OK\r\nContent-Length: 12") == 12
    assert body_length(b"HTTP/1.1 200 OK\r\ncontent-length:7\r\nx: y") == 7
    assert body_length(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked") is None


def test_a_chunk_tells_its_length_in_hex() -> None:
    """As HTTP has it."""
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
