"""Amounts of money are told exactly."""

from __future__ import annotations

import pytest

from tokenweir.cli.money import digits_of, dollars

NANO = 10**9


@pytest.mark.parametrize(
    ("nanousd", "text"),
    [
        (0, "0.00"),
        (1, "0.000000001"),
        (33_000, "0.000033"),
        (250_000_000, "0.25"),
        (1_200 * NANO, "1200.00"),
        (4_500_000 * NANO + 1, "4500000.000000001"),
    ],
)
def test_amounts_are_exact(nanousd: int, text: str) -> None:
    """There are two digits after the point, or as many as there are."""
    assert dollars(nanousd, NANO) == text
    assert digits_of(nanousd, NANO) == len(text.partition(".")[2])


def test_a_column_can_have_one_length() -> None:
    """Zeros are added if more digits are asked for, and none is cut off."""
    assert dollars(250_000_000, NANO, 6) == "0.250000"
    assert dollars(1, NANO, 6) == "0.000000001"
