"""Our server on its socket: how it starts, and how it ends."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.pod import until
from tests.recorder import Recorder
from tests.transport.http2.echo import PATH, Echo
from tokenweir.transport.http2.server import Http2Server


class Served:
    """A server, and a channel to it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "sidecar.sock"
        self.echo = Echo()
        self.server = Http2Server([self.echo], self.path, Recorder())
        self.channel = grpc.aio.insecure_channel(f"unix:{self.path}")

    async def call(self) -> grpc.aio.StreamStreamCall[bytes, bytes]:
        """Open a stream, and return once it is answered."""
        call = self.channel.stream_stream(PATH)()
        await call.write(b"one")
        assert await call.read() == b"one"
        return call


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """Return a server that runs, and stop it."""
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        served = Served(Path(folder))
        await served.server.start()
        yield served
        await served.channel.close()
        await served.server.stop(0)


async def test_never_started(tmp_path: Path) -> None:
    """A server that was never started can be stopped."""
    server = Http2Server([], tmp_path / "a.sock", Recorder())
    await server.stop(0)

    assert not (tmp_path / "a.sock").exists()


async def test_path_of_a_successor(served: Served) -> None:
    """A server that stops leaves the path alone if a successor has bound it."""
    served.path.unlink()
    with socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(served.path))
        await served.server.stop(0)

        assert served.path.exists()


async def test_unbindable(tmp_path: Path) -> None:
    """A path that can't be had is an error of the system's, as with any server."""
    server = Http2Server([], tmp_path / "missing" / "a.sock", Recorder())
    with pytest.raises(OSError, match="No such file"):
        await server.start()


async def test_stop_waits(served: Served) -> None:
    """Open streams are served to their end; the peer sees no error."""
    call = await served.call()
    stopping = asyncio.create_task(served.server.stop(30))
    await until(lambda: all(wire.connection.refusing for wire in served.server._wires))
    assert not stopping.done()
    await call.write(b"last")
    assert await call.read() == b"last"
    assert await call.code() is grpc.StatusCode.OK
    await stopping

    assert not served.path.exists()
    assert served.server._wires == set()


async def test_stop_waits_no_longer(served: Served) -> None:
    """Streams that do not end are ended with a status, and their calls closed."""
    idle, waiting = await served.call(), await served.call()
    await waiting.write(b"wait")
    await until(lambda: any(call.waits for call in served.echo.calls))
    await served.server.stop(0.01)

    assert [call.closes for call in served.echo.calls] == [1, 1]
    assert await idle.code() is grpc.StatusCode.UNAVAILABLE
    assert await waiting.code() is grpc.StatusCode.UNAVAILABLE


async def test_nobody_is_there(served: Served) -> None:
    """A server without peers stops at once."""
    async with asyncio.timeout(30):
        await served.server.stop(3_600)

    assert not served.path.exists()
