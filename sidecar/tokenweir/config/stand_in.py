"""
What else is wrong in an entry that has a wrong field.

`salvage` leaves such an entry out, so that nothing else is judged by it. Then nobody
looks at its other fields: that they refer to nothing, or to a variable that is not
set, would only be told once the first mistake is gone. So they are looked at here, in
a copy of the file where something right stands in for each wrong field.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenweir.config.budget_entry import BudgetFields
from tokenweir.config.problem import Path, Problem
from tokenweir.config.salvage import entry_around
from tokenweir.config.schema import AXIS_FIELDS

# A field that is not here is optional: without it nothing is wrong.
_STAND_INS: Mapping[str, Mapping[str, object]] = {
    "providers": {
        "base_url": "https://localhost",
        "dialect": "openai",
        "allow_plaintext": True,
    },
    "models": {"provider": "stand-in", "max_output_tokens": 10_000_000},
    "tokenize": {"url": "https://localhost/tokenize"},
    "keys": {"id": "stand-in", "sha256": "0" * 64},
    # The least: whatever has to be above a budget is.
    "quotas": {
        **dict.fromkeys(AXIS_FIELDS, 1),
        "budget_usd": "0.000000001",
        "per": "day",
    },
}
# Goes with every other field of a quota but those that only budgets have.
_ANY_AXIS = {"tokens_per_minute": 1}
_ANY_BUDGET = {"budget_tokens": 1}
_OF_A_BUDGET = BudgetFields.model_fields.keys() - set(AXIS_FIELDS)
_OF_AN_AXIS = (*AXIS_FIELDS, "counts", "capacity", *BudgetFields.model_fields)
_TOKENIZE, _SIZES = "tokenize", ("min_bytes", "max_bytes")
_INSIDE = len(("models", "name", "tokenize"))
_ENTRIES_WITH_NAMES = ("providers", "models", "tenants", "timeouts")


@dataclass(frozen=True, slots=True)
class StandIn:
    """
    A file without the mistakes of single fields.

    Attributes:
        content: The copy.
        entries: Paths of the entries that had a mistake.
        fields: Paths of what was wrong: what is said about it is said of a stand-in.
        renamed: Paths in the copy of entries that had a wrong name, with theirs.
    """

    content: dict[str, Any]
    entries: set[Path] = field(default_factory=set)
    fields: set[Path] = field(default_factory=set)
    renamed: dict[Path, Path] = field(default_factory=dict)

    def told(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Yield those of *problems*, of the copy, that the file has too."""
        for problem in problems:
            path = self._original(problem.path)
            inside = _any_around(self.entries, path)
            # That two quotas are alike depends on fields that may be stand-ins.
            if inside and path[-1] != "name" and not _any_around(self.fields, path):
                yield Problem(path, problem.text)

    def _original(self, path: Path) -> Path:
        name = path[:2]
        return (*self.renamed.get(name, name), *path[2:])


def stand_in(content: Mapping[str, object], wrong: Iterable[Path]) -> StandIn:
    """Return a copy of *content* with something right at each of the *wrong* paths."""
    made = StandIn(copy.deepcopy(dict(content)))
    # What is inside first: a renamed entry is not found by its name any more.
    for path in sorted(wrong, key=len, reverse=True):
        entry = entry_around(path)
        made.entries.add(entry)
        if len(path) > len(entry):
            _mend_field(made, _place(made.content, path, entry))
        else:
            _mend_entry(made, entry)
    return made


def _place(content: object, path: Path, entry: Path) -> Path:
    """Return the field that *path* leads to; in a mapping of an *entry* that is its."""
    end = len(entry) + 1
    inside = len(path) > end and _kind(path[:end]) == _TOKENIZE
    is_mapping = isinstance(_at(content, path[:end]), dict)
    return path[: end + 1] if inside and is_mapping else path[:end]


def _mend_field(made: StandIn, place: Path) -> None:
    fields, kind, name = _at(made.content, place[:-1]), _kind(place[:-1]), place[-1]
    if _kind(place) == _TOKENIZE and isinstance(_at(made.content, place), dict):
        # Its fields are right, and do not go together.
        for size in _SIZES:
            _mend_field(made, (*place, size))
        return
    made.fields.add(place)
    if not isinstance(fields, dict):
        return
    fields.pop(name, None)
    known = _STAND_INS.get(kind, {})
    if name in known:
        fields[name] = known[str(name)]
    elif kind == "quotas" and not set(AXIS_FIELDS) & set(fields):
        fields.update(_ANY_BUDGET if _OF_A_BUDGET & set(fields) else _ANY_AXIS)
    if place[-1] == "per":
        # What it goes with is not known.
        fields.pop("anchor", None)


def _mend_entry(made: StandIn, entry: Path) -> None:
    around, fields = _at(made.content, entry[:-1]), _at(made.content, entry)
    if _kind(entry) == "quotas" and isinstance(fields, dict):
        for name in _OF_AN_AXIS:
            fields.pop(name, None)
            made.fields.add((*entry, name))
        fields.update(_ANY_AXIS)
    elif isinstance(around, dict) and entry[-1] in around:
        value = around.pop(entry[-1])
        if isinstance(value, dict) and _has_name(entry):
            name = f"stand-in-{len(made.renamed)}"
            around[name] = value
            made.renamed[(*entry[:-1], name)] = entry


def _has_name(entry: Path) -> bool:
    return len(entry) == 2 and entry[0] in _ENTRIES_WITH_NAMES


def _kind(entry: Path) -> str:
    """Return the section or list that the *entry* is in; a mapping in one is its own."""
    if len(entry) == _INSIDE and (entry[0], entry[2]) == ("models", _TOKENIZE):
        return _TOKENIZE
    return str(entry[-2]) if len(entry) > 1 else ""


def _at(content: object, path: Path) -> object:
    """Return what is at *path*; None if nothing is."""
    for part in path:
        if isinstance(content, dict):
            content = content.get(part)
        elif isinstance(content, list) and isinstance(part, int):
            content = content[part] if part < len(content) else None
        else:
            return None
    return content


def _any_around(places: set[Path], path: Path) -> bool:
    return any(path[:length] in places for length in range(1, len(path) + 1))
