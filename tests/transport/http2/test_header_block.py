"""Header blocks in pieces."""

from __future__ import annotations

import pytest

from tokenweir.transport.http2.errors import ConnectionBrokenError, ErrorCode
from tokenweir.transport.http2.frames import (
    END_HEADERS,
    END_STREAM,
    PADDED,
    PRIORITY_FLAG,
)
from tokenweir.transport.http2.header_block import (
    MAX_BLOCK_BYTES,
    MAX_PIECES,
    HeaderBlock,
)


def test_one_piece() -> None:
    """Most come whole."""
    block = HeaderBlock(END_HEADERS | END_STREAM, 1, b"block")

    assert (block.complete, block.ended, block.joined()) == (True, True, b"block")


def test_pieces() -> None:
    """Pieces are joined; only the first one tells if the stream ends."""
    block = HeaderBlock(0, 1, memoryview(b"bl"))
    assert not block.complete
    block.go_on(0, 1, b"oc")
    block.go_on(END_HEADERS | END_STREAM, 1, b"k")

    assert (block.complete, block.ended, block.joined()) == (True, False, b"block")


def test_padding_and_priority() -> None:
    """What stands around the block is left out."""
    flags = END_HEADERS | PADDED | PRIORITY_FLAG
    block = HeaderBlock(flags, 1, b"\x02" + b"prior" + b"block" + b"\0\0")

    assert block.joined() == b"block"


def test_no_room_for_a_priority() -> None:
    """Who says that there is a priority has to send one."""
    with pytest.raises(ConnectionBrokenError) as broken:
        HeaderBlock(END_HEADERS | PRIORITY_FLAG, 1, b"prio")
    assert broken.value.code is ErrorCode.FRAME_SIZE_ERROR


def test_another_stream() -> None:
    """Nothing comes between the pieces of a block."""
    block = HeaderBlock(0, 1, b"")
    with pytest.raises(ConnectionBrokenError) as broken:
        block.go_on(END_HEADERS, 3, b"")
    assert broken.value.code is ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize("piece", [b"", b"x" * 16_384])
def test_endless(piece: bytes) -> None:
    """A block without an end breaks the connection, be it of many bytes or of none."""
    block = HeaderBlock(0, 1, piece)

    def go_on() -> None:
        for _ in range(MAX_PIECES):
            block.go_on(0, 1, piece)

    with pytest.raises(ConnectionBrokenError) as broken:
        go_on()
    assert broken.value.code is ErrorCode.ENHANCE_YOUR_CALM
    assert len(block.joined()) <= MAX_BLOCK_BYTES + len(piece)
