"""Paths that name a model: how they are written, and what stands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

# Where the model is in a form.
MODEL = "{model}"
# What servers agree on how to read; no part of it has a meaning of its own.
_NAME = "([A-Za-z0-9][A-Za-z0-9._-]*)"


@dataclass(frozen=True, slots=True)
class PathForm:
    """
    Attributes:
        text: The path (no query), with `MODEL` once.
    """

    text: str

    def model_in(self, path: str) -> str | None:
        """Return the model that *path* (no query) names, or None: it is another form."""
        before, _, after = self.text.partition(MODEL)
        match = re.fullmatch(re.escape(before) + _NAME + re.escape(after), path)
        return match[1] if match else None

    def is_like(self, path: str) -> bool:
        """Tell if servers that forgive case and codes may take *path* for this form."""
        before, _, after = self.text.partition(MODEL)
        plain = unquote(path).rstrip("/.\\").lower()
        return plain.startswith(before.lower()) and plain.endswith(after.lower())

    def with_model(self, path: str, model: str) -> str:
        """Return *path*, which is of this form, for *model*; its query stays."""
        _, mark, query = path.partition("?")
        return self.text.replace(MODEL, quote(model, safe="")) + mark + query
