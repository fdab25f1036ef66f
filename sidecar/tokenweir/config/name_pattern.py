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


def covers(one: str, other: str) -> bool:
    """Tell if every name that *other* means is meant by *one*."""
    if one.endswith("*"):
        return other.startswith(one[:-1])
    return one == other


def all_covered(some: Iterable[str], by: Iterable[str]) -> bool:
    """Tell if each of *some* is covered by one of *by*."""
    by = tuple(by)
    return all(any(covers(one, other) for one in by) for other in some)


def common(some: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return what is meant by one of *some* and by one of *others*, as names."""
    others = tuple(others)
    return [
        other if covers(one, other) else one
        for one in some
        for other in others
        if overlap(one, other)
    ]
