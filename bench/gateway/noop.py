"""
The least that a processor can do: it lets everything pass.

    python -m bench.gateway.noop SOCKET TRANSPORT

It is Tokenweir's own transport with nothing behind it. Messages are told apart by their
first byte and answered by bytes that are made beforehand.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import uvloop

from bench.gateway.noop_transport import server_of

# The fields of a ProcessingRequest, as the first byte tells them, and the same answer's.
_ANSWERS = {
    0x12: b"\x0a\x00",  # request_headers
    0x1A: b"\x12\x00",  # response_headers
    0x22: b"\x1a\x00",  # request_body
    0x2A: b"\x22\x00",  # response_body
}


class Passing:
    """A call that lets everything pass."""

    @property
    def finished(self) -> bool:
        """See `tokenweir.transport.base.Call`."""
        return False

    def receive(self, message: bytes) -> bytes:
        """See `tokenweir.transport.base.Call`."""
        return _ANSWERS[message[0]]

    def closed(self) -> None:
        """See `tokenweir.transport.base.Call`."""


class PassingCalls:
    """Opens them, whoever asks."""

    def open(self, metadata: Mapping[str, str]) -> Passing:  # noqa: ARG002
        """See `tokenweir.transport.base.Service`."""
        return Passing()


async def serve(socket: Path, transport: str) -> None:
    """Serve until killed."""
    server = server_of(transport, PassingCalls(), socket)
    await server.start()
    print("serving", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1]), sys.argv[2]))
