"""
Whether what must be refused is refused: a self-test of a whole stack.

Envoy can be alive and let everything through, where its filters do not reach a
processor and fail open, or are not there at all. So a request is sent that no policy
admits: of nobody, and without a body. Only a processor refuses it as such.
"""

from __future__ import annotations

import asyncio

from tokenweir.stack.probe import Probe

PATIENCE_SECONDS = 2.0
# What a processor says of it: with keys, without, and if nobody speaks that API.
REFUSALS = ("unknown_key", "malformed_request", "path_not_metered")

# By this the stack's own line in the log is told from those of apps.
REQUEST_ID = "tokenweir-up-self-test"

_REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\n"
    b"host: localhost\r\n"
    b"x-request-id: " + REQUEST_ID.encode() + b"\r\n"
    b"authorization: Bearer self-test\r\n"
    b"content-length: 0\r\n"
    b"connection: close\r\n\r\n"
)
_EXPECTED = {f"x-tokenweir-refusal: {why}".encode() for why in REFUSALS}


def denies(host: str, port: int) -> Probe:
    """Return a probe that is true once a processor refuses what Envoy was asked."""

    async def ask() -> bool:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                head = await _head(host, port)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            return False
        status, *headers = head.split(b"\r\n")
        return status.startswith(b"HTTP/1.1 4") and not _EXPECTED.isdisjoint(headers)

    return ask


async def _head(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_REQUEST)
        return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.transport.abort()
