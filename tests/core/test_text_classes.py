"""Classes of characters: what they weigh, and how counts are carried over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.conversions import CONVERSIONS
from tokenweir.core.text_classes import (
    CLASSES,
    Conversion,
    carried_over,
    characters,
    expected_tokens,
    upper_tokens,
)


@pytest.mark.parametrize(
    ("text", "cls"),
    [
        ("abc", "lower"),
        ("XYZ", "upper"),
        (" \n\t\r", "space"),
        ("0123456789", "digits"),
        ("{}.,\x00\x7f", "marks"),
        ("äéß", "accents"),
        ("łğı", "extended"),
        ("ạếỹ", "vietnamese"),
        ("かなカナー。", "kana"),
        ("漢字㐀", "han"),
        ("한국어", "hangul"),
        ("русский", "cyrillic"),
        ("ελληνικά", "greek"),
        ("עברית", "hebrew"),
        ("العربية", "arabic"),
        ("हिन्दी", "devanagari"),
        ("தமிழ்", "indic"),
        ("ภาษาไทย", "thai"),
        ("ქართული", "georgian"),
        ("“—”€", "typographic"),
        ("ߊߋߌ", "rare"),
        ("😀", "astral"),
    ],
)
def test_each_character_belongs_to_one_class(text: str, cls: str) -> None:
    """All of a text's characters lie in one class, and each of them weighs."""
    counts = {name: count for name, count in characters(text).items() if count}

    assert counts == {cls: len(text)}
    assert expected_tokens(text) > 0
    assert cls in CLASSES


def test_a_count_is_carried_over_by_tokens_and_by_characters() -> None:
    """So much for each token, and so much for each character of a class."""
    conversion = Conversion(1.5, {"digits": 0.25, "marks": -0.5})

    assert carried_over("word", 10, conversion) == 15.0
    assert carried_over("12", 10, conversion) == 15.5
    assert carried_over("1!", 10, conversion) == 14.75


def test_letters_among_accents_are_of_another_language() -> None:
    """Forty for each accent at most, and no more than there are."""
    conversion = Conversion(0.0, {"foreign": 1.0})

    assert carried_over("plain words", 0, conversion) == 0.0
    assert carried_over("déjà vu", 0, conversion) == 4.0
    assert carried_over("é" + "x" * 100, 0, conversion) == 40.0


def test_accents_are_cheaper_within_words_only() -> None:
    """Alone, in tables or among Han, they are what was counted, and half so in between."""
    conversion = Conversion(1.0, {"accents": -2.0, "han": 0.5})

    assert carried_over("ééé", 6, conversion) == 6.0
    assert carried_over("漢é", 3, conversion) == 3.5
    assert carried_over("aé", 3, conversion) == 2.0
    assert carried_over("aaé", 3, conversion) == 1.5  # the least
    assert carried_over("aaaéaaa", 9, conversion) == 7.0


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize(
    ("text", "tokens", "least"),
    [("| é | 12 | ü | 7 |\n" * 300, 3_300, 3_200), ("漢é" * 1_000, 2_000, 1_600)],
)
def test_accents_outside_of_words(
    name: str, text: str, tokens: int, least: int
) -> None:
    """By no tokenizer is a text cheap for accents that stand alone."""
    assert carried_over(text, tokens, CONVERSIONS[name]) >= least


def test_no_count_is_carried_over_to_next_to_nothing() -> None:
    """Whatever the figures: half of what was counted is the least."""
    assert carried_over("((((", 10, Conversion(1.0, {"marks": -9.0})) == 5.0


def test_no_text_has_no_tokens() -> None:
    """An empty text weighs nothing."""
    assert expected_tokens("") == 0
    assert carried_over("", 0, Conversion(2.0, {"lower": 1.0})) == 0
    assert upper_tokens("") == 0


def test_long_text_weighs_as_its_parts() -> None:
    """Where a text is cut for encoding changes nothing."""
    part = "word 12 漢字 {} "
    many = 100_000

    assert expected_tokens(part * many) == pytest.approx(many * expected_tokens(part))
    assert upper_tokens(part * many) >= many * (upper_tokens(part) - 1)


def test_runs_of_one_character_are_never_cheap() -> None:
    """A million of any ASCII character cost at least a token for eight bytes."""
    for character in (" ", "a", "^", "\n", "0"):
        assert upper_tokens(character * 1_000_000) >= 125_000


def test_letters_without_separators_cost_more_than_words() -> None:
    """Letters without end are charged as what base64 is made of."""
    words, run = "sentence " * 100, "sentences" * 100

    assert upper_tokens(run) > 2 * upper_tokens(words)


@given(st.text(st.characters(codec=None, categories=None)))
def test_any_text_can_be_weighed(text: str) -> None:
    """Whatever text, lone surrogates too: each character has a class, none raises."""
    counts = characters(text)

    assert min(counts.values(), default=0) >= 0
    assert sum(counts.values()) == len(text)
    assert bool(text) == (expected_tokens(text) > 0)
    assert upper_tokens(text) >= len(text) / 8
    assert carried_over(text, len(text), Conversion()) == len(text)
