"""
An incremental parser for server-sent events.

Reference: https://html.spec.whatwg.org/multipage/server-sent-events.html

Theory of operation: a response body is cut wherever buffers end, so a chunk may
stop inside a line, a UTF-8 sequence or a CRLF. The parser therefore works on
bytes and never decodes a part of an event: only CR and LF are looked for, which
no multi-byte character contains. What is unfinished is kept; each byte of a
chunk is searched once, so the cost is linear however small the chunks are.

A CR ends its line at once. If the next byte is an LF, in whatever chunk, it
belongs to that CR and is skipped: so CRLF never counts as two line ends.

Nothing here raises. What is no event (comments, unknown fields) changes nothing,
and an event above the cap is dropped and counted, because the bytes go on to
the client whatever we make of the copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# The longest event that is kept. Real ones hold a few hundred bytes. Some carry a
# picture or a sound in base64, which nobody here reads; what such a call has used is
# reported in an event of its own. One of this size is there as a line, as data, and
# as text of up to four bytes a character.
MAX_EVENT_BYTES = 1024 * 1024

_BOM = b"\xef\xbb\xbf"

_LINE_FEEDS = re.compile(rb"\n+")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """
    One dispatched event.

    Attributes:
        event: ``"message"`` unless the stream named it.
        data: The data lines, joined by LF; bytes, since they may be invalid UTF-8.
    """

    event: str
    data: bytes


class SSEParser:
    """
    Turns chunks of a body into events.

    Attributes:
        dropped: Events that were longer than the cap.
        lines: That were looked at: what the work goes by. Empty ones in a row are one.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.dropped = 0
        self.lines = 0
        self._max_event_bytes = max_event_bytes
        self._line = bytearray()  # unfinished; at most the cap and one chunk
        self._data = bytearray()
        self._has_data = False
        self._name = b""
        self._after_cr = False
        self._at_start = True
        self._dropping = False

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next *chunk* and return the events that it completes."""
        events: list[ServerSentEvent] = []
        if not chunk:
            return events
        chunk = self._with_line_feeds(chunk)
        at = 0
        while (end := chunk.find(b"\n", at)) >= 0:
            self.lines += 1
            if end == at and not self._line:
                self._take_empty_line(events)
                # One empty line does what a run of them does.
                run = _LINE_FEEDS.match(chunk, at)
                assert run is not None
                at = run.end()
            else:
                self._take_line(self._whole_line(chunk[at:end]))
                at = end + 1
        if at < len(chunk):
            self._keep(chunk[at:])
        return events

    def flush(self) -> list[ServerSentEvent]:
        """
        End the stream and return its last event, if that had no empty line.

        The standard discards such an event; providers do end streams that way,
        and its usage counts.
        """
        events: list[ServerSentEvent] = []
        if self._line:
            self._take_line(self._whole_line(b""))
        self._take_empty_line(events)
        return events

    def _with_line_feeds(self, chunk: bytes) -> bytes:
        start = 1 if self._after_cr and chunk.startswith(b"\n") else 0
        self._after_cr = chunk.endswith(b"\r")
        return chunk[start:].replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, piece: bytes) -> None:
        self._line += piece
        if self._dropping or len(self._line) > self._max_event_bytes:
            self._drop()
            # Not empty, so that its end is no empty line; a comment, to be ignored.
            self._line[:] = b":"

    def _whole_line(self, rest: bytes) -> bytes | bytearray:
        if not self._line:
            return rest
        line, self._line = self._line, bytearray()
        line += rest
        return line

    def _take_line(self, line: bytes | bytearray) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if len(line) > self._max_event_bytes:
            self._drop()
            return
        field, value = _parts_of(line)
        if field == b"data":
            self._take_data(value)
        elif field == b"event":
            self._name = bytes(value)

    def _take_data(self, value: bytes | bytearray) -> None:
        if self._dropping or len(self._data) + len(value) > self._max_event_bytes:
            self._drop()
            return
        if self._has_data:
            self._data += b"\n"
        if self._data or isinstance(value, bytes):
            self._data += value
        else:
            self._data = value  # it may have megabytes: one copy less
        self._has_data = True

    def _drop(self) -> None:
        if not self._dropping:
            self.dropped += 1
        self._dropping = True
        self._data = bytearray()

    def _take_empty_line(self, events: list[ServerSentEvent]) -> None:
        self._at_start = False
        if self._has_data and not self._dropping:
            name = self._name.decode("utf-8", "replace") or "message"
            events.append(ServerSentEvent(name, bytes(self._data)))
        if self._has_data or self._dropping:
            self._data = bytearray()
        self._has_data = False
        self._dropping = False
        self._name = b""


def _parts_of(line: bytes | bytearray) -> tuple[bytes, bytes | bytearray]:
    """Return field and value of *line*; a bytearray, which can be long, is used up."""
    if isinstance(line, bytes):
        field, _, value = line.partition(b":")
        return field, value.removeprefix(b" ")
    colon = line.find(b":")
    if colon < 0:
        return bytes(line), b""
    field = bytes(line[:colon])
    start = colon + 1
    start += line[start : start + 1] == b" "
    del line[:start]  # moves nothing
    return field, line
