"""Names of models, exact or ending in `*`, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterable


def overlap(one: str, other: str) -> bool:
    """Tell if some name is meant by both *one* and *other*."""
    if one.endswith("*") and other.endswith("*"):
        return one.startswith(other[:-1]) or other.startswith(one[:-1])
    if one.endswith("*"):
        return other.startswith(one[:-1])
    if other.endswith("*"):
        return one.startswith(other[:-1])
    return one == other


def any_overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    """Tell if some name is meant by one of *some* and by one of *others*."""
    others = tuple(others)
    return any(overlap(one, other) for one in some for other in others)
