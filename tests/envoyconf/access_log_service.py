"""A gRPC access-log service for tests, which keeps every byte that it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import grpc

SERVICE = "envoy.service.accesslog.v3.AccessLogService"


class AccessLogService:
    """
    Listens on a unix socket.

    Attributes:
        received: Messages as they came, in order.
    """

    def __init__(self, path: Path) -> None:
        self.received: list[bytes] = []
        self._path = path
        self._changed = asyncio.Event()
        self._server: Any = grpc.aio.server()

    async def __aenter__(self) -> Self:
        method = grpc.stream_unary_rpc_method_handler(self._stream)
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    SERVICE, {"StreamAccessLogs": method}
                ),
            )
        )
        self._server.add_insecure_port(f"unix:{self._path}")
        await self._server.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._server.stop(None)

    async def until_it_has(self, text: bytes) -> bytes:
        """Return all that came, once *text* is in it. Raises: TimeoutError."""
        async with asyncio.timeout(20):
            while text not in b"".join(self.received):
                self._changed.clear()
                await self._changed.wait()
        return b"".join(self.received)

    async def _stream(self, messages: AsyncIterator[bytes], _: object) -> bytes:
        async for message in messages:
            self.received.append(message)
            self._changed.set()
        return b""
