"""Classes of characters: what they weigh and how ratios are mixed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.text_classes import (
    ByClass,
    expected_tokens,
    ratio,
    upper_tokens,
)

# Every class has its own ratio, so that a mistaken one shows.
RATIOS = ByClass(2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0)


@pytest.mark.parametrize(
    ("text", "cls"),
    [
        ("abcXYZ \n\t", "letters"),
        ("äé", "letters"),
        ("0123456789", "digits"),
        ("{}.,\x00\x7f", "marks"),
        ("かなカナ漢字。", "kanji"),
        ("한국어", "hangul"),
        ("हिन्दी", "indic"),
        ("ภาษาไทย", "indic"),
        ("русский", "other"),
        ("العربية", "other"),
        ("ქართული", "other"),
        ("“—”", "other"),
        ("😀", "other"),
    ],
)
def test_each_character_belongs_to_one_class(text: str, cls: str) -> None:
    """All of a text's weight lies in the class of its characters."""
    masses = expected_tokens(text)._asdict()

    assert masses.pop(cls) > 0
    assert not any(masses.values())
    assert ratio(text, RATIOS) == pytest.approx(RATIOS._asdict()[cls])


def test_a_mixture_has_a_ratio_in_between() -> None:
    """The ratio of mixed text is the mean of its classes', by weight."""
    letters, digits = expected_tokens("word").letters, expected_tokens("12").digits

    expected = (2.0 * letters + 3.0 * digits) / (letters + digits)

    assert ratio("word12", RATIOS) == pytest.approx(expected)


def test_no_text_has_the_ratio_one() -> None:
    """An empty text changes no count."""
    assert ratio("", RATIOS) == 1.0
    assert upper_tokens("") == 0


def test_long_text_weighs_as_its_parts() -> None:
    """Where a text is cut for encoding changes nothing."""
    part = "word 12 漢字 {} "
    many = 100_000

    assert expected_tokens(part * many) == pytest.approx(
        tuple(many * mass for mass in expected_tokens(part))
    )
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
    """Whatever text, lone surrogates too: weights are not negative and nothing raises."""
    masses = expected_tokens(text)

    assert min(masses) >= 0
    assert bool(text) == (sum(masses) > 0)
    assert upper_tokens(text) >= len(text) / 8
    assert min(RATIOS) - 0.01 <= ratio(text, RATIOS) <= max(RATIOS) + 0.01 or not text
