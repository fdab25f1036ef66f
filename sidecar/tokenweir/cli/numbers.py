"""Numbers as arguments: whatever can't be read is told as what would be right."""

from __future__ import annotations

import argparse
from collections.abc import Callable

MAX_PORT = 65_535


def number(least: int, most: int, what: str = "") -> Callable[[str], int]:
    """
    Return what reads a whole number from *least* to *most*.

    It raises argparse.ArgumentTypeError for anything else.

    Args:
        least: The smallest.
        most: The largest.
        what: The number's kind, such as ``"a TCP port"``.
    """
    kind = f"{what}, " if what else ""

    def read(text: str) -> int:
        # Not int alone: it takes signs, underscores, spaces and other scripts' digits.
        if text.isascii() and text.isdecimal() and len(text) < 19:
            value = int(text)
            if least <= value <= most:
                return value
        raise argparse.ArgumentTypeError(f"must be {kind}{least:,} to {most:,}")

    return read


port = number(1, MAX_PORT, "a TCP port")
