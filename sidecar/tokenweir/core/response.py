"""
Reading a response body as it passes.

    bytes ─▶ content coding ─▶ what is it? ─▶ events ─▶ dialect ─▶ facts
                                         └──▶ JSON, collected ─▶ dialect ─▶ facts

This is a copy: whatever is wrong with it, the client gets what the provider
sent. So nothing here raises, every buffer has a cap, and what can't be read is
said to be unreadable instead of being taken for an answer without tokens.
"""

from __future__ import annotations

import re

from tokenweir.core.content_coding import decoder_for
from tokenweir.core.dialects.base import Dialect, ResponseFacts
from tokenweir.core.response_body import Body, EventBody, JsonBody, UnknownBody

# How a body begins tells what it is. Shorter beginnings wait for more; but a
# byte-order mark with blanks behind it does not wait for ever.
_START_BYTES = 8
_MAX_HEAD_BYTES = 64

_BOM = b"\xef\xbb\xbf"
_EVENT_FIELD = re.compile(rb"(?:data|event|id|retry)?:")
_JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json|text/json")


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
        self._ended = False

    def feed(self, chunk: bytes) -> None:
        """Take the next *chunk* of the body, as it was sent."""
        if self._decoder is None:
            self.facts.unreadable = True
            return
        for piece in self._decoder.feed(chunk):
            self._take(piece)
        if self._decoder.broken:
            self.facts.unreadable = True

    def end(self) -> None:
        """
        Read what was kept: no more will come. Once; again does nothing.

        Safe for a stream that was cut, too: half an event says nothing.
        """
        if self._ended:
            return
        self._ended = True
        if self._body is None and self._head:
            self._begin()
        if self._body is not None:
            self._body.end()

    def _take(self, piece: bytes) -> None:
        if self._body is not None:
            self._body.feed(piece)
            return
        self._head = (self._head + piece).lstrip()
        if len(self._start) >= _START_BYTES or len(self._head) > _MAX_HEAD_BYTES:
            self._begin()

    @property
    def _start(self) -> bytes:
        return self._head.removeprefix(_BOM).lstrip()

    def _begin(self) -> None:
        start = self._start
        self._head = b""
        self._body = self._kind_of(start)
        self._body.feed(start)

    def _kind_of(self, start: bytes) -> Body:
        """Tell what the body is: by how it begins, since labels lie, else by label."""
        if start.startswith((b"{", b"[")):
            return JsonBody(self._dialect, self.facts)
        if _EVENT_FIELD.match(start) or self._media_type == "text/event-stream":
            return EventBody(self._dialect, self.facts)
        if _JSON_TYPE.fullmatch(self._media_type):
            return JsonBody(self._dialect, self.facts)
        return UnknownBody(self.facts)
