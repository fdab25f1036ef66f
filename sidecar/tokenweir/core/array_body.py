"""
A stream that is one JSON array, whose elements come one after the other.

Gemini streams so unless it is asked for events. Each element is read once it is whole,
so that of a stream that breaks off, what passed is known; half an element says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tokenweir.core.dialects.base import Dialect, ResponseFacts
from tokenweir.core.sse import MAX_EVENT_BYTES

# Elements that are read: twice the tokens that a long answer has. What comes then is
# taken to be as much text for its size as what came before.
MAX_ELEMENTS = 250_000
# A step: of nothing but brackets it takes a few milliseconds.
_STEP_BYTES = 8 * 1024
_OUTSIDE = re.compile(rb'["\[\]{}]')
_INSIDE = re.compile(rb'["\\]')


class ArrayBody:
    """
    Reads one; a `tokenweir.core.response_body.Body`.

    *max_elements* are read of it, and *max_bytes* are kept of each.
    """

    def __init__(
        self,
        dialect: Dialect,
        facts: ResponseFacts,
        *,
        max_elements: int = MAX_ELEMENTS,
        max_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        self._dialect = dialect
        self._facts = facts
        self._max_elements = max_elements
        self._max_bytes = max_bytes
        self._elements = 0
        self._element = bytearray()
        self._is_too_long = False
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._read_bytes = 0
        self._skipped_bytes = 0

    def feed(self, piece: bytes) -> Iterator[None]:
        """Read the elements that *piece* completes."""
        for at in range(0, len(piece), _STEP_BYTES):
            if at:
                yield
            self._take(piece[at : at + _STEP_BYTES])

    def end(self) -> None:
        """Judge what came: what says nothing was no answer."""
        facts = self._facts
        if self._skipped_bytes:
            more = facts.text_bytes * self._skipped_bytes // self._read_bytes
            facts.text_bytes += more
            facts.usage_final = facts.finished = False
            facts.unreadable = True
        known = facts.usage is not None or facts.error is not None
        if not (known or facts.finished or facts.text_bytes):
            facts.unreadable = True

    def _take(self, data: bytes) -> None:
        if self._elements >= self._max_elements:
            self._skipped_bytes += len(data)
            return
        self._read_bytes += len(data)
        begun = 0
        for at in self._marks(data):
            mark = data[at]
            if mark in b"[{":
                self._depth += 1
                if self._depth == 2:
                    begun = at
            else:
                if self._depth == 2:
                    self._keep(data[begun : at + 1])
                    self._read_element()
                self._depth -= 1
        if self._depth > 1:
            self._keep(data[begun:])

    def _marks(self, data: bytes) -> Iterator[int]:
        """Yield where brackets and braces are that stand outside of strings."""
        at = 0
        if self._escaped:
            at, self._escaped = 1, False
        while True:
            found = (_INSIDE if self._in_string else _OUTSIDE).search(data, at)
            if found is None:
                return
            at = found.end()
            if found[0] == b'"':
                self._in_string = not self._in_string
            elif found[0] == b"\\":
                self._escaped = at == len(data)
                at += 1
            else:
                yield found.start()

    def _keep(self, data: bytes) -> None:
        if len(self._element) + len(data) > self._max_bytes:
            self._is_too_long = True
            self._element.clear()
        if not self._is_too_long:
            self._element += data

    def _read_element(self) -> None:
        self._elements += 1
        if self._is_too_long:
            self._facts.unreadable = True
        else:
            self._dialect.read_body(bytes(self._element), self._facts)
        self._element.clear()
        self._is_too_long = False
