"""Encoded bodies are decoded however they are cut, and no bomb goes off."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib
from functools import partial
from itertools import pairwise

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.codings.encoders import zstandard
from tokenweir.core.content_coding import (
    CODINGS,
    Bounded,
    Decoder,
    codings_of,
    decoder_for,
    is_known,
)

# Without the time of day: names of tests are made of it.
gzipped = partial(gzip.compress, mtime=0)

TEXT = b'data: {"a":1}\n\n' * 20 + bytes(range(256))


def raw_deflate(text: bytes, level: int = -1) -> bytes:
    """Return *text* as a bare deflate stream."""
    stream = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
    return stream.compress(text) + stream.flush()


def flushed(text: bytes, window: int, step: int) -> list[bytes]:
    """Return *text* encoded and flushed every *step* bytes, as servers do events."""
    stream = zlib.compressobj(wbits=window)
    pieces = [
        stream.compress(text[at : at + step]) + stream.flush(zlib.Z_SYNC_FLUSH)
        for at in range(0, len(text), step)
    ]
    return [*pieces, stream.flush()]


ENCODED = {
    "plain": ("", TEXT),
    "identity": ("identity", TEXT),
    "gzip": ("gzip", gzipped(TEXT)),
    "shouted": ("GZIP", gzipped(TEXT)),
    "x-gzip": (" x-gzip ,identity", gzipped(TEXT)),
    "two members": ("gzip", gzipped(TEXT[:100]) + gzipped(TEXT[100:])),
    "empty members": ("gzip", gzipped(b"") * 3 + gzipped(TEXT)),
    "unlabelled gzip": ("", gzipped(TEXT)),
    "mislabelled gzip": ("identity", gzipped(TEXT)),
    "zlib": ("deflate", zlib.compress(TEXT)),
    "zlib, best": ("deflate", zlib.compress(TEXT, 9)),
    "raw": ("deflate", raw_deflate(TEXT)),
    "raw, stored": ("deflate", raw_deflate(TEXT, 0)),
    "br": ("br", brotli.compress(TEXT)),
    "shouted br": ("Br", brotli.compress(TEXT)),
    "zstd": ("zstd", zstandard(TEXT)),
    "two frames": ("zstd", zstandard(TEXT[:100]) + zstandard(TEXT[100:])),
    "gzip in br": ("gzip, br", brotli.compress(gzipped(TEXT))),
    "br in gzip": (" br,X-GZIP", gzipped(brotli.compress(TEXT))),
    "four": (
        "zstd,deflate,identity,br,gzip",
        gzipped(brotli.compress(zlib.compress(zstandard(TEXT)))),
    ),
}


def decoder(content_encoding: str) -> Decoder:
    """Return a decoder that must be there."""
    found = decoder_for(content_encoding)
    assert found is not None
    return found


def decode(content_encoding: str, *chunks: bytes) -> bytes:
    """Return what *chunks* decode to; they must not be broken."""
    decoding = decoder(content_encoding)
    text = b"".join(piece for chunk in chunks for piece in decoding.feed(chunk))
    assert not decoding.broken
    assert not decoding.exceeded
    assert decoding.whole
    return text


@pytest.mark.parametrize(("content_encoding", "body"), ENCODED.values(), ids=ENCODED)
def test_decodes(content_encoding: str, body: bytes) -> None:
    """Every coding that is known gives the text, as a whole and byte by byte."""
    assert decode(content_encoding, body) == TEXT
    assert decode(content_encoding, *(bytes([byte]) for byte in body)) == TEXT


@pytest.mark.parametrize(("content_encoding", "body"), ENCODED.values(), ids=ENCODED)
def test_every_cut(content_encoding: str, body: bytes) -> None:
    """A cut in any one place changes nothing."""
    for place in range(len(body) + 1):
        assert decode(content_encoding, body[:place], body[place:]) == TEXT


@given(st.sampled_from([*ENCODED.values()]), st.sets(st.integers(0, 800)))
def test_any_cut(encoded: tuple[str, bytes], places: set[int]) -> None:
    """Cuts in any places change nothing."""
    content_encoding, body = encoded
    edges = sorted({0, len(body), *(place % len(body) for place in places)})

    assert decode(content_encoding, *(body[a:b] for a, b in pairwise(edges))) == TEXT


@pytest.mark.parametrize(
    ("content_encoding", "window"), [("gzip", 31), ("deflate", 15), ("deflate", -15)]
)
def test_what_is_flushed_comes_at_once(content_encoding: str, window: int) -> None:
    """What a server has flushed can be read at once: events don't wait."""
    decoding = decoder(content_encoding)
    pieces = flushed(TEXT[:300], window, 15)
    came = [b"".join(decoding.feed(piece)) for piece in pieces]

    assert came == [TEXT[:15]] * 20 + [b""]


@pytest.mark.parametrize("size_bytes", range(65_535, 65_540))
def test_output_that_fills_a_piece(size_bytes: int) -> None:
    """What is left in the decoder after a full piece comes without more input."""
    body = raw_deflate(b"a" * size_bytes)

    assert decode("deflate", body) == b"a" * size_bytes


@pytest.mark.parametrize(
    "content_encoding",
    ["compress", "gzip, snappy", "x", "x-br", "gzip;q=1", "gzip gzip", "gzip," * 5],
)
def test_unknown_codings(content_encoding: str) -> None:
    """What can't be decoded has no decoder; nor has what nobody would write."""
    assert decoder_for(content_encoding) is None
    assert not is_known(content_encoding)


@pytest.mark.parametrize(
    ("content_encoding", "codings"),
    [
        ("", []),
        (" , Identity,", []),
        ("gzip", ["gzip"]),
        ("X-Gzip ,BR", ["gzip", "br"]),
        ("y", ["y"]),
    ],
)
def test_codings(content_encoding: str, codings: list[str]) -> None:
    """What a header says is a list, in which identity means nothing."""
    assert codings_of(content_encoding) == codings


@pytest.mark.parametrize(("content_encoding", "body"), ENCODED.values(), ids=ENCODED)
def test_what_is_cut_off_is_not_whole(content_encoding: str, body: bytes) -> None:
    """An encoded body without its last byte is not broken, but not whole either."""
    decoding = decoder(content_encoding)
    list(decoding.feed(body[:-1]))

    assert not decoding.broken
    assert decoding.whole is (body == TEXT)


@pytest.mark.parametrize(
    ("content_encoding", "body"),
    [
        ("gzip", TEXT),
        ("gzip", gzipped(TEXT)[:-8] + b"12345678"),
        ("gzip", gzipped(TEXT) + b"garbage"),
        ("deflate", b"\xff" * 100),
        ("deflate", b"\x78\x9c" + b"\xff" * 100),
        ("", b"\x1f\x8b" + TEXT),
        ("br", b"\xff" * 100),
        ("br", brotli.compress(TEXT) + b"garbage"),
        ("zstd", TEXT),
        ("zstd", zstandard(TEXT) + b"garbage"),
        ("gzip, br", brotli.compress(gzipped(TEXT) + b"garbage")),
        ("gzip, br", brotli.compress(gzipped(TEXT)) + b"garbage"),
        ("gzip, br", brotli.compress(TEXT) + b"garbage"),
    ],
)
def test_broken(content_encoding: str, body: bytes) -> None:
    """What is not what its coding says is broken, and stays so; nothing raises."""
    decoding = decoder(content_encoding)
    pieces = [
        piece for at in range(len(body)) for piece in decoding.feed(body[at : at + 1])
    ]

    assert decoding.broken
    assert not decoding.exceeded
    assert not decoding.whole
    assert TEXT.startswith(b"".join(pieces))
    assert list(decoding.feed(gzipped(TEXT))) == []


@pytest.mark.parametrize("content_encoding", ["", "gzip", "deflate", "br", "br, br"])
def test_too_short_to_tell(content_encoding: str) -> None:
    """One byte, or none, may be the beginning of anything."""
    decoding = decoder(content_encoding)

    assert list(decoding.feed(b"")) == []
    assert list(decoding.feed(b"\x1f")) == []
    assert not decoding.broken


@given(
    st.sampled_from(["", "gzip", "deflate", "br", "br, zstd"]), st.binary(max_size=100)
)
def test_nothing_raises(content_encoding: str, body: bytes) -> None:
    """No bytes whatever make decoding raise."""
    for start in (b"", b"\x1f\x8b\x08", b"\x78\x9c", b"\x28\xb5\x2f\xfd"):
        list(decoder(content_encoding).feed(start + body))


BOMBS = {
    "gzip": gzipped(b"a" * 16_000_000),
    "": gzipped(b"a" * 16_000_000),
    "deflate": zlib.compress(b"a" * 16_000_000),
    "br": brotli.compress(b"a" * 16_000_000),
    "zstd": zstandard(b"a" * 16_000_000),
    "gzip, gzip": gzipped(gzipped(b"a" * 16_000_000)),
    "zstd, br": brotli.compress(zstandard(b"a" * 16_000_000)),
    "br, zstd, gzip": gzipped(zstandard(brotli.compress(b"a" * 16_000_000))),
}


@pytest.mark.parametrize(("content_encoding", "bomb"), BOMBS.items(), ids=BOMBS)
def test_bomb_in_bounded_memory(content_encoding: str, bomb: bytes) -> None:
    """A few kilobytes that hold megabytes are never in memory as a whole."""
    decoding = decoder(content_encoding)
    total_bytes = 0
    tracemalloc.start()
    for piece in decoding.feed(bomb):
        total_bytes += len(piece)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert total_bytes == 16_000_000
    assert peak_bytes < 500_000


@pytest.mark.parametrize(("content_encoding", "bomb"), BOMBS.items(), ids=BOMBS)
def test_bomb_above_the_limit(content_encoding: str, bomb: bytes) -> None:
    """Decoding stops at its limit, whatever is left."""
    decoding = decoder_for(content_encoding, max_decoded_bytes=1_000_000)
    assert decoding is not None
    total_bytes = sum(map(len, decoding.feed(bomb)))

    assert decoding.broken
    assert decoding.exceeded
    assert not decoding.whole
    assert total_bytes <= 1_000_000
    assert list(decoding.feed(bomb)) in ([], [b""])


@pytest.mark.parametrize(("content_encoding", "bomb"), BOMBS.items(), ids=BOMBS)
def test_at_the_limit(content_encoding: str, bomb: bytes) -> None:
    """What is not above the limit is read to its end."""
    decoding = decoder_for(content_encoding, max_decoded_bytes=16_000_000)
    assert decoding is not None

    assert sum(map(len, decoding.feed(bomb))) == 16_000_000
    assert decoding.whole


def test_flood_of_members() -> None:
    """
    A chunk of many short members is not copied for each of them.

    That would be 800 GB here: minutes, where once through is a second.
    """
    chunk = gzipped(b"") * 200_000
    started = time.monotonic()

    assert b"".join(decoder("gzip").feed(chunk)) == b""
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("content_encoding", "chunk"),
    [
        ("gzip", gzipped(b"") * 10_000),
        ("gzip", gzipped(b"a" * 10_000_000)),
        ("gzip", gzipped(b"a") * 10_000),
        ("zstd", zstandard(b"") * 10_000),
        ("zstd", zstandard(b"a") * 10_000),
        *BOMBS.items(),
    ],
)
def test_comes_in_steps(content_encoding: str, chunk: bytes) -> None:
    """Between two pieces little is read and little is made, whatever the input."""
    pieces = list(decoder(content_encoding).feed(chunk))

    assert max(map(len, pieces)) <= 64 * 1024
    assert len(pieces) >= len(chunk) // 4_096


def test_how_many_streams_have_come() -> None:
    """Members and frames are counted as they end, for whoever limits them."""
    decoding = Bounded(CODINGS["zstd"](), 1_000)
    for _ in range(3):
        list(decoding.feed(zstandard(b"a")))

    assert decoding.streams == 3
