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
from itertools import pairwise

_RS, _US = "\x1e", "\x1f"
# Of what is no text, each byte is a character. Those that would part records, or end
# the text for Envoy, have others.
_BYTES = {0x100: 0x00, 0x11E: 0x1E, 0x11F: 0x1F}
# Blocks that are looked for. There are less than a hundred.
_MAX_BLOCKS = 1_000

# Members by which units of one template can differ in more than text: what is reported,
# why an answer has ended, what has failed (where they are null, they say nothing), and
# what an event is, if that is a value.
_TELLING = re.compile(
    r'(?:usage\w*|eason|tokencount|_tokens)"\s*:\s*(?!null|\s)'
    r'|"\w*error"(?!\s*:\s*null)|event:\s*error|event:[^\n]*\x1f'
    r'|"(?:type|object|status|model|service_?tier)"\s*:\s*"\x1f',
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Unit:
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
                reading.take(record)
            except (ValueError, IndexError):
                reading.fault = True
    return reading.excerpt()


def _texts(fields: Mapping[str, object]) -> list[str]:
    names = [*(f"b{number}" for number in range(_MAX_BLOCKS)), "tail"]
    found = (fields.get(name) for name in names if name in fields)
    return [text for text in found if isinstance(text, str)]


@dataclass(slots=True)
class _Reading:
    """The records so far; see `Excerpt` for what is told."""

    fault: bool
    head: tuple[str, str, str] = ("", "", "")
    head_us: int = 0
    units: list[Unit] = field(default_factory=list)
    gap_at: int | None = None
    gap_bytes: int = 0
    seen: tuple[int, int] = (0, 0)
    left_out: int = 0
    whole: bool = False
    template: tuple[str, ...] = ()
    is_plain: bool = False
    elided_bytes: int = 0
    undated: int = 0  # units before this one have their time

    def take(self, record: str) -> None:
        """Take one *record*. Raises: ValueError, IndexError."""
        kind, text = record[0], record[1:]
        match kind:
            case ":":
                self._add(self._by_template(text), routine=self.is_plain)
            case "=":
                self._add(text.encode())
            case "#":
                self._add(text.translate(_BYTES).encode("latin-1"))
            case "~":
                self.template = tuple(text.split(_US))
                self.is_plain = _TELLING.search(text) is None
            case "@":
                after_us, units, seen_bytes = map(int, text.split(" "))
                self._date(after_us)
                self.seen = (units, seen_bytes)
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
                self.gap_at = len(self.units)
                self.gap_bytes = int(text.split(" ")[1])
            case ".":
                self.whole = True
            case _:
                raise ValueError(kind)

    def excerpt(self) -> Excerpt:
        """Return all of it."""
        kind, coding, length = self.head
        return Excerpt(
            content_type=kind,
            content_encoding=coding,
            content_length=length,
            head_us=self.head_us,
            units=tuple(self.units),
            gap_at=self.gap_at,
            gap_bytes=self.gap_bytes,
            seen_bytes=self.seen[1],
            seen_units=self.seen[0],
            left_out=self.left_out,
            whole=self.whole,
            fault=self.fault,
        )

    def _add(self, data: bytes, *, routine: bool = False) -> None:
        self.units.append(Unit(data, 0, routine, self.elided_bytes))
        self.elided_bytes = 0

    def _by_template(self, text: str) -> bytes:
        first, *pieces = self.template
        values = text.split(_US) if pieces else []
        joined = [first]
        for value, piece in zip(values, pieces, strict=True):
            joined += (value, piece)
        return "".join(joined).encode()

    def _date(self, after_us: int) -> None:
        at_us = self.head_us + after_us
        for place in range(self.undated, len(self.units)):
            unit = self.units[place]
            self.units[place] = Unit(unit.data, at_us, unit.routine, unit.elided_bytes)
        self.undated = len(self.units)
