"""A ledger of one's own is asked for an answer before anything is started."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.servers import Server, start_valkey
from tokenweir.stack.failure import LedgerSilentError
from tokenweir.stack.given_ledger import require_ledger
from tokenweir.stack.ports import free_port

SECRET = "CANARY"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A Valkey."""
    running = start_valkey(tmp_path)
    yield running
    running.stop()


@contextlib.asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """Serve *answer* to whatever is asked; give the URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"redis://:{SECRET}@127.0.0.1:{port}"


async def refusal(url: str, patience_seconds: float = 20.0) -> str:
    """Return what is said of the ledger at *url*."""
    with pytest.raises(LedgerSilentError) as error:
        await require_ledger(url, patience_seconds)
    text = str(error.value)
    assert SECRET not in text
    assert "\n" not in text
    assert "leave --ledger out" in text
    return text


async def test_one_that_answers(server: Server) -> None:
    """A ledger that answers is fine."""
    await require_ledger(server.url)


async def test_one_that_is_not_there() -> None:
    """Nobody listens: it is told where, without the password."""
    port = free_port()
    text = await refusal(f"redis://:{SECRET}@127.0.0.1:{port}")

    assert f"redis://127.0.0.1:{port} can't be reached" in text


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"-WRONGPASS invalid username-password pair\r\n", "another user or password"),
        (b"-NOAUTH Authentication required.\r\n", "another user or password"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", ""),
        (b"-ERR unknown command\r\n", "answers, but not to this user or not now"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no Redis or Valkey"),
    ],
)
async def test_one_that_answers_something_else(answer: bytes, told: str) -> None:
    """What it does instead decides what is said."""
    async with answering(answer) as url:
        assert told in await refusal(url)


async def test_one_without_the_right() -> None:
    """A user that may not even ask is told which rights are needed."""
    async with answering(b"-NOPERM no permissions to run 'ping'\r\n") as url:
        text = await refusal(url.replace(f":{SECRET}@", ""))

    assert "deploy/redis/tokenweir.acl" in text


async def test_one_that_says_nothing() -> None:
    """Nobody waits long for a ledger that takes connections and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = await refusal(f"redis://127.0.0.1:{silent.getsockname()[1]}", 0.2)

    assert "gives no answer" in text
