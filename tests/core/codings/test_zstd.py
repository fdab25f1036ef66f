"""Zstandard gives what was encoded, frame by frame, in little memory."""

from __future__ import annotations

import contextlib
import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.codings.base import CodingError
from tokenweir.core.codings.zstd import Zstandard

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b'data: {"a":1}\n\n' * 20 + bytes(range(256))
FRAME = zstd.compress(TEXT)
SKIPPED = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
NOISE = random.Random(5).randbytes(300_000)


def made(coding: Zstandard, *pieces: bytes) -> bytes:
    """Return what *pieces* decode to."""
    return b"".join(part for piece in pieces for part in coding.decode(piece))


def test_frames() -> None:
    """Frames follow each other, and each is counted as it ends."""
    coding = Zstandard()

    came = made(coding, FRAME[:-1])
    assert (coding.streams, coding.whole) == (0, False)
    assert came + made(coding, FRAME[-1:]) == TEXT
    assert (coding.streams, coding.whole) == (1, True)
    assert made(coding, FRAME[:1]) == b""
    assert not coding.whole
    assert made(coding, FRAME[1:] + SKIPPED + FRAME) == TEXT * 2
    assert (coding.streams, coding.whole) == (4, True)


def test_nothing() -> None:
    """No bytes are no frame."""
    coding = Zstandard()

    assert made(coding, b"") == b""
    assert not coding.whole


@pytest.mark.parametrize("text", [NOISE, b"a" * 1_000_000, NOISE[:9] * 9_000])
def test_much(text: bytes) -> None:
    """What is much comes in pieces, all of it."""
    coding, body = Zstandard(), zstd.compress(text)
    pieces = [
        part
        for at in range(0, len(body), 4_096)
        for part in coding.decode(body[at : at + 4_096])
    ]

    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= 64 * 1024


@pytest.mark.parametrize("body", [b"{" * 20, FRAME + b"garbage"])
def test_what_is_none(body: bytes) -> None:
    """What is no frame is told, behind what was one."""
    coding = Zstandard()
    parts: list[bytes] = []
    with pytest.raises(CodingError):
        parts.extend(coding.decode(body))

    assert b"".join(parts) in (b"", TEXT)


@pytest.mark.parametrize(("bits", "fits"), [(23, True), (24, False)])
def test_windows(bits: int, fits: bool) -> None:
    """What needs a window of more than 8 MiB is refused. RFC 9659, 3"""
    log = int(zstd.CompressionParameter.window_log)
    stream = zstd.ZstdCompressor(options={log: bits})
    body = stream.compress(TEXT) + stream.flush()

    if fits:
        assert made(Zstandard(), body) == TEXT
    else:
        with pytest.raises(CodingError):
            made(Zstandard(), body)


@given(st.binary(max_size=200))
def test_nothing_else_is_raised(body: bytes) -> None:
    """No bytes whatever make it raise anything else."""
    for start in (b"", FRAME[:9], FRAME, SKIPPED):
        with contextlib.suppress(CodingError):
            made(Zstandard(), start + body)
