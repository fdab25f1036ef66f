"""A connection on a socket: what is written when, and what is not read."""

from __future__ import annotations

import asyncio

from tests.recorder import Recorder
from tests.transport.http2.dialogue import framed, head
from tests.transport.http2.echo import Echo
from tests.transport.http2.test_connection import block
from tokenweir.transport.http2.connection import Host
from tokenweir.transport.http2.frames import END_HEADERS, PREFACE, Kind, frame
from tokenweir.transport.http2.methods import Health, methods
from tokenweir.transport.http2.wire import Wire

HELLO = PREFACE + frame(Kind.SETTINGS, 0, 0)


class Pipe(asyncio.Transport):
    """
    A socket that writes down what becomes of it.

    Attributes:
        writes: What was written, write by write.
        log: What else was asked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.log: list[str] = []
        self.closing = False

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """See `asyncio.WriteTransport`."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See `asyncio.WriteTransport`."""
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return self.closing

    def close(self) -> None:
        """See `asyncio.BaseTransport`."""
        self.closing = True
        self.log.append("close")

    def abort(self) -> None:
        """See `asyncio.WriteTransport`."""
        self.closing = True
        self.log.append("abort")

    def pause_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        self.log.append("pause")

    def resume_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        self.log.append("resume")


class Line:
    """A wire on a pipe."""

    def __init__(self) -> None:
        self.echo = Echo()
        self.recorder = Recorder()
        self.lost: list[Wire] = []
        host = Host(methods([self.echo], Health()), self.recorder, lambda: 0.0)
        self.wire = Wire(host, self.lost.append)
        self.pipe = Pipe()
        self.wire.connection_made(self.pipe)

    def opened(self, *messages: bytes) -> None:
        """Receive a stream with *messages*, each by a read of its own."""
        self.wire.data_received(HELLO)
        self.wire.data_received(frame(Kind.HEADERS, END_HEADERS, 1, block(*head())))
        for message in messages:
            self.wire.data_received(frame(Kind.DATA, 0, 1, framed(message)))


async def test_one_write_a_turn() -> None:
    """What several reads of one turn bring is answered by one write."""
    line = Line()
    line.opened(b"one", b"two")
    assert len(line.pipe.writes) == 1  # our settings
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert len(line.pipe.writes) == 2
    assert framed(b"two") in line.pipe.writes[1]


async def test_large_answers() -> None:
    """Large answers are not joined before they leave."""
    line = Line()
    line.opened(b"large 65000", b"large 65000")
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert b"".join(line.pipe.writes).count(b"x" * 16_384) == 3


async def test_peer_that_fetches_nothing() -> None:
    """While what was written is not fetched, nothing more is read."""
    line = Line()
    line.wire.pause_writing()
    line.wire.resume_writing()

    assert line.pipe.log == ["pause", "resume"]


async def test_pause_after_the_end() -> None:
    """A connection that closes is not asked to read."""
    line = Line()
    line.pipe.closing = True
    line.wire.pause_writing()
    line.wire.resume_writing()
    line.wire.connection_lost(None)
    line.wire.pause_writing()
    line.wire.resume_writing()
    line.wire.close()
    line.wire.abort()

    assert line.pipe.log == []
    assert line.wire.is_lost
    assert line.lost == [line.wire]


async def test_broken_connection() -> None:
    """A connection that breaks says why, and is closed."""
    line = Line()
    line.wire.data_received(b"GET / HTTP/1.1\r\n\r\n")

    assert b"this is no HTTP/2" in line.pipe.writes[-1]
    assert line.pipe.log == ["close"]
    assert line.recorder.faults == []


async def test_fault() -> None:
    """A fault of ours is reported, and ends this connection alone."""
    line = Line()

    def broken(data: bytes) -> None:
        raise ZeroDivisionError(data)

    line.wire.connection.receive = broken  # type: ignore[method-assign]
    line.wire.data_received(b"anything")

    assert [where for where, _ in line.recorder.faults] == ["transport"]
    assert line.pipe.log == ["abort"]


async def test_peer_is_gone() -> None:
    """When the peer is gone its calls are closed, and nothing is written any more."""
    line = Line()
    line.opened(b"one")
    line.wire.connection_lost(ConnectionResetError())
    await asyncio.sleep(0)

    assert [call.closes for call in line.echo.calls] == [1]
    assert len(line.pipe.writes) == 1
