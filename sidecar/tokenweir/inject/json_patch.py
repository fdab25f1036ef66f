"""
The smallest JSON Patch (RFC 6902) from one pod to the next.

Of lists of objects with names, what is new is added where it stands: a general diff would
compare by index, and rewrite all that has moved. So others' fields are in no patch of
ours, which is what reviewers of an audit log want to see.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Operation = dict[str, Any]


def patch(before: Any, after: Any, path: str = "") -> Iterator[Operation]:
    """
    Yield what makes *after* of *before*; both are what JSON can say.

    True and 1 are the same here, as they are for Python: no pod is changed so.
    """
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_objects(before, after, path)
    elif isinstance(before, list) and isinstance(after, list) and _grown(before, after):
        yield from _of_lists(before, after, path)
    else:
        yield {"op": "replace", "path": path, "value": after}


def _of_objects(
    before: dict[str, Any], after: dict[str, Any], path: str
) -> Iterator[Operation]:
    for key in before:
        if key not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
    for key, value in after.items():
        where = f"{path}/{_escaped(key)}"
        if key in before:
            yield from patch(before[key], value, where)
        else:
            yield {"op": "add", "path": where, "value": value}


def _of_lists(before: list[Any], after: list[Any], path: str) -> Iterator[Operation]:
    """Yield what is new, from the front: each index is right when its turn has come."""
    old = {entry["name"]: entry for entry in before}
    for index, entry in enumerate(after):
        where = f"{path}/{index}"
        if entry["name"] in old:
            yield from patch(old[entry["name"]], entry, where)
        else:
            yield {"op": "add", "path": where, "value": entry}


def _grown(before: list[Any], after: list[Any]) -> bool:
    """Tell if *after* is *before* and more, all told apart by their names."""
    old, new = _names(before), _names(after)
    if old is None or new is None:
        return False
    known = set(old)
    return [name for name in new if name in known] == old


def _names(entries: list[Any]) -> list[str] | None:
    found = [entry.get("name") for entry in entries if isinstance(entry, dict)]
    unique = len({str(name) for name in found}) == len(entries)
    return [str(name) for name in found] if unique and None not in found else None


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
