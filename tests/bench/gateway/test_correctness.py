"""Over-admission."""

from __future__ import annotations

import pytest

from bench.gateway.correctness import over_admitted


@pytest.mark.parametrize(
    ("admitted", "over", "unused"),
    [
        (10, 0, 0),  # exactly what there was room for
        (11, 94, 0),  # five came back meanwhile, and one
        (8, 0, 206),  # two more would have fitted
        (0, 0, 1_006),
    ],
)
def test_reservations_are_held_against_the_capacity(
    admitted: int, over: int, unused: int
) -> None:
    """What came back in five seconds at a token a second counts as capacity."""
    assert over_admitted(admitted, 100, 1_000, 5.0) == (over, unused)
