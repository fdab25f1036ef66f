"""
What Envoy keeps of a response body that no processor reads.

Its filter (`envoyconf/lua/watch.lua`) cuts the body into units: an event with the empty
line behind it, a frame, an element of an array, or all of what is none of these. It
writes them down as records, each ended by RS, in dynamic metadata: text, with short
names. The events of a stream look alike, so one that does not differ from another but in
a text or a number is written as these values, by a template.

    ?  head: type, coding, length, and the wall clock in microseconds, parted by US
    =  a unit;  #  one that is no UTF-8, see `_BYTES`
    ~  a template: what units have in common, parted by US
    :  a unit by the template: the values, parted by US
    -  so many bytes of long strings are left out of the next unit
    !  a unit of so many bytes is left out
    @  written so many microseconds after the head: so many units and bytes had passed
    +  so many units and bytes are missing here
    .  the body has ended

All of a body is there up to some size: its beginning then, and its end.

WARNING: `envoyconf/lua/excerpt.lua` writes what is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import NamedTuple

_RS, _US = "\x1e", "\x1f"
# Of what is no text, each byte is a character. Those that would part records, or end
# the text for Envoy, have others.
_BYTES = {0x100: 0x00, 0x11E: 0x1E, 0x11F: 0x1F}
# There are less than a hundred.
_BLOCKS = [f"b{number}" for number in range(1_000)]

# Members by which units of one template can differ in more than text: what is reported,
# why an answer has ended, what has failed (where they are null, they say nothing), and
# what an event is, if that is a value.
_TELLING = re.compile(
    r'(?:usage\w*|eason|tokencount|_tokens)"\s*:\s*(?!null|\s)'
    r'|"\w*error"(?!\s*:\s*null)|event:\s*error|event:[^\n]*\x1f'
    r'|"(?:type|object|status|model|service_?tier)"\s*:\s*"\x1f',
    re.IGNORECASE,
)


class Unit(NamedTuple):
    """
    A part of a body that is read as a whole.

    Attributes:
        data: Its bytes.
        at_us: When it had passed, in microseconds since 1970: of the first units of a
            stream the moment, of later ones some moment soon after it.
        routine: It differs from another unit, which is there, in texts and numbers only,
            and neither has members that tell what is reported or why something ended.
        elided_bytes: That were left out of its long strings.
    """

    data: bytes
    at_us: int = 0
    routine: bool = False
    elided_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Excerpt:
    """
    What was kept of one body.

    Attributes:
        content_type: Of the response's head, as the provider sent it.
        content_encoding: Ditto.
        content_length: Ditto; nobody has checked it.
        head_us: When the head passed, in microseconds since 1970; 0: not known.
        units: In the order in which they passed.
        gap_at: How many of *units* stand before what is missing; None: nothing is.
        gap_bytes: That are missing there.
        seen_bytes: Of the body, that had passed when this was written.
        seen_units: Ditto.
        left_out: Units that are not there, and were too long to be read.
        whole: The body had come to its end.
        fault: Not all of it was kept, since something broke.
    """

    content_type: str = ""
    content_encoding: str = ""
    content_length: str = ""
    head_us: int = 0
    units: tuple[Unit, ...] = ()
    gap_at: int | None = None
    gap_bytes: int = 0
    seen_bytes: int = 0
    seen_units: int = 0
    left_out: int = 0
    whole: bool = False
    fault: bool = False

    def decisive(self) -> list[Unit]:
        """
        Return those units that tell what all of them tell, but for the text.

        Whatever is reported, how it ended, and what came last is told by them: of units
        of one template in a row, the last stands for all.
        """
        return [
            unit
            for unit, after in pairwise((*self.units, Unit(b"")))
            if not (unit.routine and after.routine)
        ]


def read_excerpt(fields: Mapping[str, object]) -> Excerpt:
    """Return what *fields*, the metadata by its names, say. What is broken is a fault."""
    reading = _Reading(fault="fault" in fields)
    for text in _texts(fields):
        for record in text.split(_RS)[:-1]:
            try:
                if record[0] == ":":
                    reading.take_values(record[1:])
                else:
                    reading.take(record[0], record[1:])
            except (ValueError, IndexError):
                reading.fault = True
    return reading.excerpt()


def _texts(fields: Mapping[str, object]) -> list[str]:
    names = [*takewhile(fields.__contains__, _BLOCKS), "tail"]
    found = (fields.get(name) for name in names)
    return [text for text in found if isinstance(text, str)]


@dataclass(slots=True)
class _Reading:
    """
    The records so far; see `Excerpt` for what is told.

    Units are in lists beside each other: there may be thousands of them.
    """

    fault: bool
    head: tuple[str, str, str] = ("", "", "")
    head_us: int = 0
    data: list[bytes] = field(default_factory=list)
    at_us: list[int] = field(default_factory=list)
    routine: list[bool] = field(default_factory=list)
    elided: list[int] = field(default_factory=list)
    gap_at: int | None = None
    gap_bytes: int = 0
    seen: tuple[int, int] = (0, 0)
    left_out: int = 0
    whole: bool = False
    first: str | None = None  # piece of the template
    rest: list[str] = field(default_factory=list)
    is_plain: bool = False
    elided_bytes: int = 0

    def take_values(self, text: str) -> None:
        """Take a unit by the template. Raises: ValueError."""
        joined = self.first
        if joined is None:
            raise ValueError(text)
        values = text.split(_US) if self.rest else ()
        for value, piece in zip(values, self.rest, strict=True):
            joined += value + piece
        self._add(joined.encode(), routine=self.is_plain)

    def take(self, kind: str, text: str) -> None:
        """Take any other record. Raises: ValueError, IndexError."""
        match kind:
            case "=":
                self._add(text.encode())
            case "#":
                self._add(text.translate(_BYTES).encode("latin-1"))
            case "~":
                self.first, *self.rest = text.split(_US)
                self.is_plain = _TELLING.search(text) is None
            case "@":
                after_us, units, seen_bytes = map(int, text.split(" "))
                self.seen = (units, seen_bytes)
                undated = len(self.data) - len(self.at_us)
                self.at_us += [self.head_us + after_us] * undated
            case _:
                self._take_other(kind, text)

    def _take_other(self, kind: str, text: str) -> None:
        match kind:
            case "?":
                *head, head_us = text.split(_US)
                self.head = (head[0], head[1], head[2])
                self.head_us = int(head_us)
            case "-":
                self.elided_bytes = int(text)
            case "!":
                self.left_out += 1
            case "+":
                self.gap_at = len(self.data)
                self.gap_bytes = int(text.split(" ")[1])
            case ".":
                self.whole = True
            case _:
                raise ValueError(kind)

    def excerpt(self) -> Excerpt:
        """Return all of it."""
        kind, coding, length = self.head
        # The last ones have no time if something broke.
        at_us = self.at_us + [0] * (len(self.data) - len(self.at_us))
        return Excerpt(
            content_type=kind,
            content_encoding=coding,
            content_length=length,
            head_us=self.head_us,
            units=tuple(map(Unit, self.data, at_us, self.routine, self.elided)),
            gap_at=self.gap_at,
            gap_bytes=self.gap_bytes,
            seen_bytes=self.seen[1],
            seen_units=self.seen[0],
            left_out=self.left_out,
            whole=self.whole,
            fault=self.fault,
        )

    def _add(self, data: bytes, *, routine: bool = False) -> None:
        self.data.append(data)
        self.routine.append(routine)
        self.elided.append(self.elided_bytes)
        self.elided_bytes = 0
