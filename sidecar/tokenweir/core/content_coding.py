"""
Decoding an encoded body, incrementally and up to a limit.

Of an answer only our copy is decoded, to be read: the client gets the body as the
provider encoded it. So one that can't be decoded costs us its figures, never a byte.

A few kilobytes of input can hold a thousand times as much output. So output is
made in pieces that the caller takes one by one, and there is a limit to all of
it. Input is taken in small pieces too: zlib copies what it leaves unread, which
would be quadratic in a chunk that holds thousands of short gzip members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from tokenweir.core.codings.base import Coding, CodingError
from tokenweir.core.codings.br import Brotli
from tokenweir.core.codings.deflate import Deflate, deflate_window, gzip_window
from tokenweir.core.codings.zstd import Zstandard

# What is read of one body. Answers have at most some megabytes; 64 MiB is what
# 64 KB of input can hold, and about a tenth of a second of work.
MAX_DECODED_BYTES = 64 * 1024 * 1024

# One over the other. Nobody has a use for two; what has more is no body.
MAX_CODINGS = 4

GZIP_MAGIC = b"\x1f\x8b"

_INPUT_BYTES = 4 * 1024

CODINGS: Mapping[str, Callable[[], Coding]] = {
    "gzip": lambda: Deflate(gzip_window),
    "deflate": lambda: Deflate(deflate_window),
    "br": Brotli,
    "zstd": Zstandard,
}
"""Those that can be read, by their names in headers."""


class Decoder(Protocol):
    """Turns an encoded body into the one that was meant."""

    @property
    def broken(self) -> bool:
        """Not what its coding says, or above the limit: nothing more will come."""

    @property
    def exceeded(self) -> bool:
        """It is broken because it is above the limit."""

    @property
    def whole(self) -> bool:
        """Whether what came so far is a whole body, and nothing besides."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """
        Take the next *chunk*; yield what it decodes to, in bounded pieces.

        What is yielded may be empty: there is a bounded amount of work between two.
        """


def codings_of(content_encoding: str) -> list[str]:
    """Return what the header *content_encoding* names, the first applied first."""
    named = (coding.strip().lower() for coding in content_encoding.split(","))
    # RFC 9110, 8.4.1.3: "x-gzip" is "equivalent to "gzip"".
    return [
        "gzip" if coding == "x-gzip" else coding
        for coding in named
        if coding not in ("", "identity")
    ]


def is_known(content_encoding: str) -> bool:
    """Tell if bodies with the header *content_encoding* can be decoded."""
    codings = codings_of(content_encoding)
    return len(codings) <= MAX_CODINGS and all(each in CODINGS for each in codings)


def decoder_for(
    content_encoding: str, *, max_decoded_bytes: int = MAX_DECODED_BYTES
) -> Decoder | None:
    """
    Return a decoder for the header *content_encoding*, or None if it's unknown.

    *max_decoded_bytes* is the limit for each of several codings.
    """
    if not is_known(content_encoding):
        return None
    decoders: list[Decoder] = [
        Bounded(CODINGS[coding](), max_decoded_bytes)
        for coding in codings_of(content_encoding)
    ]
    if not decoders:
        return Undeclared(max_decoded_bytes)
    # RFC 9110, 8.4: they are listed "in the order in which they were applied".
    decoder = decoders.pop()
    while decoders:
        decoder = Chain(decoder, decoders.pop())
    return decoder


class Bounded:
    """
    Decodes one *coding*, up to a limit.

    Attributes:
        broken: See `Decoder`.
        exceeded: Ditto.
    """

    def __init__(self, coding: Coding, max_decoded_bytes: int) -> None:
        self.broken = self.exceeded = False
        self._coding = coding
        self._left_bytes = max_decoded_bytes

    @property
    def streams(self) -> int:
        """See `Coding`."""
        return self._coding.streams

    @property
    def whole(self) -> bool:
        """See `Decoder`."""
        return not self.broken and self._coding.whole

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take the next *chunk*; yield what it decodes to, in bounded pieces."""
        for at in range(0, len(chunk), _INPUT_BYTES):
            if at:
                yield b""
            if self.broken:
                return
            try:
                yield from self._bounded(chunk[at : at + _INPUT_BYTES])
            except CodingError:
                self.broken = True

    def _bounded(self, piece: bytes) -> Iterator[bytes]:
        for made in self._coding.decode(piece):
            self._left_bytes -= len(made)
            if self._left_bytes < 0:
                self.broken = self.exceeded = True
                return
            yield made


class Chain:
    """Decodes one coding over the other: *outer* first."""

    def __init__(self, outer: Decoder, inner: Decoder) -> None:
        self._outer = outer
        self._inner = inner

    @property
    def broken(self) -> bool:
        """See `Decoder`."""
        return self._outer.broken or self._inner.broken

    @property
    def exceeded(self) -> bool:
        """See `Decoder`."""
        return self._outer.exceeded or self._inner.exceeded

    @property
    def whole(self) -> bool:
        """See `Decoder`."""
        return self._outer.whole and self._inner.whole

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take the next *chunk*; yield what it decodes to, in bounded pieces."""
        for piece in self._outer.feed(chunk):
            if self._inner.broken:
                return
            yield b""
            yield from self._inner.feed(piece)


class Undeclared:
    """A body without a coding; some are gzip all the same, which its magic tells."""

    def __init__(self, max_decoded_bytes: int) -> None:
        self._max_decoded_bytes = max_decoded_bytes
        self._head = b""
        self._known = False
        self._gzip: Bounded | None = None

    @property
    def broken(self) -> bool:
        """It looked like gzip, and is broken as that."""
        return self._gzip is not None and self._gzip.broken

    @property
    def exceeded(self) -> bool:
        """See `Decoder`."""
        return self._gzip is not None and self._gzip.exceeded

    @property
    def whole(self) -> bool:
        """See `Decoder`."""
        return not self._head if self._gzip is None else self._gzip.whole

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take the next *chunk*; yield it, or what it decodes to."""
        if not self._known:
            chunk = self._head + chunk
            if chunk in (b"", GZIP_MAGIC[:1]):
                self._head = chunk  # too short to tell
                return
            self._known, self._head = True, b""
            if chunk.startswith(GZIP_MAGIC):
                self._gzip = Bounded(CODINGS["gzip"](), self._max_decoded_bytes)
        if self._gzip is None:
            yield chunk
        else:
            yield from self._gzip.feed(chunk)
