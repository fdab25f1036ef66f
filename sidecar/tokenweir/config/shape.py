"""
The schema's fields by their place in the file.

A place is a path in which `*` stands for any name and any list index: the fields
of a quota are at ``("tenants", "*", "quotas", "*")``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from tokenweir.config.entry import Entry
from tokenweir.config.problem import Path
from tokenweir.config.schema import PolicyFile

Place = tuple[str, ...]
ANY = "*"


def fields_at(path: Path, root: type[Entry] = PolicyFile) -> Mapping[str, FieldInfo]:
    """
    Return the fields that the entry at *path* may have; none if it is no entry.

    *root* is what the whole document is.
    """
    for place, entry in _entries(root).items():
        if len(place) == len(path) and all(
            part in (ANY, name) for part, name in zip(place, path, strict=True)
        ):
            return entry.model_fields
    return {}


def all_fields() -> Iterator[tuple[Place, FieldInfo]]:
    """Yield the place of every field, and the field, in the schema's order."""
    for place, entry in _entries(PolicyFile).items():
        for name, info in entry.model_fields.items():
            yield (*place, name), info


@functools.cache
def _entries(root: type[Entry]) -> Mapping[Place, type[Entry]]:
    return dict(_walk((), root))


def _walk(place: Place, annotation: Any) -> Iterator[tuple[Place, type[Entry]]]:
    if isinstance(annotation, type) and issubclass(annotation, Entry):
        yield place, annotation
        for name, info in annotation.model_fields.items():
            yield from _walk((*place, name), info.annotation)
    elif get_origin(annotation) in (dict, list):
        yield from _walk((*place, ANY), get_args(annotation)[-1])
    elif get_origin(annotation) is Annotated:
        yield from _walk(place, get_args(annotation)[0])
    elif get_origin(annotation) in (UnionType, Union):
        for choice in get_args(annotation):
            yield from _walk(place, choice)
