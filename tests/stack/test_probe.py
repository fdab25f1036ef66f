"""Whether something is ready."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.stack.fakes import until
from tokenweir.stack import probe
from tokenweir.stack.probe import accepts, answers_http, answers_ping, both

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], "asyncio.Future[None]"]


@asynccontextmanager
async def server(path: Path, answer: bytes | None) -> AsyncIterator[list[bytes]]:
    """Give *answer* to the first line of each connection; None: keep silent."""
    questions: list[bytes] = []
    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        questions.append(await reader.readline())
        if answer is None:
            with contextlib.suppress(ConnectionError):
                await reader.read()  # until the other side leaves
        else:
            writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(serve, path) as listening:
        yield questions
        listening.close()
        await asyncio.gather(*tasks)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where something may listen."""
    return tmp_path / "s"


async def test_http_200_is_ready(path: Path) -> None:
    """The path is asked for, and 200 means yes."""
    async with server(path, b"HTTP/1.1 200 OK\r\n\r\n") as questions:
        assert await answers_http(path, "/readyz")()

    assert questions == [b"GET /readyz HTTP/1.1\r\n"]


async def test_http_503_is_not_ready(path: Path) -> None:
    """Any other status means no."""
    async with server(path, b"HTTP/1.1 503 Service Unavailable\r\n\r\n"):
        assert not await answers_http(path, "/")()


async def test_http_goes_by_tcp_too() -> None:
    """An address of host and port is asked the same way."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port: int = listening.sockets[0].getsockname()[1]
        assert await answers_http(("127.0.0.1", port), "/")()

    assert not await answers_http(("127.0.0.1", port), "/")()


async def test_pong_is_ready(path: Path) -> None:
    """A Redis that answers PING is ready, one that is loading is not."""
    async with server(path, b"+PONG\r\n") as questions:
        assert await answers_ping(path)()
    async with server(path, b"-LOADING\r\n"):
        assert not await answers_ping(path)()

    assert questions == [b"PING\r\n"]


async def test_nobody_there_is_not_ready(path: Path, tmp_path: Path) -> None:
    """A socket that does not exist, and what is none, is not ready."""
    assert not await accepts(path)()
    assert not await accepts(tmp_path)()


async def test_who_listens_accepts(path: Path) -> None:
    """For some it is enough that somebody listens."""
    async with server(path, None) as questions:
        assert await accepts(path)()
        await until(lambda: questions == [b""])


async def test_silence_is_not_ready(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who accepts and says nothing is given up."""
    monkeypatch.setattr(probe, "PATIENCE_SECONDS", 0.01)
    async with server(path, None):
        assert not await answers_ping(path)()


async def test_garbage_without_end_is_not_ready(path: Path) -> None:
    """An answer without a line end, longer than any line, is no answer."""
    async with server(path, b"x" * 200_000):
        assert not await answers_ping(path)()


async def test_both_need_both(path: Path) -> None:
    """Two probes are true together only."""
    async with server(path, b"+PONG\r\n"):
        there, missing = answers_ping(path), accepts(path.with_name("none"))
        assert await both(there, there)()
        assert not await both(there, missing)()
        assert not await both(missing, there)()
