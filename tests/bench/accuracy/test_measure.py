"""Estimates beside what is right."""

from __future__ import annotations

import pytest

from bench.accuracy.corpora import Piece
from bench.accuracy.measure import Score, estimator, score, scores
from tokenweir.core.model_family import FAMILIES

TEXT = "The quick brown fox jumps over the lazy dog."


def test_errors_are_told_by_bias_median_and_percentile() -> None:
    """The bias is that of the sum; errors have no sign, and each text is one."""
    pairs = [(110.0, 100.0)] * 10 + [(90.0, 100.0)] * 9 + [(1_000.0, 500.0)]

    assert score(pairs) == Score(20, 21.2, 10.0, 10.0)
    assert score([(99.99, 100.0)]) == Score(1, 0.0, 0.0, 0.0)


def test_nothing_has_no_score() -> None:
    """Nor has what has no tokens."""
    with pytest.raises(ValueError, match="nothing"):
        score([(5.0, 0.0)])


def test_scores_are_by_family_and_language() -> None:
    """Each family is compared with its own tokenizer's counts."""
    pieces = [Piece(name, "chat", TEXT, held_out=True) for name in ("English", "code")]
    found = scores(pieces, {"o200k_base": [10, 10], "llama": [10, 20]})

    assert found["o200k_base"]["English"] == Score(1, 0.0, 0.0, 0.0)
    assert found["llama"]["code"].bias < -40


def test_an_estimate_is_what_the_gateway_counts() -> None:
    """Exact for OpenAI's models, carried over for others."""
    assert estimator(FAMILIES["o200k_base"])(TEXT) == 10
    assert estimator(FAMILIES["claude-4.7"])(TEXT) > 12
