"""Names of models as policies have them: whole ones, or beginnings."""

from __future__ import annotations


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Tell if *name* is one of *patterns* (exact, or ending in ``*``)."""
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )
