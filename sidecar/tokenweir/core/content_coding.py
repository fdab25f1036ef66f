"""
Decoding a copy of an encoded body, incrementally.

The client gets the body as the provider encoded it; only our copy is decoded,
to be read. So a body that can't be decoded costs us its figures, never a byte.

A few kilobytes of input can hold a thousand times as much output. So output is
made in pieces that the caller takes one by one, and there is a limit to all of
it. Input is taken in small pieces too: zlib copies what it leaves unread, which
would be quadratic in a chunk that holds thousands of short gzip members.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

# What is read of one body. Answers have at most some megabytes; 64 MiB is what
# 64 KB of input can hold, and about a tenth of a second of work.
MAX_DECODED_BYTES = 64 * 1024 * 1024

GZIP_MAGIC = b"\x1f\x8b"

_INPUT_BYTES = 4 * 1024
_OUTPUT_BYTES = 64 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_ZLIB_WINDOW = zlib.MAX_WBITS
_RAW_WINDOW = -zlib.MAX_WBITS


class Decoder(Protocol):
    """Turns an encoded body into the one that was meant."""

    @property
    def broken(self) -> bool:
        """Not what its coding says, or above the limit: nothing more will come."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """
        Take the next *chunk*; yield what it decodes to, in bounded pieces.

        What is yielded may be empty: there is a bounded amount of work between two.
        """


def decoder_for(
    content_encoding: str, *, max_decoded_bytes: int = MAX_DECODED_BYTES
) -> Decoder | None:
    """
    Return a decoder for the header *content_encoding*, or None if it's unknown.

    Several codings, one over the other, are unknown too: nobody sends that.
    """
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    match [coding for coding in codings if coding not in ("", "identity")]:
        case []:
            return Undeclared(max_decoded_bytes)
        case ["gzip" | "x-gzip"]:
            return Inflater(_gzip_window, max_decoded_bytes)
        case ["deflate"]:
            return Inflater(_deflate_window, max_decoded_bytes)
        case _:
            return None


class Undeclared:
    """A body without a coding; some are gzip all the same, which its magic tells."""

    def __init__(self, max_decoded_bytes: int) -> None:
        self._max_decoded_bytes = max_decoded_bytes
        self._head = b""
        self._known = False
        self._inflater: Inflater | None = None

    @property
    def broken(self) -> bool:
        """It looked like gzip, and is broken as that."""
        return self._inflater is not None and self._inflater.broken

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take the next *chunk*; yield it, or what it decodes to."""
        if not self._known:
            chunk = self._head + chunk
            if chunk in (b"", GZIP_MAGIC[:1]):
                self._head = chunk  # too short to tell
                return
            self._known = True
            if chunk.startswith(GZIP_MAGIC):
                self._inflater = Inflater(_gzip_window, self._max_decoded_bytes)
        if self._inflater is None:
            yield chunk
        else:
            yield from self._inflater.feed(chunk)


class Inflater:
    """
    Decodes gzip or deflate, one stream after the other.

    *window_of* tells zlib's window from the first bytes, or None if there are too
    few of them.
    """

    def __init__(
        self, window_of: Callable[[bytes], int | None], max_decoded_bytes: int
    ) -> None:
        self._window_of = window_of
        self._left_bytes = max_decoded_bytes
        self._head = b""
        self._stream: zlib._Decompress | None = None
        self._broken = False

    @property
    def broken(self) -> bool:
        """Not what its coding says, or above the limit."""
        return self._broken

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take the next *chunk*; yield what it decodes to, in bounded pieces."""
        for at in range(0, len(chunk), _INPUT_BYTES):
            if at:
                yield b""
            unread = chunk[at : at + _INPUT_BYTES]
            while unread and not self._broken:
                stream, unread = self._begun(unread)
                if stream is None:
                    break
                yield from self._inflated(stream, unread)
                # Behind the end of a stream there may be another one.
                unread = stream.unused_data

    def _begun(self, unread: bytes) -> tuple[zlib._Decompress | None, bytes]:
        if self._stream is None:
            unread = self._head + unread
            window = self._window_of(unread)
            if window is None:
                self._head = unread
                return None, b""
            self._head = b""
            self._stream = zlib.decompressobj(window)
        return self._stream, unread

    def _inflated(self, stream: zlib._Decompress, unread: bytes) -> Iterator[bytes]:
        filled = False
        # A full piece of output may not be all that the input holds, even if none
        # of the input is left.
        while (unread or filled) and not stream.eof:
            try:
                piece = stream.decompress(unread, _OUTPUT_BYTES)
            except zlib.error:
                self._broken = True
                return
            self._left_bytes -= len(piece)
            if self._left_bytes < 0:
                self._broken = True
                return
            if piece:
                yield piece
            filled = len(piece) == _OUTPUT_BYTES
            unread = stream.unconsumed_tail
        if stream.eof:
            self._stream = None


def _gzip_window(head: bytes) -> int | None:
    return _GZIP_WINDOW if head else None


def _deflate_window(head: bytes) -> int | None:
    """
    Tell the two things apart that are sent as "deflate".

    RFC 1950, 2.2: a zlib stream begins with the method 8, and its first two bytes
    are a multiple of 31. Without that it is the bare RFC 1951, as some send it.
    """
    if len(head) < 2:
        return None
    is_zlib = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return _ZLIB_WINDOW if is_zlib else _RAW_WINDOW
