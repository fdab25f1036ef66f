"""Paths that name a model: how they are written, and what stands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

# Where the model is in a form.
MODEL = "{model}"
# What servers agree on how to read; no part of it has a meaning of its own.
_NAME = "([A-Za-z0-9][A-Za-z0-9._-]*)"
# Names with other characters come percent-encoded; what is behind a code must be a name.
_CODED_NAME = "((?:[A-Za-z0-9._:@-]|%[0-9A-Fa-f]{2})+)"
_LONG_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._:/@-]*")


@dataclass(frozen=True, slots=True)
class PathForm:
    """
    Attributes:
        text: The path (no query), with `MODEL` once.
        coded: The model may be percent-encoded: an ARN has colons and slashes.
    """

    text: str
    coded: bool = False

    def model_in(self, path: str) -> str | None:
        """Return the model that *path* (no query) names, or None: it is another form."""
        before, _, after = self.text.partition(MODEL)
        name = _CODED_NAME if self.coded else _NAME
        match = re.fullmatch(re.escape(before) + name + re.escape(after), path)
        if match is None:
            return None
        return _decoded(match[1]) if self.coded else match[1]

    def is_like(self, plain: str) -> bool:
        """Tell if servers may take for this form what `forgiven` made of a path."""
        before, _, after = self.text.partition(MODEL)
        return plain.startswith(before.lower()) and plain.endswith(after.lower())

    def with_model(self, path: str, model: str) -> str:
        """Return *path*, which is of this form, for *model*; its query stays."""
        _, mark, query = path.partition("?")
        return self.text.replace(MODEL, quote(model, safe="")) + mark + query


def forgiven(path: str) -> str:
    """Return *path* as servers read it that forgive case and codes."""
    return unquote(path).rstrip("/.\\").lower()


@dataclass(frozen=True, slots=True)
class Called:
    """
    What a path calls.

    Attributes:
        form: Of the path.
        model: That it names.
        streams: Whether a stream is asked for.
    """

    form: PathForm
    model: str
    streams: bool = False


def _decoded(text: str) -> str | None:
    """Return the name that *text* is, None if it is none whatever reads it."""
    name = unquote(text)
    if not _LONG_NAME.fullmatch(name):
        return None
    # No server may take a part of it for a folder.
    parts = name.split("/")
    return None if any(part in ("", ".", "..") for part in parts) else name
