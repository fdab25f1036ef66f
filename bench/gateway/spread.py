"""Percentiles of samples, and the median and range of rounds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """
    What several rounds have found.

    Attributes:
        median: Of the rounds.
        low: The least.
        high: The most.
    """

    median: float
    low: float
    high: float

    def text(self, digits: int = 1) -> str:
        """Return it as ``median (low-high)``; just the median if all are one."""
        middle, low, high = (
            f"{figure:,.{digits}f}" for figure in (self.median, self.low, self.high)
        )
        return middle if low == high else f"{middle} ({low}-{high})"


def spread(figures: Iterable[float]) -> Spread | None:
    """Return the spread of *figures*; None if there are none."""
    known = sorted(figures)
    if not known:
        return None
    return Spread(statistics.median(known), known[0], known[-1])


def percentile(ordered: Sequence[float], share: float) -> float:
    """
    Return what a *share* (0 to 1) of the sorted *ordered* does not exceed.

    The nearest sample, so that it is one that was seen. Raises: ValueError if there
    are none.
    """
    if not ordered:
        raise ValueError("no samples")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
