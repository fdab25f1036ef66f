"""The dearest part comes first, and what to do about it is told."""

from __future__ import annotations

import pytest

from tokenweir.cli.audit_figures import Hint, Ranking, Row, ranking
from tokenweir.core.prompt_part import Kind, PromptCost
from tokenweir.ledger.prompts import OTHER, PromptKey


def key(digest: str = "d") -> PromptKey:
    """Return whose part it is."""
    return PromptKey("acme", "gpt-4o", Kind.SYSTEM, digest)


def cost(
    nanousd: int, tokens: int = 100, calls: int = 1, cached: int = 0
) -> PromptCost:
    """Return what calls came to, all of them reported."""
    return PromptCost(calls, tokens, tokens, cached, 2 * tokens, nanousd)


def test_the_dearest_comes_first() -> None:
    """Then the one of most tokens; others are summed, and all are the total."""
    sums = {
        key("free"): cost(0, 5),
        key("long"): cost(10, 500),
        key("dear"): cost(90),
        key("b"): cost(10, 7),
        key("a"): cost(10, 7),
    }
    found = ranking(sums, 3)

    assert [row.key.digest for row in found.rows] == ["dear", "long", "a"]
    assert found.others == cost(10, 7) + cost(0, 5)
    assert found.other_parts == 2
    assert found.total == sum(sums.values(), PromptCost())


@pytest.mark.parametrize("top", [1, 9])
def test_without_others(top: int) -> None:
    """There are none, and nothing stands for them."""
    found = ranking({key(): cost(1)}, top)

    assert (found.others, found.other_parts) == (None, 0)
    assert ranking({}, top) == Ranking([], None, 0, PromptCost())


@pytest.mark.parametrize(
    ("digest", "figures", "hint"),
    [
        ("d", cost(1, 1_023), Hint.SHORTEN),
        ("d", cost(1, 1_024), Hint.CACHEABLE),
        ("d", cost(1, 2_046, calls=2), Hint.SHORTEN),
        ("d", cost(1, 5_000, cached=2_500), Hint.CACHEABLE),
        ("d", cost(1, 5_000, cached=2_501), Hint.CACHED),
        ("d", PromptCost(1, 9_000, 0, 0, 9_000, 1), Hint.CACHEABLE),
        (OTHER, cost(1, 5_000, cached=5_000), Hint.DIFFERS),
    ],
)
def test_hints(digest: str, figures: PromptCost, hint: Hint) -> None:
    """By how long it is in a call, and by what of it came from a cache."""
    assert Row(key(digest), figures).hint is hint


def test_tokens_each() -> None:
    """The average of its calls, rounded down; nothing of no call."""
    assert Row(key(), cost(1, 11, calls=2)).tokens_each == 5
    assert Row(key(), PromptCost()).tokens_each == 0
