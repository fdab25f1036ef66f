"""Events come out the same however a body is cut, and whatever it holds."""

from __future__ import annotations

import sys
import time
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.sse import ServerSentEvent, SSEParser

STREAM = (
    b"\xef\xbb\xbf: keep-alive\n\n"
    b'data: {"a":1}\n\n'
    b"event: message_stop\r\ndata: caf\xc3\xa9\r\ndata:two\r\n\r\n"
    b"data:[DONE]\r\r"
    b"\r\n\r\n\n\r"
    b"data\rid: 7\n\n"
    b"retry: 3000\n\n"
    b"data: \xff \xe2\x80\xa8 \xc2\x85 x\n\n"
    b"event: late\ndata:  unterminated"
)
EVENTS = [
    ServerSentEvent("message", b'{"a":1}'),
    ServerSentEvent("message_stop", b"caf\xc3\xa9\ntwo"),
    ServerSentEvent("message", b"[DONE]"),
    ServerSentEvent("message", b""),
    ServerSentEvent("message", b"\xff \xe2\x80\xa8 \xc2\x85 x"),
    ServerSentEvent("late", b" unterminated"),
]
# Whatever means something to the format, and something else.
PIECES = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b":",
        b" ",
        b"data",
        b"data:",
        b"event:",
        b"x",
        b"\xef\xbb\xbf",
    ]
)


def parse(*chunks: bytes, max_event_bytes: int = 1_000) -> list[ServerSentEvent]:
    """Return the events of a body that comes as *chunks*."""
    parser = SSEParser(max_event_bytes=max_event_bytes)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.flush()


def cut(body: bytes, places: set[int]) -> list[bytes]:
    """Return *body* cut at *places*."""
    edges = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    return [body[start:end] for start, end in pairwise(edges)]


def in_pieces(body: bytes, size_bytes: int) -> list[bytes]:
    """Return *body* cut into pieces of one size."""
    return [body[at : at + size_bytes] for at in range(0, len(body), size_bytes)]


def test_whole() -> None:
    """All line ends, comments, multi-line data and control events are understood."""
    assert parse(STREAM) == EVENTS


def test_byte_by_byte() -> None:
    """The worst cut changes nothing."""
    assert parse(*in_pieces(STREAM, 1)) == EVENTS


@pytest.mark.parametrize("place", range(1, len(STREAM)))
def test_every_cut(place: int) -> None:
    """A cut in any one place changes nothing: in a line, a character or a CRLF."""
    assert parse(STREAM[:place], b"", STREAM[place:]) == EVENTS


@given(st.lists(PIECES), st.sets(st.integers(0, 200)), st.integers(1, 9))
def test_any_stream_and_any_cut(
    pieces: list[bytes], places: set[int], max_event_bytes: int
) -> None:
    """The cut law holds for nonsense too, and for events around the cap."""
    body = b"".join(pieces)
    whole = parse(body, max_event_bytes=max_event_bytes)

    assert parse(*cut(body, places), max_event_bytes=max_event_bytes) == whole
    assert parse(*in_pieces(body, 1), max_event_bytes=max_event_bytes) == whole


@pytest.mark.parametrize(
    ("field", "data"),
    [
        (b"data:x", b"x"),
        (b"data: x", b"x"),
        (b"data:  x", b" x"),
        (b"data:\tx", b"\tx"),
        (b"data:x: y", b"x: y"),
        (b"data:", b""),
        (b"data", b""),
    ],
)
def test_one_space(field: bytes, data: bytes) -> None:
    """One space after the colon goes, or none, and nothing else."""
    assert parse(field + b"\n\n") == [ServerSentEvent("message", data)]


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b"\n\n\r\r\n",
        b":\n\n",
        b": ping - 2\n\n",
        b"retry: 3000\n\nid: 7\n\nevent: ping\n\n",
        b"dat: x\n\n datax: y\n\nDATA: z\n\n",
    ],
)
def test_no_event(lines: bytes) -> None:
    """Comments, control fields and unknown ones are no events."""
    assert parse(lines) == []


def test_name_without_data_is_forgotten() -> None:
    """The name of an event without data is not that of the next one."""
    assert parse(b"event: ping\n\ndata: x\n\n") == [ServerSentEvent("message", b"x")]


def test_comment_inside_of_an_event() -> None:
    """A comment that is glued to an event is no part of it."""
    assert parse(b": wait\ndata: x\n: y\ndata: z\n\n") == [
        ServerSentEvent("message", b"x\nz")
    ]


def test_byte_order_mark_only_at_the_start() -> None:
    """A byte-order mark is dropped at the start of a stream, not elsewhere."""
    mark = b"\xef\xbb\xbf"

    assert parse(mark + b"data: x\n\n") == [ServerSentEvent("message", b"x")]
    assert parse(b"\n" + mark + b"data: x\n\n") == []


def test_broken_name() -> None:
    """A name that is no UTF-8 is replaced, and raises nothing."""
    assert parse(b"event: \xff\ndata: x\n\n") == [ServerSentEvent("\ufffd", b"x")]


@pytest.mark.parametrize("size_bytes", [1, 3, 1_000])
@pytest.mark.parametrize(
    "event",
    [
        b"data: " + b"x" * 20,  # one line, as a whole
        b"data: xxxx\n" * 5,  # many lines
        b": " + b"x" * 20 + b"\ndata: y",  # not even data
        b"data: " + b"x" * 20 + b"\ndata: y\nevent: z",
    ],
)
def test_event_above_the_cap(event: bytes, size_bytes: int) -> None:
    """An event that is too long is dropped and counted once; the next one is read."""
    parser = SSEParser(max_event_bytes=16)
    body = event + b"\n\ndata: next\n\n"
    events = [
        found for chunk in in_pieces(body, size_bytes) for found in parser.feed(chunk)
    ]

    assert events == [ServerSentEvent("message", b"next")]
    assert parser.dropped == 1


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b"data: x\n\n", 2),
        (b"data: x\r\n\r\ndata: y\r\n\r\n", 4),
        (b": x\n" * 10, 10),
        (b"\n" * 10, 1),
        (b"data: x", 0),
        (b"", 0),
    ],
)
def test_lines_that_were_looked_at(body: bytes, lines: int) -> None:
    """Work goes by lines; a run of empty ones is one."""
    parser = SSEParser()
    parser.feed(body)

    assert parser.lines == lines


def test_event_at_the_cap() -> None:
    """An event of just the cap is kept."""
    assert parse(b"data: " + b"x" * 10 + b"\n\n", max_event_bytes=16) == [
        ServerSentEvent("message", b"x" * 10)
    ]


def test_line_without_end_is_bounded() -> None:
    """Of a line that never ends no more is kept than the cap."""
    parser = SSEParser(max_event_bytes=100_000)
    kept_bytes = 0
    for _ in range(2_000):
        parser.feed(b"x" * 1_000)
        kept_bytes = max(kept_bytes, len(parser._line))

    assert kept_bytes <= 100_000
    assert parser.dropped == 1
    assert parser.flush() == []


def test_event_without_end_is_bounded() -> None:
    """Of an event that never ends no more is kept than the cap; then nothing."""
    parser = SSEParser(max_event_bytes=10_000)
    kept_bytes = 0
    for _ in range(100):
        parser.feed(b"data: 123456789\n" * 50)
        kept_bytes = max(kept_bytes, len(parser._data))

    assert kept_bytes <= 10_000
    assert parser._data == b""
    assert parser.dropped == 1


@pytest.mark.parametrize(
    "line",
    [b"\n", b"\r\n", b":\n\n", b"x" * 1_000, b"data: x\n"],
    ids=["empty", "crlf", "comments", "no end", "data"],
)
def test_memory_of_a_flood(line: bytes) -> None:
    """However much of anything comes, it takes the memory of some chunks."""
    chunk = line * (1_000 // len(line))
    parser = SSEParser(max_event_bytes=2_000)
    tracemalloc.start()
    for _ in range(200):
        parser.feed(chunk)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 40_000


def test_long_event_in_small_pieces() -> None:
    """
    An event is not searched again at every piece of it.

    That would be some 500 GB here: minutes, where once through is a second.
    """
    event = b"data: " + b"x" * 8_000_000
    parser = SSEParser(max_event_bytes=10_000_000)
    started = time.monotonic()
    for piece in in_pieces(event, 64):
        assert parser.feed(piece) == []

    assert parser.feed(b"\n\n") == [ServerSentEvent("message", event[6:])]
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("end", [b"\n\n", b"\n\ndata: x\n\n"])
def test_memory_of_a_long_event(end: bytes) -> None:
    """A long event is copied once, and is not there five times over (S09)."""
    event = b"data: " + b"x" * 4_000_000
    parser = SSEParser(max_event_bytes=5_000_000)
    tracemalloc.start()
    for piece in in_pieces(event, 1_000):
        parser.feed(piece)
    parser.feed(end)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    # It, its copy, and what a growing buffer has in reserve.
    assert peak_bytes < 2.5 * len(event)


def test_million_empty_lines_are_one_step() -> None:
    """A run of empty lines is skipped at once, not line by line."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    parser = SSEParser()
    sys.setprofile(count)
    parser.feed(b"\r\n" * 1_000_000)
    sys.setprofile(None)

    assert calls < 10
