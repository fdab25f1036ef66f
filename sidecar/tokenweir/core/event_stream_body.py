"""
A response that is an AWS event stream, read as it comes.

A frame is an event, named by a header, or says that the stream has failed. Of a stream
that is longer than is read, or in which a length can't be believed, the rest is only
kept an eye on: its end is read, where usage stands.
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.core.dialects.base import Dialect, ResponseFacts
from tokenweir.core.dialects.facts import name_error
from tokenweir.core.event_stream import EventStreamParser, Frame, find_frame
from tokenweir.core.response_body import MAX_LINES, Tail, is_strange
from tokenweir.core.sse import ServerSentEvent

MEDIA_TYPE = "application/vnd.amazon.eventstream"
# A frame is as much work as two lines of server-sent events.
MAX_FRAMES = MAX_LINES // 2
# And so many bytes are as much work as one.
_FRAME_BYTES = 512
# Read in one step: at most 256 frames.
_STEP_BYTES = 4 * 1024
# What is kept of a rest: the last frame with usage is in it.
_LAST_FRAMES_BYTES = 16 * 1024


class EventStreamBody:
    """A `tokenweir.core.response_body.Body` of frames."""

    def __init__(
        self, dialect: Dialect, facts: ResponseFacts, *, max_frames: int = MAX_FRAMES
    ) -> None:
        self._dialect = dialect
        self._facts = facts
        self._parser = EventStreamParser()
        self._max_frames = max_frames
        self._read_bytes = 0
        self._rest = Tail(0, _LAST_FRAMES_BYTES)

    def feed(self, piece: bytes) -> Iterator[None]:
        """Read the frames that *piece* completes."""
        for at in range(0, len(piece), _STEP_BYTES):
            if at:
                yield
            if self._is_over:
                self._rest.add(piece[at:])
                return
            self._take(piece[at : at + _STEP_BYTES])

    def end(self) -> None:
        """Look at the end of what was not read; half a frame says nothing."""
        if self._rest.size_bytes:
            self._read_rest()
        self._facts.unreadable |= is_strange(self._facts)

    @property
    def _is_over(self) -> bool:
        """Whether nothing more is read."""
        work = self._parser.frames + self._read_bytes // _FRAME_BYTES
        return self._parser.lost or work > self._max_frames

    def _take(self, piece: bytes) -> None:
        for frame in self._parser.feed(piece):
            self._read(frame)
        self._read_bytes += len(piece)
        if self._parser.dropped or self._parser.lost:
            self._facts.unreadable = True
        if self._parser.unread:
            self._rest.add(self._parser.unread)

    def _read(self, frame: Frame) -> None:
        headers = frame.headers
        match headers.get(":message-type"):
            case "exception":
                name_error(self._facts, headers.get(":exception-type"))
            case "error":
                name_error(self._facts, headers.get(":error-code"))
            case _:
                name = headers.get(":event-type", "")
                event = ServerSentEvent(name, frame.payload)
                self._dialect.read_event(event, self._facts)

    def _read_rest(self) -> None:
        facts, tail = self._facts, self._rest.end()
        start = find_frame(tail)
        tail = b"" if start is None else tail[start:]
        # Nobody knows what was skipped: as much text as before.
        skipped_bytes = self._rest.size_bytes - len(tail)
        facts.text_bytes += facts.text_bytes * skipped_bytes // self._read_bytes
        facts.usage_final = facts.finished = facts.ended = False
        self._parser = EventStreamParser()
        self._take(tail)
        facts.unreadable |= not facts.usage_final
