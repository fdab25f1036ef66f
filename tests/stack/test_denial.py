"""Whether what must be refused is refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tokenweir.stack import denial
from tokenweir.stack.denial import REQUEST_ID, denies
from tokenweir.stack.ports import free_port

HOST = "127.0.0.1"


@contextlib.asynccontextmanager
async def gateway(answer: bytes | None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Give *answer* to every request, None: keep silent; yield port and requests."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        if answer is None:
            with contextlib.suppress(ConnectionError):
                await reader.read()
        else:
            writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0) as listening:
        yield listening.sockets[0].getsockname()[1], asked


def refusal(status: str, why: str) -> bytes:
    """Return the head of a refusal."""
    lines = [f"HTTP/1.1 {status}", f"x-tokenweir-refusal: {why}", "server: envoy"]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    "answer",
    [
        refusal("401 Unauthorized", "unknown_key"),
        refusal("400 Bad Request", "malformed_request"),
        refusal("403 Forbidden", "path_not_metered"),
    ],
)
async def test_a_processor_refuses(answer: bytes) -> None:
    """A request of nobody and of nothing is refused by a processor: all is well."""
    async with gateway(answer) as (port, asked):
        assert await denies(HOST, port)()

    [head] = asked
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"\r\ncontent-length: 0\r\n" in head
    assert f"\r\nx-request-id: {REQUEST_ID}\r\n".encode() in head


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 401 Unauthorized\r\nserver: provider\r\n\r\n",
        refusal("503 Service Unavailable", "governor_unavailable"),
        refusal("200 OK", "unknown_key"),
        refusal("429 Too Many Requests", "quota_exhausted"),
        b"HTTP/1.1 401 Unauthorized\r\n",
        b"x" * 100_000,
        b"",
    ],
)
async def test_anybody_else_answers(answer: bytes) -> None:
    """What Envoy or a provider says of it is no refusal by a processor."""
    async with gateway(answer) as (port, _):
        assert not await denies(HOST, port)()


async def test_silence_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says nothing in time, or is not there, has refused nothing."""
    monkeypatch.setattr(denial, "PATIENCE_SECONDS", 0.05)
    async with gateway(None) as (port, _):
        assert not await denies(HOST, port)()

    assert not await denies(HOST, free_port())()
