"""Two patterns overlap exactly if some name is meant by both; one may cover another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tokenweir.config.name_pattern import (
    all_covered,
    any_overlap,
    common,
    covers,
    overlap,
)
from tokenweir.core.name_pattern import matches

NAMES = st.text("ab", max_size=3)
PATTERNS = st.builds(lambda name, star: name + star, NAMES, st.sampled_from(["", "*"]))


@given(PATTERNS, PATTERNS)
def test_overlap_is_what_some_name_proves(one: str, other: str) -> None:
    """It agrees with matching every name that could make a difference."""
    # Of two patterns that overlap, the longer one's text is meant by both.
    names = [one.removesuffix("*"), other.removesuffix("*")]
    proven = any(matches(name, (one,)) and matches(name, (other,)) for name in names)

    assert overlap(one, other) is proven
    assert overlap(other, one) is proven


def test_any() -> None:
    """One pair is enough, and of nothing there is none."""
    assert any_overlap(["x", "gpt-*"], iter(["y", "gpt-4o"]))
    assert not any_overlap(["x", "gpt-*"], iter(["y", "claude-*"]))
    assert not any_overlap([], ["x"])


@given(PATTERNS, PATTERNS)
def test_what_is_covered_is_meant(one: str, other: str) -> None:
    """It agrees with matching every name that could make a difference."""
    # A family means its bare name and longer ones, such as one with a new letter.
    shortest = other.removesuffix("*")
    names = [shortest, *([shortest + "c"] if other.endswith("*") else [])]
    proven = all(matches(name, (one,)) for name in names)

    assert covers(one, other) is proven


def test_all() -> None:
    """Each needs one that covers it, and of nothing there is nothing to cover."""
    assert all_covered(["gpt-4*", "x"], iter(["x", "gpt-*"]))
    assert not all_covered(["gpt-*", "x"], iter(["x", "gpt-4*"]))
    assert all_covered([], [])
    assert not all_covered(["x"], [])


@given(PATTERNS, PATTERNS)
def test_what_two_have_in_common(one: str, other: str) -> None:
    """It is meant by both, and there is some exactly if they overlap."""
    found = common([one], [other])

    assert len(found) == overlap(one, other)
    assert all_covered(found, [one])
    assert all_covered(found, [other])


def test_what_lists_have_in_common() -> None:
    """Each pair counts."""
    assert common(["gpt-*", "x"], iter(["gpt-4o", "*"])) == ["gpt-4o", "gpt-*", "x"]
