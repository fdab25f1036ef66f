"""What sides say of themselves."""

from __future__ import annotations

import struct

import pytest

from tokenweir.transport.http2.errors import ConnectionBrokenError, ErrorCode
from tokenweir.transport.http2.settings import OURS, PeerSettings, Setting


def applied(*settings: tuple[int, int]) -> PeerSettings:
    """Return what a peer said."""
    peer = PeerSettings()
    peer.apply(b"".join(struct.pack(">HI", *setting) for setting in settings))
    return peer


def test_defaults() -> None:
    """Who says nothing has what RFC 9113 gives it."""
    peer = applied()

    assert (peer.window_bytes, peer.max_frame_bytes) == (65_535, 16_384)


def test_said() -> None:
    """What matters here is taken, the last word counts, and the rest is let be."""
    peer = applied(
        (Setting.INITIAL_WINDOW_SIZE, 1),
        (Setting.INITIAL_WINDOW_SIZE, 2**31 - 1),
        (Setting.MAX_FRAME_SIZE, 2**24 - 1),
        (Setting.ENABLE_PUSH, 1),
        (Setting.HEADER_TABLE_SIZE, 0),
        (0xABCD, 2**32 - 1),
    )

    assert (peer.window_bytes, peer.max_frame_bytes) == (2**31 - 1, 2**24 - 1)


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        (Setting.INITIAL_WINDOW_SIZE, 2**31, ErrorCode.FLOW_CONTROL_ERROR),
        (Setting.MAX_FRAME_SIZE, 16_383, ErrorCode.PROTOCOL_ERROR),
        (Setting.MAX_FRAME_SIZE, 2**24, ErrorCode.PROTOCOL_ERROR),
        (Setting.ENABLE_PUSH, 2, ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_impossible(setting: int, value: int, code: ErrorCode) -> None:
    """What can't be breaks the connection, by the code that the RFC names."""
    with pytest.raises(ConnectionBrokenError) as broken:
        applied((setting, value))
    assert broken.value.code is code


def test_half() -> None:
    """Half a setting is none."""
    with pytest.raises(ConnectionBrokenError) as broken:
        PeerSettings().apply(b"\0\x01\0\0\0")
    assert broken.value.code is ErrorCode.FRAME_SIZE_ERROR


def test_ours() -> None:
    """We ask for no header table: blocks are known by their bytes."""
    assert (Setting.HEADER_TABLE_SIZE, 0) in struct.iter_unpack(">HI", OURS)
