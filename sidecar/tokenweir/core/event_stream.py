"""
An incremental parser for AWS' binary event streams (`vnd.amazon.eventstream`).

Reference: https://smithy.io/2.0/aws/amazon-eventstream.html

    total length    4 bytes  of all that is here
    headers' length 4 bytes
    CRC             4 bytes  of the eight before it
    headers
    payload
    CRC             4 bytes  of all before it

Theory of operation: a frame says how long it is, and a checksum of its own says whether
that can be believed. So what is unfinished is kept until it is long enough, and nothing
is searched. What is wrong inside of a frame (its checksum, its headers) costs that frame
only: the next one is where it has to be. If a length can't be believed, nobody knows
where anything begins, and the rest is not read: an SDK ends there, too.

Nothing here raises: the bytes go on to the client whatever we make of the copy.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Mapping
from dataclasses import dataclass

# The longest frame that is kept. AWS allows 24 MB, and sends a few hundred bytes.
MAX_FRAME_BYTES = 1024 * 1024
# "The maximum size of the headers of a message is 128 KB."
MAX_HEADERS_BYTES = 128 * 1024
PRELUDE_BYTES = 12
_CRC_BYTES = 4
_LEAST_BYTES = PRELUDE_BYTES + _CRC_BYTES
_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
# Types of headers' values: how long they are, but for byte arrays and strings, which
# have their length before them.
_TRUE, _FALSE, _BYTES, _STRING = 0, 1, 6, 7
_SIZES = {_TRUE: 0, _FALSE: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


@dataclass(frozen=True, slots=True)
class Frame:
    """
    One message.

    Attributes:
        headers: Those that are strings, such as ``":event-type"``.
        payload: Its content.
    """

    headers: Mapping[str, str]
    payload: bytes


class EventStreamParser:
    """
    Turns chunks of a body into frames.

    Attributes:
        frames: That were looked at: what the work goes by.
        dropped: Frames that were too long, or not what their checksum or form says.
        lost: A length could not be believed: nothing is read from there on.
        unread: Of the chunk in which that was: what came behind it.
    """

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.frames = 0
        self.dropped = 0
        self.lost = False
        self.unread = b""
        self._max_frame_bytes = max_frame_bytes
        self._kept = bytearray()  # of one frame
        self._wanted = PRELUDE_BYTES  # bytes of it until there is something to do
        self._skip = 0  # bytes that are left of one that is not kept

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take the next *chunk* and return the frames that it completes."""
        found: list[Frame] = []
        at = 0
        while at < len(chunk):
            if self.lost:
                self.unread = chunk[at:]
                break
            if self._skip:
                step = min(self._skip, len(chunk) - at)
                self._skip -= step
            else:
                step = min(self._wanted - len(self._kept), len(chunk) - at)
                self._kept += chunk[at : at + step]
                if len(self._kept) == self._wanted:
                    self._advance(found)
            at += step
        return found

    def _advance(self, found: list[Frame]) -> None:
        """Look at a prelude, or at a frame, that is whole."""
        if self._wanted == PRELUDE_BYTES:
            self._begin()
            return
        frame = _frame(self._kept)
        if frame is None:
            self.dropped += 1
        else:
            found.append(frame)
        self._start_over()

    def _begin(self) -> None:
        size = length_of(self._kept)
        if size is None:
            self.lost = True
            self._kept.clear()
            return
        self.frames += 1
        self._wanted = size
        if size > self._max_frame_bytes:
            self.dropped += 1
            self._skip = size - PRELUDE_BYTES
            self._start_over()

    def _start_over(self) -> None:
        self._kept, self._wanted = bytearray(), PRELUDE_BYTES


def length_of(start: bytes | bytearray) -> int | None:
    """
    Return how many bytes the frame has that begins with *start*, its prelude.

    None: it is none, or its lengths contradict each other.
    """
    if len(start) < PRELUDE_BYTES:
        return None
    size, headers_size, crc = _PRELUDE.unpack_from(start)
    if binascii.crc32(start[:8]) != crc:
        return None
    if headers_size > MAX_HEADERS_BYTES or headers_size > size - _LEAST_BYTES:
        return None
    return int(size)


def find_frame(data: bytes) -> int | None:
    """Return where in *data* a frame begins, as far as a prelude tells; else None."""
    for at in range(len(data) - PRELUDE_BYTES + 1):
        # Frames of 16 MB do not exist, and most bytes are not 0.
        if data[at] == 0 and length_of(data[at : at + PRELUDE_BYTES]) is not None:
            return at
    return None


def _frame(data: bytearray) -> Frame | None:
    """Return the frame that *data* is, None if it contradicts itself."""
    body, end = memoryview(data), len(data) - _CRC_BYTES
    if binascii.crc32(body[:end]) != _CRC.unpack_from(data, end)[0]:
        return None
    _, headers_size, _ = _PRELUDE.unpack_from(data)
    payload_at = PRELUDE_BYTES + headers_size
    headers = _headers(bytes(body[PRELUDE_BYTES:payload_at]))
    if headers is None:
        return None
    return Frame(headers, bytes(body[payload_at:end]))


def _headers(data: bytes) -> dict[str, str] | None:
    """Return the strings among the headers, None if these are none."""
    found: dict[str, str] = {}
    names: set[str] = set()
    at = 0
    try:
        while at < len(data):
            name, at = _text(data, at + 1, data[at])
            kind = data[at]
            at += 1
            if kind in (_BYTES, _STRING):
                size = int.from_bytes(data[at : at + 2])
                at += 2
                value, end = _text(data, at, size)
                if kind == _STRING:
                    found[name] = value
            else:
                end = at + _SIZES[kind]
            if name in names or end > len(data):
                return None
            names.add(name)
            at = end
    except (IndexError, KeyError):
        return None
    return found


def _text(data: bytes, at: int, size: int) -> tuple[str, int]:
    """Return *size* bytes at *at* as text, and where they end. Raises: IndexError."""
    if at + size > len(data):
        raise IndexError
    return data[at : at + size].decode("utf-8", "replace"), at + size
