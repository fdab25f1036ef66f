"""Encoded bodies, for tests."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Mapping

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def zstandard(text: bytes) -> bytes:
    """Return *text* as one frame."""
    return zstd.compress(text)


def raw_deflate(text: bytes) -> bytes:
    """Return *text* as a bare deflate stream."""
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(text) + stream.flush()


def in_members(text: bytes) -> bytes:
    """Return *text* in two gzip members."""
    return gzip.compress(text[:9]) + gzip.compress(text[9:])


ENCODERS: Mapping[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip in members": ("x-gzip", in_members),
    "deflate": ("Deflate", zlib.compress),
    "bare deflate": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstandard),
    "zstd in frames": (
        "zstd",
        lambda text: zstandard(text[:9]) + zstandard(text[9:]),
    ),
    "gzip in br": (
        "gzip, br",
        lambda text: brotli.compress(gzip.compress(text)),
    ),
    "br in zstd in gzip": (
        "identity, br, zstd, X-GZIP",
        lambda text: gzip.compress(zstandard(brotli.compress(text))),
    ),
}
"""By name: the header that says so, and what encodes."""
