"""Figures that carry counts over: they are of classes that exist, and sane."""

import pytest

from tokenweir.core.conversions import CONVERSIONS
from tokenweir.core.model_family import FAMILIES
from tokenweir.core.text_classes import CLASSES, carried_over

# What o200k_base counts of each.
TEXTS = {
    "The quick brown fox jumps over the lazy dog, and nobody minds.": 14,
    "def total(items):\n    return sum(item.price for item in items)\n": 14,
    '{"id": 4711, "name": "Anna", "tags": ["a", "b"]}': 23,
    "返品ポリシーは何ですか。アイテムを返品するにはどうすればよいですか。": 25,
    "请问如何取消订单。我想退货并申请退款。": 13,
}


def test_each_family_that_is_not_exact_has_figures() -> None:
    """And no others do."""
    inexact = {name for name, family in FAMILIES.items() if family.ratios is not None}

    assert set(CONVERSIONS) == inexact
    for name in inexact:
        assert FAMILIES[name].ratios is CONVERSIONS[name]


@pytest.mark.parametrize("name", CONVERSIONS)
def test_figures_are_of_classes_that_exist(name: str) -> None:
    """A name that is written wrong would count nothing, and nobody would see it."""
    assert set(CONVERSIONS[name].per_character) <= set(CLASSES)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_ordinary_texts_cost_neither_half_nor_threefold(name: str) -> None:
    """Tokenizers differ, but not by that much."""
    for text, tokens in TEXTS.items():
        assert 0.6 < carried_over(text, tokens, CONVERSIONS[name]) / tokens < 2.4


def test_an_unknown_tokenizer_is_not_taken_for_a_cheap_one() -> None:
    """The default family counts about as much as the vocabulary does, or more."""
    for text, tokens in TEXTS.items():
        assert carried_over(text, tokens, CONVERSIONS["default"]) > 0.9 * tokens
