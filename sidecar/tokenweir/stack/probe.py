"""Whether a child is ready, asked in its own language."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

Probe = Callable[[], Awaitable[bool]]
"""Tells if something is ready. Never raises, and never takes long."""

Address = Path | tuple[str, int]
"""A unix socket, or host and TCP port."""

PATIENCE_SECONDS = 2.0


def answers_http(address: Address, path: str) -> Probe:
    """Return a probe that is true once a GET of *path* is answered with 200."""
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    return _answers(address, request.encode(), (b"HTTP/1.1 200 ", b"HTTP/1.0 200 "))


def answers_ping(path: Path) -> Probe:
    """Return a probe that is true once a Redis at the unix socket *path* answers."""
    return _answers(path, b"PING\r\n", (b"+PONG",))


def accepts(path: Path) -> Probe:
    """Return a probe that is true once somebody listens on the unix socket *path*."""
    return _answers(path, b"", (b"",))


def both(first: Probe, second: Probe) -> Probe:
    """Return a probe that is true once both are."""

    async def ask() -> bool:
        return await first() and await second()

    return ask


def _answers(address: Address, question: bytes, answers: tuple[bytes, ...]) -> Probe:
    async def ask() -> bool:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return (await _first_line(address, question)).startswith(answers)
        except (OSError, ValueError, TimeoutError):
            return False

    return ask


async def _first_line(address: Address, question: bytes) -> bytes:
    if isinstance(address, Path):
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        reader, writer = await asyncio.open_connection(*address)
    try:
        if not question:
            return b""
        writer.write(question)
        return await reader.readline()
    finally:
        # Nothing that is on its way matters: the connection is dropped at once.
        writer.transport.abort()
