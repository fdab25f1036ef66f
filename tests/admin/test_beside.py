"""A kubelet learns from the processor what it can't ask Envoy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tokenweir.admin import beside as module
from tokenweir.admin.beside import Beside, Quiet

OK = b"HTTP/1.1 200 OK\r\n\r\nLIVE\n"


@contextlib.asynccontextmanager
async def envoy(folder: Path, answer: bytes, *, listens: bool) -> AsyncIterator[Beside]:
    """Run what Envoy is to its neighbours: a socket that says *answer*, and a port."""

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        # Envoy itself answers nothing older.
        writer.write(answer if b" HTTP/1.1\r\nhost: " in asked else b"HTTP/1.1 426\r\n")
        writer.close()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    path = folder / "envoy.sock"
    admin = await asyncio.start_unix_server(tell, path)
    apps = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port: int = apps.sockets[0].getsockname()[1]
    if not listens:
        apps.close()
        await apps.wait_closed()
    try:
        yield Beside(path, "127.0.0.1", port, Quiet(lambda: 0))
    finally:
        admin.close()
        apps.close()


@pytest.mark.parametrize(
    ("answer", "listens", "ready"),
    [
        (OK, True, True),
        (OK, False, False),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", True, False),
        (b"", True, False),
        (b"x" * 100_000, True, False),
    ],
)
async def test_envoy_is_ready(
    tmp_path: Path, answer: bytes, listens: bool, ready: bool
) -> None:
    """By its own word, and by its open port."""
    async with envoy(tmp_path, answer, listens=listens) as beside:
        assert await beside.is_ready() is ready


async def test_no_envoy(tmp_path: Path) -> None:
    """One that has not started is not ready."""
    beside = Beside(tmp_path / "none", "127.0.0.1", 1, Quiet(lambda: 0))

    assert not await beside.is_ready()


async def test_an_envoy_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it longer than a probe does."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.05)
    gone = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the other side has gone
        writer.close()
        gone.set()

    server = await asyncio.start_unix_server(hang, tmp_path / "s")
    beside = Beside(tmp_path / "s", "127.0.0.1", 1, Quiet(lambda: 0))
    assert not await beside.is_ready()
    await gone.wait()
    server.close()


async def test_quiet_at_last() -> None:
    """It is told once no call was in flight for the while."""
    calls = [1]
    waiting = asyncio.create_task(Quiet(lambda: calls[0], 0.05).wait(60))
    done, _ = await asyncio.wait({waiting}, timeout=0.3)
    assert not done
    calls[0] = 0

    assert await waiting is True


async def test_never_quiet() -> None:
    """An app that goes on is waited for as long as was asked."""
    assert await Quiet(lambda: 1, 0.05).wait(0.1) is False


async def test_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody in the network may ask, so there is a bound; who has done makes room."""
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    busy = True
    quiet = Quiet(lambda: int(busy), 0.01)
    first = asyncio.create_task(quiet.wait(60))
    await asyncio.sleep(0)

    assert await quiet.wait(60) is None
    busy = False
    assert await first is True
    assert await quiet.wait(60) is True
