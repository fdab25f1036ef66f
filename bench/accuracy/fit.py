"""
Conversions of counts, fitted to the half of the texts that is not held out.

Least squares of relative errors, so that a short text weighs as much as a long one.
Languages have weights of their own: what is claimed weighs most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from bench.accuracy.corpora import Piece
from bench.accuracy.measure import Counts
from tokenweir.core.text_classes import CLASSES, Conversion, carried_over, characters

EXACT = ("o200k_base", "cl100k_base")
# The unknown model's tokenizer is most like these, but is not taken for a cheaper one
# than what counts.
DEFAULT_OF = ("llama", "qwen", "qwen-3.5", "deepseek", "gemini")
_WEIGHTS = {"English": 6, "Japanese": 4, "code": 6, "JSON": 3, "Chinese": 3, "logs": 1}
_OTHERS_WEIGHT = 0.7
# How strongly "as counted" is preferred where texts say little: a share of their weight.
_RIDGE = 0.003
# Too few in the corpora for a figure to mean anything.
_UNFITTED = frozenset({"astral", "rare"})
_FITTED = tuple(name for name in CLASSES if name not in _UNFITTED)

_Row = Sequence[float]


def conversions(pieces: Sequence[Piece], counts: Counts) -> dict[str, Conversion]:
    """Return the conversion of each family in *counts*, and of the default one."""
    places = [place for place, piece in enumerate(pieces) if not piece.held_out]
    weights = _weights([pieces[place].language for place in places])
    features = [
        _features(pieces[place].text, counts[EXACT[0]][place]) for place in places
    ]
    targets: dict[str, Sequence[float]] = {
        name: [right[place] for place in places]
        for name, right in counts.items()
        if name not in EXACT
    }
    targets["default"] = [
        max(row[0], sum(column) / len(column))
        for row, *column in zip(
            features, *(targets[name] for name in DEFAULT_OF), strict=True
        )
    ]
    return {
        name: _fit(features, right, weights) for name, right in sorted(targets.items())
    }


def as_source(found: Mapping[str, Conversion]) -> str:
    """Return *found* as the body of `tokenweir.core.conversions`."""
    lines = []
    for name, conversion in found.items():
        lines.append(f'    "{name}": Conversion(')
        lines.append(f"        {conversion.per_token:g},")
        lines.append("        {")
        for cls, weight in conversion.per_character.items():
            lines.append(f'            "{cls}": {weight:g},')
        lines += ["        },", "    ),"]
    return "\n".join(lines)


def _weights(languages: Sequence[str]) -> list[float]:
    often = Counter(languages)
    return [_WEIGHTS.get(name, _OTHERS_WEIGHT) / often[name] for name in languages]


def _features(text: str, tokens: int) -> _Row:
    counts = characters(text)
    # What the conversion itself takes for letters of other languages.
    only = Conversion(0.0, {"foreign": 1.0})
    counts["foreign"] = round(carried_over(text, 0, only))
    return [tokens, *(counts.get(name, 0) for name in _FITTED)]


def _fit(
    features: Sequence[_Row], right: Sequence[float], weights: Sequence[float]
) -> Conversion:
    size = len(features[0])
    normal = [[0.0] * size for _ in range(size)]
    wanted = [0.0] * size
    for row, target, weight in zip(features, right, weights, strict=True):
        scaled = [value / target for value in row]
        for i in range(size):
            wanted[i] += weight * scaled[i]
            for j in range(size):
                normal[i][j] += weight * scaled[i] * scaled[j]
    for i in range(size):
        ridge = _RIDGE * normal[i][i] + 1e-12
        normal[i][i] += ridge
        wanted[i] += ridge * (i == 0)  # one for each token, nothing else
    per_token, *others = _solve(normal, wanted)
    return Conversion(
        round(per_token, 3),
        {name: round(value, 3) for name, value in zip(_FITTED, others, strict=True)},
    )


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a positive definite system by Cholesky's method."""
    size = len(right)
    lower = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))
            lower[i][j] = math.sqrt(rest) if i == j else rest / lower[j][j]
    half = [0.0] * size
    for i in range(size):
        half[i] = (right[i] - sum(lower[i][k] * half[k] for k in range(i))) / lower[i][
            i
        ]
    found = [0.0] * size
    for i in reversed(range(size)):
        above = sum(lower[k][i] * found[k] for k in range(i + 1, size))
        found[i] = (half[i] - above) / lower[i][i]
    return found
