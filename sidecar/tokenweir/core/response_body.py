"""The kinds of response bodies: what is kept of each, and when it is read."""

from __future__ import annotations

import re
from typing import Protocol

from tokenweir.core.dialects.base import Dialect, ResponseFacts
from tokenweir.core.json_text import read_value
from tokenweir.core.sse import MAX_EVENT_BYTES, SSEParser

# The largest JSON reply that is read as a whole: media in base64, as in an event.
MAX_JSON_BYTES = MAX_EVENT_BYTES

# The end of a larger one, in which usage is looked for: it stands last, or before
# a few short members.
TAIL_BYTES = 64 * 1024

# Objects of that name that are tried, from the end. More of them are no reply.
_MAX_CANDIDATES = 16

# The quote must not be escaped: it would belong to a longer name.
_USAGE = re.compile(rb'(?<!\\)"usage"[ \t\n\r]*+:[ \t\n\r]*+\{')


class Body(Protocol):
    """A kind of body, decoded. Neither method raises."""

    def feed(self, piece: bytes) -> None:
        """Take the next *piece*."""

    def end(self) -> None:
        """Read what was kept: no more will come."""


class EventBody:
    """Server-sent events, read as they come."""

    def __init__(self, dialect: Dialect, facts: ResponseFacts) -> None:
        self._dialect = dialect
        self._facts = facts
        self._parser = SSEParser()

    def feed(self, piece: bytes) -> None:
        """Read the events that *piece* completes."""
        for event in self._parser.feed(piece):
            self._dialect.read_event(event, self._facts)
        if self._parser.dropped:
            self._facts.unreadable = True

    def end(self) -> None:
        """Read an event without an empty line; half an event says nothing."""
        unreadable = self._facts.unreadable
        for event in self._parser.flush():
            self._dialect.read_event(event, self._facts)
        self._facts.unreadable = unreadable


class JsonBody:
    """
    One JSON value, read when it is over.

    Of one that is too large, or too deep, only the end is looked at, where usage
    stands.
    """

    def __init__(self, dialect: Dialect, facts: ResponseFacts) -> None:
        self._dialect = dialect
        self._facts = facts
        self._kept = bytearray()
        self._size_bytes = 0

    def feed(self, piece: bytes) -> None:
        """Keep *piece*."""
        self._kept += piece
        self._size_bytes += len(piece)
        # Not at every piece: that would move 64 KiB for each of them.
        if self._size_bytes > MAX_JSON_BYTES and len(self._kept) > 2 * TAIL_BYTES:
            del self._kept[:-TAIL_BYTES]

    def end(self) -> None:
        """Read the value; if that can't be done, the usage at its end."""
        text = bytes(self._kept)
        self._kept.clear()
        before = self._facts.unreadable
        self._facts.unreadable = self._size_bytes > MAX_JSON_BYTES
        if not self._facts.unreadable:
            self._dialect.read_body(text, self._facts)
            # What says nothing that a reply says is none, however valid its JSON.
            self._facts.unreadable |= _says_nothing(self._facts)
        if self._facts.unreadable:
            self._read_usage(text[-TAIL_BYTES:])
        self._facts.unreadable |= before

    def _read_usage(self, tail: bytes) -> None:
        members = _from_usage_on(tail)
        if members is not None:
            self._dialect.read_body(members, self._facts)
            self._facts.unreadable = not self._facts.usage_final


class UnknownBody:
    """Neither events nor JSON, such as some proxy's page."""

    def __init__(self, facts: ResponseFacts) -> None:
        self._facts = facts

    def feed(self, _: bytes) -> None:
        """Note that there is something that can't be read."""
        self._facts.unreadable = True

    def end(self) -> None:
        """Nothing was kept."""


def _says_nothing(facts: ResponseFacts) -> bool:
    """Tell if nothing in the body was usage, text, an error, or an end."""
    known = facts.usage is not None or facts.error is not None
    return not (known or facts.finished or facts.text_bytes)


def _from_usage_on(tail: bytes) -> bytes | None:
    """
    Return the outermost object's members from its usage on, as an object.

    *tail* is where a JSON object ends. If what stands from `"usage"` to the end is
    the rest of an object, and no more than that, it's the outermost one.
    """
    found = [match.start() for match in _USAGE.finditer(tail)]
    for start in reversed(found[-_MAX_CANDIDATES:]):
        members = b"{" + tail[start:]
        if isinstance(read_value(members), dict):
            return members
    return None
