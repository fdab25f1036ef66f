"""Frames, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.transport.http2.errors import ConnectionBrokenError, ErrorCode
from tokenweir.transport.http2.frames import (
    MAX_FRAME_BYTES,
    PADDED,
    PREFACE,
    VIEW_BYTES,
    FrameReader,
    Kind,
    frame,
    goaway,
    number,
    rst_stream,
    unpadded,
    window_update,
)

FRAMES = [
    frame(Kind.SETTINGS, 0, 0),
    frame(Kind.HEADERS, 0x4, 1, b"block"),
    frame(Kind.DATA, 0x1, 1, b"x" * VIEW_BYTES),
    rst_stream(3, ErrorCode.CANCEL),
    window_update(5, 2**31 - 1),
    goaway(7, ErrorCode.NO_ERROR, "bye"),
    frame(Kind.DATA, 0, 2**31 - 1, b"y" * MAX_FRAME_BYTES),
]
WIRE = PREFACE + b"".join(FRAMES)
READ = [
    (Kind.SETTINGS, 0, 0, b""),
    (Kind.HEADERS, 0x4, 1, b"block"),
    (Kind.DATA, 0x1, 1, b"x" * VIEW_BYTES),
    (Kind.RST_STREAM, 0, 3, b"\0\0\0\x08"),
    (Kind.WINDOW_UPDATE, 0, 5, b"\x7f\xff\xff\xff"),
    (Kind.GOAWAY, 0, 0, b"\0\0\0\x07\0\0\0\0bye"),
    (Kind.DATA, 0, 2**31 - 1, b"y" * MAX_FRAME_BYTES),
]


def read(*pieces: bytes) -> list[tuple[int, int, int, bytes]]:
    """Return the frames of a connection that sends *pieces*."""
    reader = FrameReader()
    return [
        (kind, flags, stream_id, bytes(payload))
        for piece in pieces
        for kind, flags, stream_id, payload in reader.feed(piece)
    ]


def test_whole() -> None:
    """Each frame is read as it was written."""
    assert read(WIRE) == READ


@given(st.sets(st.integers(1, len(WIRE) - 1), max_size=9))
def test_any_cut(cuts: set[int]) -> None:
    """However the bytes are cut, the frames are the same."""
    ends = [*sorted(cuts), len(WIRE)]
    begins = [0, *ends]

    assert read(*(WIRE[a:b] for a, b in zip(begins, ends, strict=False))) == READ


def test_byte_by_byte() -> None:
    """Also one byte at a time."""
    few = WIRE[: len(PREFACE) + 9 + 14]

    assert read(*(few[at : at + 1] for at in range(len(few)))) == READ[:2]


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"X", PREFACE[:-1] + b"\r"])
def test_another_protocol(data: bytes) -> None:
    """Who does not say the preface is told so at its first wrong byte."""
    with pytest.raises(ConnectionBrokenError, match="no HTTP/2") as broken:
        read(data)
    assert broken.value.code is ErrorCode.PROTOCOL_ERROR


def test_too_large() -> None:
    """A frame above the limit is refused by its head, before its payload is there."""
    head = frame(Kind.DATA, 0, 1, b"z" * (MAX_FRAME_BYTES + 1))[:9]
    with pytest.raises(ConnectionBrokenError) as broken:
        read(PREFACE + head)
    assert broken.value.code is ErrorCode.FRAME_SIZE_ERROR


def test_reserved_bit() -> None:
    """The highest bit of a stream's id means nothing."""
    wire = bytearray(frame(Kind.DATA, 0, 1, b"a"))
    wire[5] |= 0x80

    assert read(PREFACE + wire) == [(Kind.DATA, 0, 1, b"a")]


@pytest.mark.parametrize(
    ("payload", "found"),
    [(b"\0abc", b"abc"), (b"\x02abc", b"a"), (b"\x03abc", b""), (b"\0", b"")],
)
def test_padding(payload: bytes, found: bytes) -> None:
    """Padding goes, and its length before it."""
    assert unpadded(PADDED, payload) == found
    assert unpadded(0, payload) == payload


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x04abc"])
def test_too_much_padding(payload: bytes) -> None:
    """Padding that is longer than its frame breaks the connection."""
    with pytest.raises(ConnectionBrokenError, match="padding"):
        unpadded(PADDED, payload)


def test_number() -> None:
    """Four bytes are a number; others are none."""
    assert number(b"\0\0\x01\0") == 256
    with pytest.raises(ConnectionBrokenError):
        number(b"\0\0\x01")
