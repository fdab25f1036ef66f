"""gzip and deflate give what was encoded, whatever follows what."""

from __future__ import annotations

import gzip
import zlib

import pytest

from tokenweir.core.codings.base import CodingError
from tokenweir.core.codings.deflate import Deflate, deflate_window, gzip_window

TEXT = b'data: {"a":1}\n\n' * 20 + bytes(range(256))
MEMBER = gzip.compress(TEXT)


def made(coding: Deflate, *pieces: bytes) -> bytes:
    """Return what *pieces* decode to."""
    return b"".join(part for piece in pieces for part in coding.decode(piece))


def test_members() -> None:
    """Members follow each other, and each is counted as it ends."""
    coding = Deflate(gzip_window)

    assert made(coding, MEMBER[:-1]) == TEXT
    assert (coding.streams, coding.whole) == (0, False)
    assert made(coding, MEMBER[-1:]) == b""
    assert (coding.streams, coding.whole) == (1, True)
    assert made(coding, MEMBER[:1]) == b""
    assert (coding.streams, coding.whole) == (1, False)
    assert made(coding, MEMBER[1:] + MEMBER) == TEXT * 2
    assert (coding.streams, coding.whole) == (3, True)


@pytest.mark.parametrize("wbits", [zlib.MAX_WBITS, -zlib.MAX_WBITS])
def test_both_that_are_called_deflate(wbits: int) -> None:
    """zlib's wrapper may be there or not; the first two bytes tell."""
    stream = zlib.compressobj(wbits=wbits)
    body = stream.compress(TEXT) + stream.flush()
    coding = Deflate(deflate_window)

    assert not coding.whole
    assert made(coding, body[:1], body[1:]) == TEXT
    assert coding.whole


@pytest.mark.parametrize("size_bytes", range(65_535, 65_540))
def test_output_that_fills_a_piece(size_bytes: int) -> None:
    """What is left in the decoder after a full piece comes without more input."""
    body = gzip.compress(b"a" * size_bytes)

    assert made(Deflate(gzip_window), body) == b"a" * size_bytes


@pytest.mark.parametrize("body", [TEXT, MEMBER + TEXT, MEMBER[:-8] + b"12345678"])
def test_what_is_none(body: bytes) -> None:
    """What is no member is told, behind what was one."""
    coding = Deflate(gzip_window)
    parts: list[bytes] = []
    with pytest.raises(CodingError):
        parts.extend(coding.decode(body))

    assert b"".join(parts) in (b"", TEXT)


def test_a_byte_behind_the_end() -> None:
    """One byte more may begin another stream: the body is not whole."""
    coding = Deflate(deflate_window)

    assert made(coding, zlib.compress(TEXT) + b"\n") == TEXT
    assert not coding.whole
