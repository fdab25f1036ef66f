"""Counting within budgets."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.text_classes import expected_tokens, upper_tokens
from tokenweir.tokenizers.encode import Encode
from tokenweir.tokenizers.text_counter import SLICE_CHARS, Budget, TextCounter

PLENTY = Budget(deadline_s=100.0, exact_chars=400_000)


def each_character(text: str) -> list[int]:
    """Encode a character as a token."""
    return [0] * len(text)


def by_weight(text: str) -> list[int]:
    """Encode a text as what is expected of it."""
    return [0] * round(expected_tokens(text))


def counter(encode: Encode | None, budget: Budget = PLENTY) -> TextCounter:
    """Return a counter whose clock stands at 50 seconds."""
    return TextCounter(encode, budget, lambda: 50.0)


@given(st.text(max_size=50), st.integers(0, 1_000))
def test_slices_lose_nothing(text: str, times: int) -> None:
    """However long a text is, each of its characters is encoded once, in slices."""
    lengths: list[int] = []

    def encode(piece: str) -> list[int]:
        lengths.append(len(piece))
        return each_character(piece)

    count = counter(encode)

    assert count(text * times) == len(text) * times
    assert not count.estimated
    assert max(lengths, default=0) <= SLICE_CHARS


def test_past_the_deadline_counts_are_upwards() -> None:
    """Once the time is over nothing is encoded, and the estimate is an upper one."""
    now_s = [50.0]

    def encode(piece: str) -> list[int]:
        now_s[0] += 40.0
        return each_character(piece)

    count = TextCounter(encode, PLENTY, lambda: now_s[0])
    text = "word " * 5_000

    assert count("word") == 4
    assert not count.estimated
    assert count(text) == upper_tokens(text)
    assert count.estimated
    assert count("word") == upper_tokens("word")


def test_without_an_encoder_counts_are_upwards() -> None:
    """No vocabulary means an estimate, never nothing."""
    count = counter(None)

    assert count("word " * 100) == upper_tokens("word " * 100)
    assert count.estimated
    assert count.fault is None


def test_what_is_too_much_is_sampled() -> None:
    """Past the exact budget a sixteenth is encoded, whatever the text is made of."""
    encoded: list[str] = []

    def encode(piece: str) -> list[int]:
        encoded.append(piece)
        return by_weight(piece)

    text = "some words, " * 40_000 + "漢字かな" * 40_000 + "0123456789" * 20_000
    count = counter(encode)
    truth = expected_tokens(text)

    assert count(text) == pytest.approx(truth * 1.05, rel=0.01)
    assert count.estimated
    assert sum(map(len, encoded)) <= len(text) / 15


def test_samples_are_scaled_by_what_they_weigh() -> None:
    """Few samples of a mixed text do: dear characters are not missed or overdone."""
    count = counter(by_weight, Budget(100.0, 0))
    text = "word " * 3_000 + "かな" * 4_500
    truth = expected_tokens(text)

    assert count(text) == pytest.approx(truth * 1.05, rel=0.01)


def test_the_exact_budget_is_one_for_all_texts() -> None:
    """What one text used is not there for the next; small texts are never sampled."""
    count = counter(by_weight, Budget(100.0, 20_000))
    text = "words " * 3_000

    assert count(text) == round(expected_tokens(text[:10_000])) + round(
        expected_tokens(text[10_000:])
    )
    assert not count.estimated
    assert count("words " * 600) == round(expected_tokens("words " * 600))
    assert not count.estimated
    assert count(text) == pytest.approx(expected_tokens(text) * 1.05, rel=0.01)
    assert count.estimated


@given(st.characters(codec=None, categories=None))
def test_samples_of_runs_are_not_cheap(character: str) -> None:
    """A long run of one character is at least a token for eight."""
    count = counter(lambda _: [0], Budget(100.0, 0))

    assert count(character * 20_000) >= 2_500


def test_no_time_for_samples() -> None:
    """A text that is too long counts upwards if the time is over as well."""
    count = counter(by_weight, Budget(1.0, 0))
    text = "word " * 5_000

    assert count(text) == upper_tokens(text)


class PanicException(BaseException):
    """As pyo3 has it: no Exception, and with no module to import it from."""


@pytest.mark.parametrize("fault", [PanicException("stack"), ValueError("text")])
def test_an_encoder_that_breaks_is_not_used_again(fault: BaseException) -> None:
    """Errors and panics become estimates; the fault is kept to be told."""
    calls: list[str] = []

    def encode(piece: str) -> list[int]:
        calls.append(piece)
        raise fault

    count = counter(encode)

    assert count("word " * 100) == upper_tokens("word " * 100)
    assert count("again") == upper_tokens("again")
    assert count.fault is fault
    assert count.estimated
    assert len(calls) == 1


def test_a_wish_to_stop_is_no_fault() -> None:
    """What is neither an error nor a panic goes through."""

    def encode(piece: str) -> list[int]:
        raise KeyboardInterrupt(piece)

    with pytest.raises(KeyboardInterrupt):
        counter(encode)("word")


@given(st.text(st.characters(codec=None, categories=None)), st.booleans())
def test_any_text_has_a_count(text: str, none_left: bool) -> None:
    """Whatever text and budget: a count that is not negative, and nothing raises."""
    count = counter(by_weight, Budget(100.0, 0 if none_left else 1_000))

    assert 0 <= count(text) <= 3 * len(text) + 1
    assert math.isfinite(count(text * 50))
