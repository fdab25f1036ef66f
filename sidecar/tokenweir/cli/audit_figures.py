"""What an audit of prompts tells: the dearest parts first, and what to do about each."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenweir.core.prompt_part import PromptCost
from tokenweir.ledger.prompts import OTHER, PromptKey

# From so many tokens on, providers cache the beginning of a prompt.
CACHEABLE_TOKENS = 1_024


class Hint(enum.StrEnum):
    """What to do about a part."""

    DIFFERS = "differs each time"
    CACHED = "is cached"
    CACHEABLE = "could be cached"
    SHORTEN = "shorten"


@dataclass(frozen=True, slots=True)
class Row:
    """A part, with what all its calls came to."""

    key: PromptKey
    cost: PromptCost

    @property
    def tokens_each(self) -> int:
        """Tokens of the part in a call, on average."""
        return self.cost.tokens // self.cost.calls if self.cost.calls else 0

    @property
    def hint(self) -> Hint:
        """What to do about it."""
        if self.key.digest == OTHER:
            return Hint.DIFFERS
        if 2 * self.cost.cached_tokens > self.cost.reported_tokens:
            return Hint.CACHED
        is_long = self.tokens_each >= CACHEABLE_TOKENS
        return Hint.CACHEABLE if is_long else Hint.SHORTEN


@dataclass(frozen=True, slots=True)
class Ranking:
    """
    Attributes:
        rows: The dearest first.
        others: What the other parts came to, together; None: there are none.
        other_parts: How many those are.
        total: All parts. Its calls are parts of calls, since a call can have several.
    """

    rows: Sequence[Row]
    others: PromptCost | None
    other_parts: int
    total: PromptCost


def ranking(sums: Mapping[PromptKey, PromptCost], top: int) -> Ranking:
    """Return the *top* parts by cost, then by tokens, and what all others came to."""
    rows = sorted((Row(*each) for each in sums.items()), key=_rank)
    others = [row.cost for row in rows[top:]]
    return Ranking(
        rows[:top],
        sum(others, PromptCost()) if others else None,
        len(others),
        sum(sums.values(), PromptCost()),
    )


def _rank(row: Row) -> tuple[int, int, str]:
    return -row.cost.cost_nanousd, -row.cost.tokens, row.key.member
