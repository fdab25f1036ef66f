"""Frames come out the same however a body is cut, and whatever is wrong with it."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frames import event, exception, frame, header
from tokenweir.core.event_stream import (
    MAX_HEADERS_BYTES,
    EventStreamParser,
    Frame,
    find_frame,
    length_of,
)

# From AWS' own test vectors: no headers, no payload.
EMPTY = bytes.fromhex("00000010 00000000 05c248eb 7d98c8ff")
# All types of values that there are; only strings are kept.
EVERY_TYPE = (
    b"\x01a\x00"
    b"\x01b\x01"
    b"\x01c\x02\x07"
    b"\x01d\x03\x00\x07"
    b"\x01e\x04\x00\x00\x00\x07"
    b"\x01f\x05\x00\x00\x00\x00\x00\x00\x00\x07"
    b"\x01g\x06\x00\x02\xff\x00"
    b"\x01h\x07\x00\x05caf\xc3\xa9"
    b"\x01i\x08\x00\x00\x00\x00\x00\x00\x00\x07"
    b"\x01j\x09" + bytes(16) + header("k", "")
)
STREAM = b"".join(
    [
        event("messageStart", {"role": "assistant"}),
        EMPTY,
        frame(EVERY_TYPE, b"\x00\r\n"),
        exception("throttlingException", {"message": "caf\u00e9"}),
    ]
)
FRAMES = [
    Frame(
        {
            ":event-type": "messageStart",
            ":content-type": "application/json",
            ":message-type": "event",
        },
        b'{"role":"assistant"}',
    ),
    Frame({}, b""),
    Frame({"h": "caf\u00e9", "k": ""}, b"\x00\r\n"),
    Frame(
        {
            ":exception-type": "throttlingException",
            ":content-type": "application/json",
            ":message-type": "exception",
        },
        '{"message":"caf\u00e9"}'.encode(),
    ),
]
NEXT = Frame({}, b"next")


def cut(body: bytes, places: set[int]) -> list[bytes]:
    """Return *body* cut at *places*."""
    edges = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    return [body[start:end] for start, end in pairwise(edges)]


def parse(*chunks: bytes) -> list[Frame]:
    """Return the frames of a body that comes as *chunks*."""
    parser = EventStreamParser()
    return [found for chunk in chunks for found in parser.feed(chunk)]


def prelude(size: int, headers_size: int) -> bytes:
    """Return lengths, whatever they are, that their checksum vouches for."""
    lengths = struct.pack(">II", size, headers_size)
    return lengths + struct.pack(">I", zlib.crc32(lengths))


def test_whole() -> None:
    """Frames of all kinds of headers are understood, AWS' own vector among them."""
    assert parse(STREAM) == FRAMES


def test_byte_by_byte() -> None:
    """The worst cut changes nothing."""
    assert parse(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == FRAMES


@pytest.mark.parametrize("place", range(1, len(STREAM)))
def test_every_cut(place: int) -> None:
    """A cut at any one place changes nothing."""
    assert parse(STREAM[:place], b"", STREAM[place:]) == FRAMES


@given(st.sets(st.integers(0, len(STREAM))))
def test_any_cuts(places: set[int]) -> None:
    """Neither do cuts at any set of places."""
    assert parse(*cut(STREAM, places)) == FRAMES


@given(st.binary(max_size=200), st.sets(st.integers(0, 200)))
def test_anything(body: bytes, places: set[int]) -> None:
    """Whatever comes, nothing raises, and cuts make no difference."""
    assert parse(*cut(body, places)) == parse(body)


@given(st.integers(0, len(STREAM) - 1), st.integers(1, 255))
def test_a_byte_that_is_wrong(place: int, change: int) -> None:
    """A wrong byte, wherever it is, never makes a frame that was not sent."""
    body = bytearray(STREAM)
    body[place] ^= change
    parser = EventStreamParser()

    assert all(found in FRAMES for found in parser.feed(bytes(body)))
    assert parser.dropped + parser.lost == 1


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20)), st.binary())
def test_there_and_back(headers: dict[str, str], payload: bytes) -> None:
    """What was written is what is read."""
    encoded = b"".join(header_of(name, value) for name, value in headers.items())

    assert parse(frame(encoded, payload)) == [Frame(headers, payload)]


def header_of(name: str, value: str) -> bytes:
    """Return a header whose name may be of any characters."""
    told, text = name.encode(), value.encode()
    return bytes([len(told)]) + told + struct.pack(">BH", 7, len(text)) + text


# === what is wrong ==============================================================


@pytest.mark.parametrize(
    "headers",
    [
        b"\x01",
        b"\x05ab",
        b"\x01a",
        b"\x01a\x0a",
        b"\x01a\xff\x00",
        b"\x01a\x05\x00",
        b"\x01a\x07",
        b"\x01a\x07\x00",
        b"\x01a\x07\x00\x02b",
        b"\x01a\x06\xff\xff",
        b"\x01a\x09" + bytes(15),
        header("a", "b") + header("a", "c"),
        header("a", "b") + b"\x01a\x00",
    ],
)
def test_headers_that_are_none(headers: bytes) -> None:
    """A frame with headers that can't be read is dropped, and the next one is read."""
    parser = EventStreamParser()

    assert parser.feed(frame(headers, b"x") + frame(b"", b"next")) == [NEXT]
    assert (parser.dropped, parser.frames, parser.lost) == (1, 2, False)


def test_a_wrong_checksum() -> None:
    """A frame that its checksum denies is dropped, and the next one is read."""
    parser = EventStreamParser()

    assert parser.feed(EMPTY[:-1] + b"\0" + frame(b"", b"next")) == [NEXT]
    assert parser.dropped == 1


@pytest.mark.parametrize(
    "start",
    [
        prelude(0, 0),
        prelude(15, 0),
        prelude(16, 1),
        prelude(100, 85),
        prelude(0xFFFFFFFF, MAX_HEADERS_BYTES + 1),
        EMPTY[:8] + b"\0\0\0\0",
        b'{"message": "no frame"}',
    ],
)
def test_lengths_that_lie(start: bytes) -> None:
    """Behind a length that can't be believed nothing is read, and it is kept apart."""
    parser = EventStreamParser()

    assert parser.feed(EMPTY + start[:12] + frame(b"", b"next")) == [Frame({}, b"")]
    assert parser.lost
    assert parser.unread == frame(b"", b"next")
    assert parser.feed(b"more") == []
    assert parser.unread == b"more"
    assert length_of(start) is None


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_a_frame_that_is_too_long(step: int) -> None:
    """What is too long is never kept, and the next frame is read."""
    parser = EventStreamParser(max_frame_bytes=50)
    body = frame(b"", bytes(35)) + frame(b"", b"next")

    chunks = [body[at : at + step] for at in range(0, len(body), step)]
    assert [found for chunk in chunks for found in parser.feed(chunk)] == [NEXT]
    assert parser.dropped == 1


def test_a_frame_at_the_limit() -> None:
    """What is as long as may be is read."""
    parser = EventStreamParser(max_frame_bytes=50)

    assert parser.feed(frame(b"", bytes(34))) == [Frame({}, bytes(34))]
    assert parser.dropped == 0


def test_a_huge_frame_takes_no_room() -> None:
    """A frame that claims gigabytes is waited for, and none of it is kept."""
    parser = EventStreamParser()
    for chunk in (prelude(0xFFFFFFFF, 0), *[bytes(1_000)] * 100):
        assert parser.feed(chunk) == []

    assert len(parser._kept) == 0
    assert parser.dropped == 1


def test_a_frame_that_breaks_off() -> None:
    """Of a frame that breaks off nothing comes out."""
    assert parse(STREAM[:-1]) == FRAMES[:-1]


# === finding one ================================================================


@pytest.mark.parametrize("before", [b"", b"x", bytes(3), b"\0\0\0\x10" * 5, EMPTY[1:]])
def test_where_a_frame_begins(before: bytes) -> None:
    """The first prelude that can be believed is found, whatever stands before it."""
    assert find_frame(before + EMPTY) == len(before)


@pytest.mark.parametrize("data", [b"", EMPTY[:11], bytes(1_000), b"x" * 1_000])
def test_no_frame_begins(data: bytes) -> None:
    """Where there is none, none is found."""
    assert find_frame(data) is None


def test_the_length_of_a_frame() -> None:
    """A prelude tells how long its frame is, if it is all there."""
    assert length_of(EMPTY) == 16
    assert length_of(EMPTY[:12]) == 16
    assert length_of(EMPTY[:11]) is None
