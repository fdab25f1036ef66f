"""Bars for terminals: which share of a whole each part is."""

from __future__ import annotations

# Eighths of a character, the smallest first: U+258F to U+2588.
BLOCKS = "▏▎▍▌▋▊▉█"
# For terminals that can't show those.
ASCII_BLOCKS = "#"
PERCENT_COLUMNS = len("100%")


def bar(part: int, whole: int, columns: int, blocks: str = BLOCKS) -> str:
    """
    Return a bar of at most *columns*, as long as *part* is of *whole*.

    Whatever is not 0 is seen: it gets the smallest block at least.

    Args:
        part: 0 to *whole*.
        whole: 0: there is nothing to share.
        columns: Of a bar of all.
        blocks: From the smallest to a full one.
    """
    if part <= 0 or whole <= 0:
        return ""
    steps = len(blocks)
    length = max(1, part * columns * steps // whole)
    full, rest = divmod(length, steps)
    return blocks[-1] * full + (blocks[rest - 1] if rest else "")


def percent(part: int, whole: int) -> str:
    """Return the share in words: ``"67%"``; what is not 0 is at least ``"<1%"``."""
    if part <= 0 or whole <= 0:
        return "0%"
    rounded = (200 * part + whole) // (2 * whole)
    return f"{rounded}%" if rounded else "<1%"


def blocks_for(encoding: str | None) -> str:
    """Return the blocks that text in *encoding* can have; None: it is not known."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ASCII_BLOCKS
    return BLOCKS
