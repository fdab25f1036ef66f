"""Figures are found again in counts that were made by them."""

from __future__ import annotations

import random

from bench.accuracy.corpora import Piece
from bench.accuracy.fit import DEFAULT_OF, as_source, conversions
from tokenweir.core.text_classes import Conversion, carried_over

TRUE = Conversion(1.3, {"upper": 0.5, "digits": 0.25, "kana": -0.125})


def sample() -> list[Piece]:
    """Texts of all sorts."""
    dice = random.Random(3)
    letters = ("word ", "ABC", "123 ", "かな", "漢字", "{}();", "é", "ğ")
    return [
        Piece("code", "x", "".join(dice.choices(letters, k=200)), number % 4 == 0)
        for number in range(200)
    ]


def test_figures_are_found_again() -> None:
    """From texts that are not held out, within what rounding leaves."""
    pieces = sample()
    tokens = [len(piece.text) // 2 for piece in pieces]
    right = [
        10**9
        if piece.held_out
        else round(100 * carried_over(piece.text, count, TRUE)) // 100
        for piece, count in zip(pieces, tokens, strict=True)
    ]
    counts = dict.fromkeys(DEFAULT_OF, right) | {"o200k_base": tokens}

    found = conversions(pieces, counts)

    assert set(found) == {*DEFAULT_OF, "default"}
    for piece, count, target in zip(pieces, tokens, right, strict=True):
        if not piece.held_out:
            estimate = carried_over(piece.text, count, found["llama"])
            assert abs(estimate / target - 1) < 0.02
    assert found["default"] == found["llama"]


def test_figures_are_written_as_source() -> None:
    """As the module has them, one class a line."""
    assert as_source({"a": TRUE}).splitlines() == [
        '    "a": Conversion(',
        "        1.3,",
        "        {",
        '            "upper": 0.5,',
        '            "digits": 0.25,',
        '            "kana": -0.125,',
        "        },",
        "    ),",
    ]
