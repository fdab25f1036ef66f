"""
YAML text to plain values that know their lines.

Theory of operation
-------------------
PyYAML's own constructor keeps the last of two equal keys without a word, reads
`no` as false and `0600` as 384, and expands aliases as far as memory goes. So
only its parser is used; values are built here from its events, by the rules of
YAML 1.2's core schema:

- a scalar without quotes is null, a truth value, a decimal number, or text;
- a key is always text, whatever it looks like;
- a key that stands twice in one mapping is a problem, and so is an empty value;
- `<<` merges mappings, and an alias repeats a value: both count with their full
  size against `MAX_NODES`.

Syntax errors end the reading at once, with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from tokenweir.config.problem import NO_VALUE, Path, Problem

# Four times what a policy for ten thousand tenants takes; an etcd object, so a
# ConfigMap, can't exceed 1.5 MiB.
MAX_SOURCE_BYTES = 4 * 1024 * 1024

# Ten thousand tenants with two quotas each are 110,000 values in 2 MB of text.
MAX_NODES = 300_000

# The schema is seven levels deep.
MAX_DEPTH = 32

# libyaml's parser is ten times as fast; both give the same events.
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {"true": True, "True": True, "false": False, "False": False}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,30}(_[0-9]{3}){0,10})")
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})?\.[0-9]{1,30}([eE][-+]?[0-9]{1,3})?")
_TEXT_TAGS = frozenset({None, "!", "tag:yaml.org,2002:str"})
_PLAIN_TAGS = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})

# Only PyYAML's slow parser quotes words of the text. One could be a secret.
_QUOTED = re.compile(r" '[^']{2,}'")


class Section(dict[str, object]):
    """A mapping; *lines* has each key's line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}

    def entry(self, part: str | int) -> tuple[object, int] | None:
        """Return the value and the line of the key *part*, if it is there."""
        if isinstance(part, str) and part in self:
            return self[part], self.lines[part]
        return None


class Items(list[object]):
    """A list; *lines* has each item's line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []

    def entry(self, part: str | int) -> tuple[object, int] | None:
        """Return the value and the line of the item *part*, if it is there."""
        if isinstance(part, int) and part < len(self):
            return self[part], self.lines[part]
        return None


@dataclass(frozen=True, slots=True)
class Document:
    """
    What the text says.

    Attributes:
        value: Made of Section, Items, str, int, float, bool and None.
        problems: Those that did not keep the rest from being read.
    """

    value: object
    problems: tuple[Problem, ...] = ()

    def line(self, path: Path) -> int:
        """Return the line of what is at *path*, or of what is nearest around it."""
        value, line = self.value, 0
        for part in path:
            if not isinstance(value, Section | Items):
                break
            entry = value.entry(part)
            if entry is None:
                break
            value, line = entry
        return line


class UnreadableDocumentError(Exception):
    """The text is no YAML that a policy may use. *problem* says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def read_document(source: bytes) -> Document:
    """
    Read the one document in *source*.

    Raises:
        UnreadableDocumentError: Its text begins with line and column if known.
    """
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise UnreadableDocumentError(f"line {line}: not UTF-8 text") from None
    try:
        return _Builder(yaml.parse(text, Loader=_PARSER)).document()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"line {line}: has a character that YAML does not allow"
        raise UnreadableDocumentError(message) from None
    except yaml.MarkedYAMLError as error:
        raise UnreadableDocumentError(_syntax_problem(error)) from None


def _syntax_problem(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return where + _QUOTED.sub("", error.problem or "is not YAML")


@dataclass(slots=True)
class _Anchored:
    """A value that has a name; *nodes* is its size with all aliases expanded."""

    value: object
    nodes: int


@dataclass(slots=True)
class _Builder:
    events: Iterator[yaml.Event]
    problems: list[Problem] = field(default_factory=list)
    anchors: dict[str, _Anchored | None] = field(default_factory=dict)
    nodes: int = 0

    def document(self) -> Document:
        """Build the first document, and make sure that it is the only one."""
        next(self.events)  # the stream's start
        start = next(self.events)
        if isinstance(start, yaml.StreamEndEvent):
            return Document(None)
        value = self._value(next(self.events), ())
        next(self.events)  # the document's end
        after = next(self.events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise _unreadable(after, "begins a second document; a policy is one")
        return Document(value, tuple(self.problems))

    def _value(self, event: yaml.Event, path: Path) -> object:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self.nodes
        self._count(event, 1)
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self.anchors[anchor] = None  # not complete: can't be repeated yet
        value = self._node(event, path)
        if anchor is not None:
            self.anchors[anchor] = _Anchored(value, self.nodes - before)
        return value

    def _node(self, event: yaml.Event, path: Path) -> object:
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if len(path) >= MAX_DEPTH:
            raise _unreadable(event, f"nested deeper than {MAX_DEPTH} levels")
        if getattr(event, "tag", None) not in _PLAIN_TAGS:
            raise _unreadable(event, "has a tag that a policy may not use")
        if isinstance(event, yaml.MappingStartEvent):
            return self._section(path)
        return self._items(path)

    def _alias(self, event: yaml.AliasEvent) -> object:
        if event.anchor not in self.anchors:
            raise _unreadable(event, "an alias without an anchor before it")
        anchored = self.anchors[event.anchor]
        if anchored is None:
            raise _unreadable(event, "an alias inside of what it repeats")
        self._count(event, anchored.nodes)
        return anchored.value

    def _count(self, event: yaml.Event, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise _unreadable(event, f"more than {MAX_NODES} values, aliases expanded")

    def _items(self, path: Path) -> Items:
        items = Items()
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.lines.append(_line(event))
            items.append(self._value(event, (*path, len(items))))
        return items

    def _section(self, path: Path) -> Section:
        section, merged = Section(), Section()
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _unreadable(event, "a key must be text")
            place = (*path, event.value)
            value = self._value(next(self.events), place)
            if event.value == "<<" and event.implicit[0]:
                self._merge(value, merged, event)
            else:
                self._put(section, place, value, _line(event))
        _fill(section, merged)
        return section

    def _put(self, section: Section, path: Path, value: object, line: int) -> None:
        key = str(path[-1])
        if key in section.lines:
            text = f"stands twice, first in line {section.lines[key]}: remove one"
            self.problems.append(Problem(path, text, line))
            return
        section.lines[key] = line
        if value is None:
            text = NO_VALUE
            self.problems.append(Problem(path, text, line))
            return
        section[key] = value

    def _merge(self, value: object, merged: Section, event: yaml.Event) -> None:
        # "Keys in mapping nodes earlier in the sequence override keys specified
        # in later mapping nodes" (yaml.org/type/merge.html).
        for part in value if isinstance(value, Items) else [value]:
            if not isinstance(part, Section):
                raise _unreadable(event, "`<<` takes a mapping, or a list of them")
            _fill(merged, part)


def _fill(section: Section, other: Section) -> None:
    for key, value in other.items():
        if key not in section.lines:
            section[key], section.lines[key] = value, other.lines[key]


def _scalar(event: yaml.ScalarEvent) -> object:
    if event.tag not in _TEXT_TAGS:
        raise _unreadable(event, "has a tag that a policy may not use")
    text: str = event.value
    if event.tag is not None or not event.implicit[0]:
        return text
    if text in _NULL:
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _line(event: yaml.Event) -> int:
    return _position(event)[0]


def _position(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


def _unreadable(event: yaml.Event, text: str) -> UnreadableDocumentError:
    line, column = _position(event)
    return UnreadableDocumentError(f"line {line}, column {column}: {text}")
