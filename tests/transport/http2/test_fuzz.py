"""Conversations that went wrong on the way: nothing raises, hangs or grows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorder import Recorder
from tests.transport.http2.dialogue import framed, head
from tests.transport.http2.echo import PATH, STREAM_PATH, Echo
from tests.transport.http2.test_connection import block
from tokenweir.transport.http2.connection import Connection, Host
from tokenweir.transport.http2.errors import ErrorCode
from tokenweir.transport.http2.frames import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    Kind,
    frame,
    rst_stream,
    window_update,
)
from tokenweir.transport.http2.methods import Health, methods

WORDS = (b"one", b"quiet", b"wait", b"break", b"last", b"large 70000", b"x" * 3_000)
PATHS = (PATH, STREAM_PATH, "/grpc.health.v1.Health/Watch", "/nowhere")

stream_ids = st.sampled_from((1, 3, 5, 7))
flags = st.sampled_from((0, END_STREAM, 0x8, END_STREAM | 0x8))
valid = st.one_of(
    st.builds(
        lambda i, path: frame(Kind.HEADERS, END_HEADERS, i, block(*head(path))),
        stream_ids,
        st.sampled_from(PATHS),
    ),
    st.builds(
        lambda i, f, word: frame(Kind.DATA, f & END_STREAM, i, framed(word)),
        stream_ids,
        flags,
        st.sampled_from(WORDS),
    ),
    st.builds(lambda i: rst_stream(i, ErrorCode.CANCEL), stream_ids),
    st.builds(window_update, st.sampled_from((0, 1, 3)), st.integers(0, 2**31 - 1)),
    st.just(frame(Kind.SETTINGS, 0, 0, b"\0\x04\0\0\0\x05")),
    st.just(frame(Kind.SETTINGS, 0, 0, b"\0\x04\0\x10\0\0")),
    st.just(frame(Kind.SETTINGS, 1, 0)),
    st.just(frame(Kind.PING, 0, 0, b"12345678")),
)
strange = st.builds(
    frame,
    st.integers(0, 12),
    st.integers(0, 255),
    st.integers(0, 9),
    st.binary(max_size=40),
)


@st.composite
def conversations(draw: Callable[..., object]) -> bytes:
    """Return what a peer says: mostly well-formed, then damaged in places."""
    frames = draw(st.lists(st.one_of(valid, valid, valid, strange), max_size=14))
    assert isinstance(frames, list)
    wire = bytearray(b"".join((PREFACE, frame(Kind.SETTINGS, 0, 0), *frames)))
    for _ in range(int(str(draw(st.integers(0, 3))))):
        at = int(str(draw(st.integers(0, len(wire) - 1))))
        wire[at] = int(str(draw(st.integers(0, 255))))
    return bytes(wire)


async def play(pieces: list[bytes]) -> None:
    """Say *pieces*, then hang up, and look at what is left."""
    echo, sink, recorder = Echo(), Echo(STREAM_PATH, b"bye"), Recorder()
    host = Host(methods([echo, sink], Health()), recorder, lambda: 0.0)
    connection = Connection(host, lambda: None)
    written = 0
    for piece in pieces:
        connection.receive(piece)
        written += sum(map(len, connection.outlet.taken()))
        await asyncio.sleep(0)
    echo.gate.set()
    for _ in range(3):
        await asyncio.sleep(0)
    connection.lost()
    for _ in range(3):
        await asyncio.sleep(0)

    calls = [*echo.calls, *sink.calls]
    assert {call.closes for call in calls} <= {1}
    assert connection.calls == 0
    assert connection._streams == {}
    assert connection._kept.size_bytes == 0
    assert connection.outlet.starved == {}
    # What is answered is as large as was asked for: a "large" is.
    assert written < 2_000 + 100_000 * sum(map(len, pieces)) / 20
    # A command of the service's, or a question about health that is none.
    assert {type(error).__name__ for _, error in recorder.faults} <= {
        "RuntimeError",
        "DecodeError",
    }


@settings(max_examples=400)
@given(conversations(), st.lists(st.integers(1, 400), max_size=6))
def test_damaged(wire: bytes, sizes: list[int]) -> None:
    """Whatever a peer says, and however it is cut, every call is closed once."""
    pieces = []
    for size in sizes:
        pieces.append(wire[:size])
        wire = wire[size:]
    asyncio.run(play([*pieces, wire]))


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_noise(data: bytes) -> None:
    """Noise is no conversation, with the preface before it or without."""
    asyncio.run(play([data]))
    asyncio.run(play([PREFACE + frame(Kind.SETTINGS, 0, 0) + data]))
