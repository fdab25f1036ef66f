"""What leaves on a connection."""

from __future__ import annotations

from hpack import Decoder

from tokenweir.transport.http2.frames import END_STREAM, PREFACE, FrameReader, Kind
from tokenweir.transport.http2.headers import HEAD_BLOCK, NO_TABLE
from tokenweir.transport.http2.outlet import Outlet


class Stream:
    """A stream that uses up all that it is let."""

    def __init__(self, outlet: Outlet, wants_bytes: int) -> None:
        self.outlet = outlet
        self.wants_bytes = wants_bytes

    def unblock(self) -> None:
        """See `Starved`."""
        size = min(self.wants_bytes, self.outlet.window.free_bytes)
        self.outlet.data(1, b"x" * size)
        self.wants_bytes -= size


def test_one_wake() -> None:
    """Whoever takes is told once, until it has taken."""
    wakes: list[int] = []
    outlet = Outlet(lambda: wakes.append(1))
    outlet.write(b"a")
    outlet.write(b"b")
    assert (outlet.taken(), wakes) == ([b"a", b"b"], [1])
    assert outlet.taken() == []
    outlet.write(b"c")

    assert (outlet.taken(), wakes) == ([b"c"], [1, 1])


def test_headers() -> None:
    """The first block of all says that there is no table, and it alone."""
    outlet = Outlet(lambda: None)
    outlet.headers(1, HEAD_BLOCK)
    outlet.headers(3, HEAD_BLOCK, END_STREAM)
    wire = PREFACE + b"".join(outlet.taken())
    first, second = FrameReader().feed(wire)

    assert first == (Kind.HEADERS, 0x4, 1, NO_TABLE + HEAD_BLOCK)
    assert second == (Kind.HEADERS, 0x5, 3, HEAD_BLOCK)
    assert dict(Decoder().decode(NO_TABLE + HEAD_BLOCK, raw=True)) == {
        b":status": b"200",
        b"content-type": b"application/grpc",
    }


def test_unblock() -> None:
    """Streams that starve are served in order, as far as the window goes."""
    outlet = Outlet(lambda: None)
    outlet.window.free_bytes = 5
    streams = [Stream(outlet, 3), Stream(outlet, 3), Stream(outlet, 3)]
    outlet.starved.update(enumerate(streams))
    outlet.unblock()

    assert [stream.wants_bytes for stream in streams] == [0, 1, 3]
    assert outlet.window.free_bytes == 0
