"""Messages of gRPC, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.http2.dialogue import framed
from tokenweir.transport.base import MAX_MESSAGE_BYTES
from tokenweir.transport.http2.messages import MessageReader, prefix
from tokenweir.transport.http2.statuses import Status, StatusError

MESSAGES = [b"", b"a", b"", b"message", b"x" * 300, b""]
WIRE = b"".join(map(framed, MESSAGES))


@given(st.sets(st.integers(1, len(WIRE) - 1)))
def test_any_cut(cuts: set[int]) -> None:
    """However bytes are cut, messages are the same, and nothing is left at the end."""
    reader, found = MessageReader(), []
    ends = [*sorted(cuts), len(WIRE)]
    for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        piece = WIRE[begin:end]
        found += reader.feed(memoryview(piece) if number % 2 else piece)

    assert found == MESSAGES
    assert reader.kept_bytes == 0


def test_one_frame_one_message() -> None:
    """A message that fills its frame is bytes, whatever it was read from."""
    [message] = MessageReader().feed(memoryview(framed(b"message")))

    assert message == b"message"
    assert isinstance(message, bytes)


def test_kept() -> None:
    """It is known how much of a message is here."""
    reader = MessageReader()
    wire = framed(b"x" * 100)
    kept = []
    for begin, end in ((0, 3), (3, 5), (5, 80), (80, 105)):
        reader.feed(wire[begin:end])
        kept.append(reader.kept_bytes)

    assert kept == [3, 5, 80, 0]


@pytest.mark.parametrize("cut", [1, 5, 8])
def test_compressed(cut: int) -> None:
    """A compressed message is none that we read."""
    reader = MessageReader()
    wire = b"\x01" + framed(b"abc")[1:]
    with pytest.raises(StatusError) as refused:
        [reader.feed(piece) for piece in (wire[:cut], wire[cut:])]
    assert refused.value.status is Status.UNIMPLEMENTED


def test_too_large() -> None:
    """A message is refused by its prefix, before anything of it is kept."""
    reader = MessageReader()
    reader.feed(b"\0" + MAX_MESSAGE_BYTES.to_bytes(4))
    with pytest.raises(StatusError) as refused:
        MessageReader().feed(b"\0" + (MAX_MESSAGE_BYTES + 1).to_bytes(4))
    assert refused.value.status is Status.RESOURCE_EXHAUSTED


@given(st.binary(max_size=64))
def test_anything(data: bytes) -> None:
    """Whatever comes is messages, the begin of one, or refused with a status."""
    reader = MessageReader()
    try:
        found = reader.feed(data)
    except StatusError:
        return
    again = b"".join(map(framed, found))
    assert data.startswith(again)
    assert len(data) == len(again) + reader.kept_bytes


def test_prefix() -> None:
    """What is written is read as it was."""
    message = b"x" * 70_000

    assert MessageReader().feed(prefix(message) + message) == [message]
