"""What estimates learn: bounded, robust, and in the middle."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core import calibration
from tokenweir.core.calibration import (
    BATCH_WEIGHT,
    EXACT_TOLERANCE,
    LEAST,
    MAX_SIZE,
    MEMORY_WEIGHT,
    MICRO,
    MIN_SAMPLES,
    MOST,
    NO_CORRECTION,
    REACH,
    SAMPLE_WEIGHT,
    STEP,
    Batch,
    Correction,
    Learned,
    correction_of,
    merged,
    ratio_of,
    reported_input,
    reported_output,
    sample_of,
)
from tokenweir.core.usage import TokenUsage


def taught(*pairs: tuple[int, int]) -> Learned:
    """Return what is known after samples of estimated and reported tokens, one by one."""
    learned: Learned | None = None
    for estimated, reported in pairs:
        sample = sample_of(estimated, reported)
        assert sample is not None
        learned = merged(learned, sample, 7)
    assert learned is not None
    return learned


def known(factor: float, *, samples: int = 20, size: int = 500) -> Learned:
    """Return that a *factor* was learned."""
    return Learned(samples, 4_000, round(math.log(factor) * MICRO), size, 7)


def test_a_steady_factor_is_found() -> None:
    """If each report is 1.8 times the estimate, so is the factor, from the first on."""
    for count in (1, 5, 50):
        learned = taught(*[(1_000, 1_800)] * count)

        assert learned.factor == pytest.approx(1.8, rel=1e-4)
        assert learned.samples == count
        assert learned.at_ms == 7


def test_it_is_used_once_there_are_enough_samples() -> None:
    """Before that estimates stay what they are."""
    few = taught(*[(1_000, 1_800)] * (MIN_SAMPLES - 1))
    short = taught(*[(10, 18)] * 50)
    enough = taught(*[(1_000, 1_800)] * MIN_SAMPLES)

    assert correction_of(None, exact=False) == NO_CORRECTION
    assert correction_of(few, exact=False) == NO_CORRECTION
    assert correction_of(short, exact=False) == NO_CORRECTION
    assert correction_of(enough, exact=True) == NO_CORRECTION
    assert correction_of(taught(*[(1_000, 1_800)] * 20), exact=True)
    assert not correction_of(taught(*[(100, 180)] * 30), exact=True)
    assert correction_of(enough, exact=False).of(1_000) == pytest.approx(
        1_800, rel=1e-4
    )


def test_what_is_in_the_middle() -> None:
    """As often twice as half: nothing is wrong, so nothing is corrected."""
    learned = taught(*[(1_000, 2_000), (1_000, 500)] * 20)

    assert learned.factor == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("estimated", "reported"), [(0, 5), (5, 0), (100, 801), (801, 100), (10, 2_000_000)]
)
def test_nothing_is_learned_from(estimated: int, reported: int) -> None:
    """Nothing, and what is more than eight times off."""
    assert sample_of(estimated, reported) is None


def test_samples_weigh_by_size_up_to_a_bound() -> None:
    """A large prompt outweighs many small ones, but not all others."""
    small, large = sample_of(10, 10), sample_of(10**6, 10**6)
    assert small is not None
    assert large is not None

    assert (small.weight, small.size) == (10, 10)
    assert (large.weight, large.size) == (SAMPLE_WEIGHT, MAX_SIZE)
    assert (small + large).samples == 2
    assert (small + large).weight == SAMPLE_WEIGHT + 10


@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.floats(0.13, 7.9)), min_size=1, max_size=60
    )
)
def test_whatever_is_reported_factors_are_bounded(
    samples: list[tuple[int, float]],
) -> None:
    """No sequence of reports gets beyond one half and three."""
    learned: Learned | None = None
    for estimated, ratio in samples:
        sample = sample_of(estimated, max(1, round(estimated * ratio)))
        if sample is not None:
            learned = merged(learned, sample, 0)

    factor = correction_of(learned, exact=False).factor
    assert 0.499 < factor < 3.001
    if learned is not None:
        assert learned.weight <= MEMORY_WEIGHT
        assert 1 <= learned.size <= MAX_SIZE


@given(st.integers(-(10**13), 10**13), st.integers(1, 10**7))
def test_one_batch_moves_little(log_sum: int, weight: int) -> None:
    """However large a batch is, it moves what is well known by a fifth of a doubling."""
    held = Learned(1_000, MEMORY_WEIGHT, 0, 500, 0)
    batch = Batch(10**6, weight, log_sum, weight)

    moved = merged(held, batch, 0).mean

    assert abs(moved) <= STEP * BATCH_WEIGHT // (MEMORY_WEIGHT + BATCH_WEIGHT) + 1


def test_one_outlier_among_many_is_forgotten() -> None:
    """A report of seven times the estimate hardly shows, and wears off."""
    steady = [(1_000, 1_200)] * 40
    after = taught(*steady, (1_000, 7_000))
    later = taught(*steady, (1_000, 7_000), *steady)

    assert after.factor < 1.2 * 1.02
    assert later.factor == pytest.approx(1.2, rel=0.01)


def test_what_was_learned_long_ago_gives_way() -> None:
    """A provider that changes its tokenizer is followed."""
    learned = taught(*[(1_000, 1_200)] * 200, *[(1_000, 2_000)] * 200)

    assert learned.factor == pytest.approx(2.0, rel=0.02)


def test_it_reaches_as_far_as_it_was_learned() -> None:
    """From greetings nobody learns what a book has: what is beyond stays as it is."""
    learned = taught(*[(10, 30)] * 200)
    correction = correction_of(learned, exact=False)

    assert correction.of(10) == pytest.approx(30, rel=0.01)
    assert correction.of(100_000) == pytest.approx(100_000 + 2 * REACH * 10, rel=0.01)


@pytest.mark.parametrize(
    ("factor", "exact", "expected"),
    [(1.05, True, 1.0), (0.95, True, 1.0), (1.8, True, 1.8), (1.05, False, 1.05)],
)
def test_what_counts_exactly_stays(factor: float, exact: bool, expected: float) -> None:
    """A tokenizer's count is corrected only where it can't be the model's."""
    correction = correction_of(known(factor), exact=exact)

    assert correction.factor == pytest.approx(expected, rel=1e-4)
    assert bool(correction) == (expected != 1.0)


def test_what_others_wrote_is_bounded_too() -> None:
    """Figures of a ledger that somebody else has written to do no harm."""
    assert correction_of(known(100.0), exact=False).factor == pytest.approx(3, rel=1e-3)
    assert correction_of(known(0.01), exact=False).factor == pytest.approx(
        0.5, rel=1e-3
    )
    assert not correction_of(known(2.0, size=0), exact=False)
    assert not Correction(1.0, 5)
    assert MOST > EXACT_TOLERANCE > 0 > LEAST
    assert calibration.ABSURD > MOST


def test_text_alone_is_compared() -> None:
    """What came from a cache was sent; sound, pictures and reasoning are no text."""
    usage = TokenUsage(100, 50, 20, 10, output_tokens=30)

    assert reported_input(usage) == 180
    assert reported_output(usage) == 30
    assert reported_input(TokenUsage(100, audio_input_tokens=1)) == 0
    assert reported_input(TokenUsage(100, image_input_tokens=1)) == 0
    for other in ("reasoning_tokens", "audio_output_tokens", "image_output_tokens"):
        assert reported_output(TokenUsage(output_tokens=9, **{other: 1})) == 0


def test_ratios() -> None:
    """Where either is unknown there is none."""
    assert ratio_of(50, 100) == 2.0
    assert ratio_of(0, 100) is None
    assert ratio_of(100, 0) is None
