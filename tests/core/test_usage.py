"""Classes of tokens add up."""

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.usage import Source, TokenUsage

CLASSES = [field.name for field in fields(TokenUsage)]


@given(st.lists(st.integers(0, 10**9), min_size=len(CLASSES), max_size=len(CLASSES)))
def test_every_class_is_counted_once(figures: list[int]) -> None:
    """Classes are disjoint: the total is their plain sum, input and output its parts."""
    usage = TokenUsage(*figures)

    assert usage.total_tokens == sum(figures)
    assert usage.total_tokens == usage.total_input_tokens + usage.total_output_tokens


def test_sides() -> None:
    """Everything that went in is input, and everything that was generated is output."""
    usage = TokenUsage(1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

    assert usage.total_input_tokens == 1 + 2 + 4 + 8 + 16 + 256
    assert usage.total_output_tokens == 32 + 64 + 128 + 512


def test_by_class_leaves_zeros_out() -> None:
    """Only classes that were used are listed."""
    usage = TokenUsage(input_tokens=9, cache_write_1h_tokens=3)

    assert usage.by_class() == {"input_tokens": 9, "cache_write_1h_tokens": 3}
    assert TokenUsage().by_class() == {}


def test_sources_are_ranked() -> None:
    """Where figures come from is listed with the best first."""
    assert list(Source) == ["reported", "counted", "estimated"]
