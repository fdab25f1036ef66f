"""The kinds of response bodies: what is kept of each, and when it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from tokenweir.core.dialects.base import Dialect, ResponseFacts
from tokenweir.core.json_text import read_value
from tokenweir.core.sse import MAX_EVENT_BYTES, SSEParser

# The largest JSON reply that is read as a whole. It is there several times then, as
# bytes and as text; larger ones hold media, or probabilities, that nobody reads here.
MAX_JSON_BYTES = 2 * MAX_EVENT_BYTES

# How much of a stream is read, in lines, or in times so many bytes: twice the lines
# that an answer of 128,000 tokens has if each is an event of its own, or 128 MB. It
# takes two seconds, or five if made to.
MAX_LINES = 500_000
_LINE_BYTES = 256

# A step of events ends after so many lines, or bytes with any line in them: after a
# few milliseconds.
_STEP_LINES = 128
_STEP_BYTES = 16 * 1024
_SLICE_BYTES = 1024

# The end of a larger one, in which usage is looked for: it stands last, or before
# a few short members. With events it is in one of the last of them.
TAIL_BYTES = 64 * 1024
_LAST_EVENTS_BYTES = 16 * 1024

# Objects of that name that are tried, from the end. More of them are no reply.
_MAX_CANDIDATES = 16

_EMPTY_LINE = re.compile(rb"\n\n|\r\r|\r\n\r\n")

# The quote must not be escaped: it would belong to a longer name.
_USAGE = re.compile(rb'(?<!\\)"usage"[ \t\n\r]*+:[ \t\n\r]*+\{')


class Body(Protocol):
    """A kind of body, decoded. Neither method raises."""

    def feed(self, piece: bytes) -> Iterator[None]:
        """Take the next *piece*, in steps of a bounded amount of work."""

    def end(self) -> None:
        """Read what was kept: no more will come."""


class EventBody:
    """
    Server-sent events, read as they come.

    Of one that is longer than *max_lines*, the rest is only kept an eye on: its end is
    read, where usage stands, and in between there was as much text as before.
    """

    def __init__(
        self, dialect: Dialect, facts: ResponseFacts, *, max_lines: int = MAX_LINES
    ) -> None:
        self._dialect = dialect
        self._facts = facts
        self._parser = SSEParser()
        self._max_lines = max_lines
        self._read_bytes = 0
        self._rest = Tail(0, _LAST_EVENTS_BYTES)

    def feed(self, piece: bytes) -> Iterator[None]:
        """Read the events that *piece* completes."""
        if len(piece) > _SLICE_BYTES or self._is_too_long():
            return self._in_steps(piece)
        self._take(piece)  # as most pieces are
        return iter(())

    def _in_steps(self, piece: bytes) -> Iterator[None]:
        begun, lines = 0, self._parser.lines
        for at in range(0, len(piece), _SLICE_BYTES):
            if self._is_too_long():
                self._rest.add(piece[at:])
                return
            read = self._parser.lines - lines
            if read >= _STEP_LINES or (read and at - begun >= _STEP_BYTES):
                yield
                begun, lines = at, self._parser.lines
            self._take(piece[at : at + _SLICE_BYTES])

    def end(self) -> None:
        """Read an event without an empty line; half an event says nothing."""
        if self._rest.size_bytes:
            self._read_rest()
        unreadable = self._facts.unreadable
        for event in self._parser.flush():
            self._dialect.read_event(event, self._facts)
        # What says nothing that is read of answers was none, however many events it had.
        self._facts.unreadable = unreadable or is_strange(self._facts)

    def _is_too_long(self) -> bool:
        work = self._parser.lines + self._read_bytes // _LINE_BYTES
        return bool(self._rest.size_bytes) or work > self._max_lines

    def _take(self, piece: bytes) -> None:
        for event in self._parser.feed(piece):
            self._dialect.read_event(event, self._facts)
        self._read_bytes += len(piece)
        if self._parser.dropped:
            self._facts.unreadable = True

    def _read_rest(self) -> None:
        facts, tail = self._facts, self._rest.end()
        skipped_bytes = self._rest.size_bytes - len(tail)
        if skipped_bytes:
            # What follows stands anywhere within an event.
            found = _EMPTY_LINE.search(tail)
            tail = tail[found.end() :] if found else b""
            self._parser = SSEParser()
            facts.text_bytes += facts.text_bytes * skipped_bytes // self._read_bytes
            facts.usage_final = facts.finished = facts.ended = False
        self._take(tail)
        facts.unreadable |= bool(skipped_bytes) and not facts.usage_final


class Tail:
    """
    Keeps bytes: *max_bytes* of them, and of more the last *tail_bytes* or some more.

    Attributes:
        size_bytes: Of all that was added.
    """

    def __init__(self, max_bytes: int, tail_bytes: int = TAIL_BYTES) -> None:
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._tail_bytes = tail_bytes
        self._kept = bytearray()

    def add(self, piece: bytes) -> None:
        """Take the next *piece*."""
        self._kept += piece
        self.size_bytes += len(piece)
        # Not at every piece: that would move all of the tail for each of them.
        is_long = len(self._kept) > 2 * self._tail_bytes
        if self.size_bytes > self._max_bytes and is_long:
            del self._kept[: -self._tail_bytes]

    def end(self) -> bytes:
        """Return what was kept, and keep it no longer."""
        text = bytes(self._kept)
        self._kept = bytearray()
        return text


class JsonBody:
    """
    One JSON value, read when it is over.

    Of one that is too large, or too deep, only the end is looked at, where usage
    stands.
    """

    def __init__(self, dialect: Dialect, facts: ResponseFacts) -> None:
        self._dialect = dialect
        self._facts = facts
        self._kept = Tail(MAX_JSON_BYTES)

    def feed(self, piece: bytes) -> Iterator[None]:
        """Keep *piece*."""
        self._kept.add(piece)
        return iter(())

    def end(self) -> None:
        """Read the value; if that can't be done, the usage at its end."""
        text = self._kept.end()
        before = self._facts.unreadable
        self._facts.unreadable = self._kept.size_bytes > MAX_JSON_BYTES
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

    def feed(self, _: bytes) -> Iterator[None]:
        """Note that there is something that can't be read."""
        self._facts.unreadable = True
        return iter(())

    def end(self) -> None:
        """Nothing was kept."""


def is_strange(facts: ResponseFacts) -> bool:
    """
    Tell if events were not understood, and none of them told what was generated.

    That the answer is over tells nothing of the kind.
    """
    known = facts.usage is not None or facts.error is not None
    return facts.strange and not (known or facts.hidden or facts.text_bytes)


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
