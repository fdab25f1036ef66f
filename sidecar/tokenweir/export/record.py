"""
An entry of a usage stream, checked and typed.

Which fields there are is told by `tokenweir.core.record`. A field's name tells its
type: counts and whatever ends in a unit are whole numbers, the rest is text.

Records are a week in the stream, and processors are upgraded one by one. So fields
that are younger than the oldest of them may be missing, and are then 0 or empty; and
fields that this version has not heard of are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tokenweir.core.hold import Amounts, Hold, Outcome, Settlement, Subject
from tokenweir.core.record import record_of
from tokenweir.core.usage import Source, TokenUsage

Value = str | int | None

# Nothing is said without these.
REQUIRED = (
    "hold",
    "tenant",
    "key",
    "model",
    "provider",
    "requests",
    "input_tokens",
    "output_tokens",
    "source",
    "outcome",
    "cost_nanousd",
    "reserved_at_ms",
    "correction",
)
_NEVER_EMPTY = ("hold", "tenant")
# Numbers that are empty if there was nothing to measure.
OPTIONAL_NUMBERS = ("first_token_ms",)
_COUNTS = ("requests", "status")
_UNITS = ("_tokens", "_ms", "_nanousd")

# The end of the year 9999: what calendars of databases and of Python can still hold.
MAX_MOMENT_MS = 253_402_300_799_999
# 18 digits fit into 64 bits with a sign.
_MAX_DIGITS = 18
_MOST = 10**_MAX_DIGITS - 1
_ENTRY = re.compile(r"(\d{1,15})-(\d{1,18})")


class EntryId(NamedTuple):
    """Where in its stream an entry is: later ones are greater."""

    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"


class Rank(NamedTuple):
    """
    Which of two records of one hold is right: the greater one.

    What was settled is right before the reaper's estimate, whenever that was written: a
    ledger that was restored from an older snapshot has forgotten the settlement, and
    loses the hold once more. The ledger itself corrects estimates only, so whatever a
    lost record corrects is lost too.
    """

    is_settled: bool
    entry: EntryId


@dataclass(frozen=True, slots=True)
class Row:
    """
    A usage record.

    Attributes:
        tag: Whose stream it was in.
        entry: Where. Of two records of one hold see `Rank`.
        fields: The record, every field of `COLUMNS` and whatever else there was.
    """

    tag: str
    entry: EntryId
    fields: Mapping[str, Value]

    @property
    def hold(self) -> str:
        """The id that records of one exchange share."""
        return str(self.fields["hold"])

    @property
    def rank(self) -> Rank:
        """How it stands to other records of its hold."""
        return Rank(self.fields["outcome"] != Outcome.LOST, self.entry)

    @property
    def extra(self) -> dict[str, Value]:
        """The fields that this version has not heard of."""
        return {name: self.fields[name] for name in self.fields if name not in _KNOWN}

    def as_dict(self) -> dict[str, Value]:
        """Return tag, entry and fields in one."""
        return {"tag": self.tag, "entry": str(self.entry), **self.fields}


@dataclass(frozen=True, slots=True)
class BadEntry:
    """
    An entry that is no usage record.

    Attributes:
        tag: Whose stream it was in.
        entry: Its id, as the server has it.
        problem: What is wrong; quotes no content.
        fields: What there was. For the dead letters only: it may be anything.
    """

    tag: str
    entry: str
    problem: str
    fields: Mapping[str, str]

    def as_dict(self) -> dict[str, object]:
        """Return all of it."""
        return {
            "tag": self.tag,
            "entry": self.entry,
            "problem": self.problem,
            "fields": dict(self.fields),
        }


def is_number(name: str) -> bool:
    """Tell if a field is a whole number, by its name."""
    return name in _COUNTS or name.endswith(_UNITS)


def _columns() -> tuple[str, ...]:
    blank = Hold("", (), Amounts(), Subject("", "", "", "", "", ""))
    nothing = Settlement(TokenUsage(), Source.ESTIMATED, Outcome.LOST)
    return (*record_of(blank, nothing), "reserved_at_ms", "correction")


# The fields of a record, in the order in which records have them.
COLUMNS = _columns()
_KNOWN = frozenset(COLUMNS)


def row_of(tag: str, entry: str, flat: Mapping[bytes, bytes]) -> Row | BadEntry:
    """Return what the entry is that a server keeps as *entry* in the stream of *tag*."""
    texts = {_text(name): _text(value) for name, value in flat.items()}
    problem = _problem(entry, texts, flat)
    if problem:
        return BadEntry(tag, entry, problem, texts)
    ms, seq = entry.split("-")
    known = {name: _value(name, texts.get(name)) for name in COLUMNS}
    extra = {name: _value(name, texts[name]) for name in texts if name not in _KNOWN}
    return Row(tag, EntryId(int(ms), int(seq)), known | extra)


def _problem(
    entry: str, texts: Mapping[str, str], flat: Mapping[bytes, bytes]
) -> str | None:
    """Return what is wrong with an entry, or None. Quotes nothing but field names."""
    found = _ENTRY.fullmatch(entry)
    if not found or int(found[1]) > MAX_MOMENT_MS:
        return "its id is out of range"
    if not _is_utf8(flat):
        return "it is not UTF-8"
    missing = [name for name in REQUIRED if name not in texts]
    if missing:
        return f"it lacks {missing[0]}"
    wrong = [name for name in COLUMNS if not _is_sound(name, texts.get(name))]
    return f"{wrong[0]} has no such value" if wrong else None


def _is_sound(name: str, text: str | None) -> bool:
    if text is None:
        return True
    if name == "correction":
        return text in ("0", "1")
    if not is_number(name):
        return bool(text) or name not in _NEVER_EMPTY
    if not text:
        return name in OPTIONAL_NUMBERS
    most = MAX_MOMENT_MS if name == "reserved_at_ms" else _MOST
    return _is_whole(text) and int(text) <= most


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _value(name: str, text: str | None) -> Value:
    if not is_number(name):
        return text or ""
    if not text:
        return None if name in OPTIONAL_NUMBERS else 0
    # The name of a field that is not known may mislead: then it stays what it is.
    return int(text) if _is_whole(text) else text


def _is_utf8(flat: Mapping[bytes, bytes]) -> bool:
    try:
        for pair in flat.items():
            b"".join(pair).decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
