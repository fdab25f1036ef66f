"""
pydantic's errors, as problems that say what to do.

Nothing here looks at the input that was refused, except whether there was one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tokenweir.config import scalar
from tokenweir.config.entry import Entry
from tokenweir.config.problem import NO_VALUE, Path, Problem
from tokenweir.config.schema import PolicyFile
from tokenweir.config.shape import fields_at

_TEXTS = {
    "missing": "is missing",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "string_type": "must be text: put it in quotes",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must name at least one; without this field it is for all",
    "value_error": "{error}",
}

_PATTERN_TEXTS = {
    scalar.NAME_PATTERN: "must begin with a letter or digit, and have no other "
    "characters than those and ._- (at most 63)",
    scalar.QUOTA_NAME_PATTERN: "must begin with a letter or digit, and have no other "
    "characters than those and _- (at most 63)",
    scalar.MODEL_NAME_PATTERN: "must begin with a letter or digit, and have no other "
    "characters than those and ._/:@- (at most 256)",
    scalar.MODEL_FAMILY_PATTERN: "must begin with a letter or digit, have no other "
    "characters than those and ._/:@- (at most 256), and `*` only at its end",
    scalar.SHA256_PATTERN: "must be 64 hex digits, the SHA-256 of the key and not the "
    "key itself: `tokenweir keys hash` prints it",
    scalar.ABSOLUTE_PATH_PATTERN: "must be a path that begins with /",
    scalar.HEADER_PATTERN: "must be a header's name: a letter, and then letters, digits "
    "and - (at most 64)",
    scalar.VERSION_PATH_PATTERN: "must be a path such as /v4, or empty",
}

_OTHER_WORDS = {
    "rpm": "requests_per_minute",
    "tpm": "tokens_per_minute",
    "burst": "capacity",
    "api_key": "credential",
    "key": "sha256",
    "url": "base_url",
}


def problems_of(
    error: ValidationError, root: type[Entry] = PolicyFile
) -> Iterator[Problem]:
    """
    Yield each mistake that *error* lists, without its line.

    *root* is what the whole document is.
    """
    for detail in error.errors(include_url=False, include_input=True):
        yield Problem(_path(detail), _text(detail, root))


def _path(detail: ErrorDetails) -> Path:
    # An error about a key itself, not about what it stands for.
    loc = detail["loc"]
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def _text(detail: ErrorDetails, root: type[Entry]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(detail["loc"], root)
    if kind == "missing" and detail["loc"] == ("version",):
        return "is missing: begin the file with `version: 1`"
    if detail["input"] is None:
        return NO_VALUE
    if kind == "string_pattern_mismatch":
        return _PATTERN_TEXTS[context["pattern"]]
    # A kind that is not in the table is one that no field can have today.
    return _TEXTS[kind].format(**context) if kind in _TEXTS else detail["msg"]


def _unknown(path: Path, root: type[Entry]) -> str:
    name, known = str(path[-1]), fields_at(path[:-1], root)
    close = difflib.get_close_matches(name, known, n=1)
    if _OTHER_WORDS.get(name) in known:
        close = [_OTHER_WORDS[name]]
    if close:
        return f"is unknown; did you mean `{close[0]}`?"
    return f"is unknown; known here: {', '.join(known)}"
