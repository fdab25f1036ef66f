"""Estimates beside what each family's own tokenizer counts."""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.accuracy.corpora import Piece
from bench.accuracy.environment import HOME, ORACLE, python
from tokenweir.core.estimate import text_tokens
from tokenweir.core.model_family import FAMILIES, Family
from tokenweir.tokenizers.text_counter import Budget, TextCounter
from tokenweir.tokenizers.vocabulary import Vocabularies

Counts = Mapping[str, Sequence[int]]
# A time that does not come: here nothing is cut short.
_NEVER = math.inf
_EXACT_CHARS = 400_000


@dataclass(frozen=True, slots=True)
class Score:
    """
    How far estimates were off, in percent.

    Attributes:
        samples: Texts.
        bias: Of the sum of all estimates; above 0: too high.
        median: Of the errors, without their signs.
        p95: Ditto: 95 of 100 are no larger.
    """

    samples: int
    bias: float
    median: float
    p95: float


def score(pairs: Iterable[tuple[float, float]]) -> Score:
    """
    Return the score of *pairs* of an estimate and what is right.

    Raises:
        ValueError: There is none.
    """
    known = [(estimate, right) for estimate, right in pairs if right > 0]
    if not known:
        raise ValueError("nothing to compare")
    errors = sorted(abs(estimate / right - 1) for estimate, right in known)
    total = sum(right for _, right in known)
    bias = sum(estimate for estimate, _ in known) / total - 1
    return Score(
        len(known),
        _percent(bias),
        _percent(_quantile(errors, 0.5)),
        _percent(_quantile(errors, 0.95)),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest that so many of the *ordered* figures do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _percent(share: float) -> float:
    return round(100 * share, 1) + 0.0  # and no minus before a zero


def scores(pieces: Sequence[Piece], counts: Counts) -> dict[str, dict[str, Score]]:
    """Return the score of each family, by language; *counts* in the pieces' order."""
    found: dict[str, dict[str, Score]] = {}
    languages = dict.fromkeys(piece.language for piece in pieces)
    for name, right in counts.items():
        estimate = estimator(FAMILIES[name])
        pairs = [
            (piece.language, estimate(piece.text), tokens)
            for piece, tokens in zip(pieces, right, strict=True)
        ]
        found[name] = {
            language: score((a, b) for spoken, a, b in pairs if spoken == language)
            for language in languages
        }
    return found


def estimator(family: Family) -> Callable[[str], int]:
    """Return what the gateway counts of a text for models of *family*."""
    vocabulary = VOCABULARIES.get(family.vocabulary)
    budget = Budget(_NEVER, _EXACT_CHARS)

    def estimate(text: str) -> int:
        count = TextCounter(vocabulary, budget, time.monotonic)
        return text_tokens(text, family, count)

    return estimate


def oracle_counts(texts: Sequence[str]) -> Counts:
    """Return what the families' own tokenizers count, in the order of *texts*."""
    run = subprocess.run(
        [python(), ORACLE, HOME],
        input=json.dumps(texts),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Counts = json.loads(run.stdout)
    return found


def _raise(where: str, error: BaseException) -> None:
    raise RuntimeError(where) from error


VOCABULARIES = Vocabularies(_raise)
