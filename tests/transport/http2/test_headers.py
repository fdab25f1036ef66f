"""Header blocks, theirs and ours."""

from __future__ import annotations

import contextlib

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.http2.dialogue import head
from tokenweir.transport.base import MAX_METADATA_BYTES
from tokenweir.transport.http2.errors import (
    ConnectionBrokenError,
    ErrorCode,
    StreamBrokenError,
)
from tokenweir.transport.http2.headers import (
    HEAD_BLOCK,
    MAX_KNOWN_BLOCKS,
    MAX_TEXT_BYTES,
    NO_TABLE,
    NOT_GRPC_BLOCK,
    WELL_BLOCK,
    HeaderReader,
    trailers_block,
)
from tokenweir.transport.http2.statuses import Status, StatusError


def reader(*, stateless: bool = True) -> HeaderReader:
    """Return a reader, of a peer that has agreed to use no table."""
    made = HeaderReader()
    if stateless:
        made.settings_acknowledged()
    return made


def encoder() -> Encoder:
    """Return the encoder of a peer that uses no table."""
    made = Encoder()
    made.header_table_size = 0
    return made


def block(*more: tuple[str, str], only: list[tuple[str, str]] | None = None) -> bytes:
    """Return a block of its own: a request's head, or *only* these fields."""
    return encoder().encode(head("/a/b", *more) if only is None else only)


def test_request() -> None:
    """A head is read: what is called, by what, and with what metadata."""
    found = reader().read(block(("x-role", "admission"), ("x-role", "response")))

    assert (found.method, found.path, found.is_grpc) == ("POST", "/a/b", True)
    assert found.metadata == {
        "content-type": "application/grpc",
        "te": "trailers",
        "x-role": "response",
    }
    assert found.timeout_seconds is None


def test_equal_blocks() -> None:
    """A block is read once: an equal one is the same head."""
    made = reader()
    made.read(block())
    first = made.read(block(("a", "1")))

    assert made.read(block(("a", "1"))) is first


def test_before_the_peer_has_agreed() -> None:
    """As long as the peer may use a table, equal bytes may mean other headers."""
    made, peer = reader(stateless=False), Encoder()
    first = made.read(peer.encode(head("/a/b", ("a", "1"))))
    same_bytes = peer.encode(head("/a/b", ("a", "1")))
    assert made.read(same_bytes) == first
    made.skip(peer.encode([("b", "2")]))  # moves the table on
    with_both = peer.encode(head("/a/b", ("a", "1"), ("b", "2")))

    assert made.read(with_both).metadata["b"] == "2"
    assert made.read(with_both) is not made.read(with_both)


def test_broken_agreement() -> None:
    """Who has agreed to use no table, and does, breaks the connection."""
    made = reader(stateless=False)
    made.read(Encoder().encode(head()))
    made.settings_acknowledged()
    with pytest.raises(ConnectionBrokenError) as broken:
        made.read(Encoder().encode(head()))
    assert broken.value.code is ErrorCode.COMPRESSION_ERROR


def test_skip() -> None:
    """Without a table, what matters to nobody is not even read."""
    made = reader()
    made.read(block())
    made.skip(b"\xff\xff\xff")

    assert made.read(block()).path == "/a/b"


def test_bounded() -> None:
    """A peer that never repeats itself is not remembered without end."""
    made = reader()
    for number in range(MAX_KNOWN_BLOCKS + 5):
        made.read(block(("a", str(number))))

    assert len(made._known) == MAX_KNOWN_BLOCKS
    made.read(block(("a", "b" * 5_000)))
    assert len(made._known) == MAX_KNOWN_BLOCKS


def test_too_much_metadata() -> None:
    """Too much of it ends one stream, or the connection if a table was in use."""
    much = head("/a/b", ("a", "x" * MAX_METADATA_BYTES))
    made = reader()
    made.read(block())
    with pytest.raises(StatusError) as refused:
        made.read(encoder().encode(much))
    assert refused.value.status is Status.RESOURCE_EXHAUSTED
    assert made.read(block()).path == "/a/b"

    with pytest.raises(ConnectionBrokenError) as broken:
        reader(stateless=False).read(Encoder().encode(much))
    assert broken.value.code is ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "only",
    [
        [],
        [(":method", "POST"), (":path", "/a/b")],
        [(":method", "POST"), (":scheme", "http")],
        [(":scheme", "http"), (":path", "/a/b")],
        [*head("/a/b"), (":path", "/a/c")],
        [(":path", "/a/c"), *head("/a/b")],
        [(":status", "200"), *head("/a/b")],
        [*head("/a/b"), ("connection", "close")],
        [*head("/a/b"), ("transfer-encoding", "chunked")],
        [*head("/a/b"), ("Upper", "case")],
        [*head("/a/b"), ("", "nameless")],
        [*head("/a/b"), ("grpc-timeout", "1")],
        [*head("/a/b"), ("grpc-timeout", "123456789S")],
        [*head("/a/b"), ("grpc-timeout", "-1S")],
    ],
)
def test_malformed(only: list[tuple[str, str]]) -> None:
    """A malformed request is refused alone, whenever it comes again."""
    made = reader()
    for _ in range(2):
        with pytest.raises(StreamBrokenError) as broken:
            made.read(block(only=only))
        assert broken.value.code is ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2H", 7_200), ("3M", 180), ("4S", 4), ("5m", 5e-3), ("6u", 6e-6), ("7n", 7e-9)],
)
def test_timeout(text: str, seconds: float) -> None:
    """All units of grpc-timeout are known."""
    found = reader().read(block(("grpc-timeout", text)))

    assert found.timeout_seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("only", "grpc"),
    [
        (head(), True),
        ([*head()[:4], ("content-type", "application/grpc+proto")], True),
        ([*head()[:4], ("content-type", "text/html")], False),
        (head()[:4], False),
        ([(":method", "GET"), *head()[1:]], False),
    ],
)
def test_grpc(only: list[tuple[str, str]], grpc: bool) -> None:
    """A POST of gRPC's content type is gRPC, nothing else is."""
    assert reader().read(block(only=only)).is_grpc is grpc


@given(st.binary(max_size=80), st.booleans())
def test_anything(data: bytes, stateless: bool) -> None:
    """Whatever a block is, it is read, or refused in one of three ways."""
    made = reader(stateless=stateless)
    with contextlib.suppress(ConnectionBrokenError, StreamBrokenError, StatusError):
        assert made.read(data).path


# === ours ==========================================================================


def read(data: bytes) -> dict[bytes, bytes]:
    """Return what another implementation reads of a block of ours."""
    decoder = Decoder()
    found = dict(decoder.decode(NO_TABLE + data, raw=True))
    assert decoder.header_table_size == 0
    return found


def test_our_blocks() -> None:
    """Our heads and trailers are what gRPC wants."""
    assert read(HEAD_BLOCK) == {
        b":status": b"200",
        b"content-type": b"application/grpc",
    }
    assert read(NOT_GRPC_BLOCK) == {b":status": b"415"}
    assert read(WELL_BLOCK) == {b"grpc-status": b"0"}
    assert read(trailers_block(Status.INTERNAL, "processor fault")) == {
        b"grpc-status": b"13",
        b"grpc-message": b"processor fault",
    }


def test_texts() -> None:
    """Texts are percent-encoded, and never longer than anybody reads."""
    told = read(trailers_block(Status.NOT_FOUND, "50 % ä\n"))
    assert told[b"grpc-message"] == b"50 %25 %C3%A4%0A"

    long = read(trailers_block(Status.NOT_FOUND, "x" * 5_000))
    assert long[b"grpc-message"] == b"x" * MAX_TEXT_BYTES


@given(st.integers(1, 600))
def test_sizes_of_texts(size: int) -> None:
    """Sizes of one byte and of several are written as HPACK has them."""
    told = read(trailers_block(Status.NOT_FOUND, "x" * size))

    assert told[b"grpc-message"] == b"x" * size
