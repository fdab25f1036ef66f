"""
Where an error happened, without what it said.

The text of an exception may hold whatever the code had in hand: a key, a URL
with a password, a prompt. Its type, and the lines of code that it passed, tell
a developer nearly as much.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import PurePath

MAX_FRAMES = 12
MAX_CAUSES = 5


def error_facts(error: BaseException) -> Mapping[str, object]:
    """Return type, place (innermost first) and causes of *error*, for a log line."""
    facts: dict[str, object] = {"error": type_name(error), "place": places(error)}
    causes = _causes(error)
    if causes:
        facts["causes"] = [type_name(cause) for cause in causes]
    return facts


def type_name(error: BaseException) -> str:
    """Return the name of *error*'s class, with its module unless it is built in."""
    cls = type(error)
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def places(error: BaseException) -> list[str]:
    """Return ``file:line function`` of each frame, the innermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [
        f"{short_path(frame.filename)}:{frame.lineno} {frame.name}"
        for frame in list(reversed(frames))[:MAX_FRAMES]
    ]


def short_path(path: str) -> str:
    """Return *path* from its package on: where things are installed is no news."""
    parts = PurePath(path).parts
    for anchor in ("site-packages", "sidecar"):
        if anchor in parts:
            return "/".join(parts[parts.index(anchor) + 1 :])
    return "/".join(parts[-2:])


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    if isinstance(error, BaseExceptionGroup):
        causes = list(error.exceptions[:MAX_CAUSES])
    current = error
    while len(causes) < MAX_CAUSES:
        cause = current.__cause__ or current.__context__
        if cause is None:
            break
        causes.append(cause)
        current = cause
    return causes
