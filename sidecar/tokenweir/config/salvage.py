"""
What can still be checked if some entries are wrong.

A policy with a mistake in one entry is refused, but its other entries are checked
all the same, so that all problems are told at once. What is wrong is left out as
narrowly as the schema allows, and the names that went with it are remembered: a
reference to them is not wrong as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenweir.config.problem import Path

VERSION = 1
REQUIRED_SECTIONS = ("providers", "models", "tenants")

# Mappings from names to entries, so each of their values can be left out.
_NAMED = frozenset(
    {
        "providers",
        "models",
        "tenants",
        "timeouts",
        "route_timeouts",
        "default_providers",
    }
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """
    What was left out of a file.

    Attributes:
        paths: Of the values that are gone, as in the file.
        indexes: For each list that lost items, where the others stood.
    """

    paths: frozenset[Path] = frozenset()
    indexes: Mapping[Path, tuple[int, ...]] = field(default_factory=dict)

    def section(self, name: str) -> bool:
        """Tell if the whole section *name* is gone: its names are not known."""
        return (name,) in self.paths

    def names(self, section: str) -> set[str]:
        """Return the names of the entries of *section* that are gone."""
        return {
            str(path[1]) for path in self.paths if len(path) == 2 and path[0] == section
        }

    def inside(self, path: Path) -> bool:
        """Tell if something is gone that was at or inside of *path*."""
        return any(gone[: len(path)] == path for gone in self.paths)

    def original(self, path: Path) -> Path:
        """Return the place in the file of what is at *path* in the rest."""
        place: Path = ()
        for part in path:
            indexes = self.indexes.get(place, ())
            moved = isinstance(part, int) and bool(indexes)
            place = (*place, indexes[int(part)] if moved else part)
        return place


def salvage(
    content: Mapping[str, object], wrong: Iterable[Path]
) -> tuple[dict[str, Any], LeftOut]:
    """
    Return *content* without what is at or around the *wrong* paths.

    What a file must have is there, if it is gone: sections are empty.
    """
    absent = {(name,) for name in REQUIRED_SECTIONS if name not in content}
    gone = frozenset({entry_around(path) for path in wrong} | absent)
    indexes: dict[Path, tuple[int, ...]] = {}
    rest = _without(content, (), gone, indexes)
    must: dict[str, object] = {name: {} for name in REQUIRED_SECTIONS}
    return must | {"version": VERSION} | rest, LeftOut(gone, indexes)


def entry_around(path: Path) -> Path:
    """Return the part of *path* that can go without making the rest wrong."""
    match path:
        case ("tenants", _, "keys", int(), "quotas", int(), *_):
            return path[:6]
        case ("tenants", _, "keys" | "quotas", int(), *_):
            return path[:4]
        case ("tenants", _, _, *_):
            return path[:3]
        case ("quotas" | "caps", int(), *_):
            return path[:2]
        case (str() as section, _, *_) if section in _NAMED:
            return path[:2]
    return path[:1]


def _without(
    value: object,
    path: Path,
    gone: frozenset[Path],
    indexes: dict[Path, tuple[int, ...]],
) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _without(entry, (*path, name), gone, indexes)
            for name, entry in value.items()
            if (*path, name) not in gone
        }
    if not isinstance(value, list):
        return value
    kept = [index for index in range(len(value)) if (*path, index) not in gone]
    if len(kept) < len(value):
        indexes[path] = tuple(kept)
    return [_without(value[index], (*path, index), gone, indexes) for index in kept]
