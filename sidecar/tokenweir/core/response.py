"""
Reading a response body as it passes.

    bytes ─▶ content coding ─▶ what is it? ─▶ events ─▶ dialect ─▶ facts
                                         ├──▶ frames with events ─▶ dialect ─▶ facts
                                         └──▶ JSON, collected ─▶ dialect ─▶ facts

This is a copy: whatever is wrong with it, the client gets what the provider
sent. So nothing here raises, every buffer has a cap, and what can't be read is
said to be unreadable instead of being taken for an answer without tokens.

A few bytes can hold much work: thousands of tiny events, or a thousand times as much
once they are decoded. So a chunk is read in steps of a few milliseconds, and whoever
feeds a reader sees to others between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tokenweir.core.array_body import ArrayBody
from tokenweir.core.content_coding import decoder_for
from tokenweir.core.dialects.base import Dialect, ResponseFacts
from tokenweir.core.event_stream import PRELUDE_BYTES, length_of
from tokenweir.core.event_stream_body import MEDIA_TYPE, EventStreamBody
from tokenweir.core.response_body import Body, EventBody, JsonBody, UnknownBody

# How a body begins tells what it is. Shorter beginnings wait for more; but a
# byte-order mark with blanks behind it does not wait for ever.
_START_BYTES = 8
_MAX_HEAD_BYTES = 64

_BOM = b"\xef\xbb\xbf"
_EVENT_FIELD = re.compile(rb"(?:data|event|id|retry)?:")
_JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json|text/json")

# What `next` says of steps that are over.
_OVER = object()


class ResponseReader:
    """
    Reads one response body.

    *dialect* understands it; the other arguments are from the response's head, and
    a header that is absent is ``""``.

    Attributes:
        facts: What is known so far.
    """

    def __init__(
        self, dialect: Dialect, *, status: int, content_type: str, content_encoding: str
    ) -> None:
        # An error status is an error whatever the body says.
        self.facts = ResponseFacts(error="error" if status >= 400 else None)
        self._dialect = dialect
        self._media_type = content_type.partition(";")[0].strip().lower()
        self._decoder = decoder_for(content_encoding)
        self._head = b""
        self._body: Body | None = None
        self._steps: Iterator[None] = iter(())
        self._behind = False
        self._ended = False
        self._fed_bytes = 0

    @property
    def exceeded(self) -> bool:
        """Whether it decodes to more than is read of a body."""
        return self._decoder is not None and self._decoder.exceeded

    @property
    def behind(self) -> bool:
        """Whether some of what was fed has yet to be read."""
        return self._behind

    def feed(self, chunk: bytes) -> None:
        """
        Take the next *chunk* of the body, as it was sent, and read a first step of it.

        An empty one is the next step of what was fed before. Who does not ask for it
        has it all read with the next chunk, or at the end.
        """
        if chunk:
            self._fed_bytes += len(chunk)
            self._catch_up()
            self._steps, self._behind = self._read(chunk), True
        self._behind = next(self._steps, _OVER) is not _OVER

    def skip(self, size_bytes: int) -> None:
        """
        Reckon with *size_bytes* of the body that can't be fed, at the end of a unit.

        There was as much text in them as before; and if nothing was before, nothing of
        it can be read.
        """
        self._catch_up()
        facts = self.facts
        if self._fed_bytes:
            facts.text_bytes += facts.text_bytes * size_bytes // self._fed_bytes
        else:
            facts.unreadable = True
        facts.usage_final = facts.finished = facts.ended = False

    def end(self) -> None:
        """
        Read what was kept: no more will come. Once; again does nothing.

        Safe for a stream that was cut, too: half an event says nothing.
        """
        if self._ended:
            return
        self._ended = True
        self._catch_up()
        if self._body is None and self._head:
            self._steps = self._begin()
            self._catch_up()
        if self._body is not None:
            self._body.end()
        elif self._decoder is not None and not self._decoder.whole:
            # Something came, but not enough of it to be decoded.
            self.facts.unreadable |= bool(self._fed_bytes)

    def _catch_up(self) -> None:
        for _ in self._steps:
            pass
        self._behind = False

    def _read(self, chunk: bytes) -> Iterator[None]:
        if self._decoder is None:
            self.facts.unreadable = True
            return
        for number, piece in enumerate(self._decoder.feed(chunk)):
            if number:
                yield
            yield from self._take(piece)
        if self._decoder.broken:
            self.facts.unreadable = True

    def _take(self, piece: bytes) -> Iterator[None]:
        if self._body is not None:
            return self._body.feed(piece)
        self._head = (self._head + piece).lstrip()
        # A frame begins with its length: no text begins with a NUL.
        is_frame = self._head.startswith(b"\0")
        enough = PRELUDE_BYTES if is_frame else _START_BYTES
        if len(self._start) >= enough or len(self._head) > _MAX_HEAD_BYTES:
            return self._begin()
        return iter(())

    @property
    def _start(self) -> bytes:
        return self._head.removeprefix(_BOM).lstrip()

    def _begin(self) -> Iterator[None]:
        start = self._start
        self._head = b""
        self._body = self._kind_of(start)
        return self._body.feed(start)

    def _kind_of(self, start: bytes) -> Body:
        """Tell what the body is: by how it begins, since labels lie, else by label."""
        if start.startswith(b"[") and self._dialect.name == "gemini":
            return ArrayBody(self._dialect, self.facts)
        if start.startswith((b"{", b"[")):
            return JsonBody(self._dialect, self.facts)
        if length_of(start) is not None or self._media_type == MEDIA_TYPE:
            return EventStreamBody(self._dialect, self.facts)
        if _EVENT_FIELD.match(start) or self._media_type == "text/event-stream":
            return EventBody(self._dialect, self.facts)
        if _JSON_TYPE.fullmatch(self._media_type):
            return JsonBody(self._dialect, self.facts)
        return UnknownBody(self.facts)
