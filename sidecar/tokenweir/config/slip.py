"""
Names of models in a quota that are probably misspelt.

A name that no entry of `models` stands for is refused when a policy is loaded. But a
family (`gpt-*`) stands for whatever begins so, slips included: a limit on `gpt-4o-mni`
is for a name that nobody calls. It is taken for a slip if no price list knows it, and
it is one letter away from what an entry or a price list does know. Digits make another
model of a name, so they are never taken for slips; nor are families of names.
"""

from __future__ import annotations

import string
from collections.abc import Iterator

from tokenweir.core.policy import Policy

# What names are written with, besides digits.
_LETTERS = f"{string.ascii_lowercase}-."
# Shorter ones are like too many others.
_SHORTEST = 4
# Each takes some tenths of a second. Who has more names that no price list knows runs
# models of their own.
MAX_TRIED = 20


class Slips:
    """Looks at names in one *policy*, and in the price lists that it goes by."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._prices = policy.pricing.prices
        self._found: dict[str, str | None] = {}

    def meant(self, name: str) -> str | None:
        """Return what *name* was probably meant to be; None: it may be right."""
        family = self._policy.model(name)
        if (
            name.endswith("*")
            or len(name) < _SHORTEST
            or name in self._policy.models
            or family is None
            # One that is renamed is one model, whatever apps call it.
            or family.upstream_model is not None
        ):
            return None
        if name not in self._found:
            self._found[name] = self._meant(name, family.provider)
        return self._found[name]

    def _meant(self, name: str, provider: str) -> str | None:
        if self._prices.find(provider, name) is not None:
            return None
        near = tuple(_near(name))
        entry = next((each for each in near if each in self._policy.models), None)
        if entry is not None or len(self._found) >= MAX_TRIED:
            return entry
        known = (each for each in near if self._prices.find(provider, each) is not None)
        return next(known, None)


def _near(name: str) -> Iterator[str]:
    """Yield what *name* is one slip away from: a letter too many, too few, another."""
    for at in range(len(name) + 1):
        head, tail = name[:at], name[at:]
        yield from (f"{head}{letter}{tail}" for letter in _LETTERS)
        if not tail or tail[0].isdigit():
            continue
        yield f"{head}{tail[1:]}"
        yield from (f"{head}{letter}{tail[1:]}" for letter in _LETTERS)
        if len(tail) > 1 and not tail[1].isdigit():
            yield f"{head}{tail[1]}{tail[0]}{tail[2:]}"
