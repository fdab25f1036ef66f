"""
How many columns of a terminal a text takes, by Unicode's properties.

Chinese, Japanese and Korean characters and most pictographs take two columns; marks
that combine with the character before them take none. Where terminals differ (some
emoji sequences) the larger figure is told, so that tables are too wide, never torn.
"""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"
_WIDE = ("F", "W")
# Marks that combine, and what is not seen: joiners, variation selectors.
_NO_WIDTH = ("Mn", "Me", "Cf")


def width(text: str) -> int:
    """Return how many columns *text* takes; it has no control characters."""
    # Nearly all names are ASCII.
    return len(text) if text.isascii() else sum(map(_width, text))


def clipped(text: str, columns: int) -> str:
    """Return *text*, cut to *columns* (at least 1) with an ellipsis if it is wider."""
    if width(text) <= columns:
        return text
    kept, left = "", columns - 1
    for character in text:
        left -= _width(character)
        if left < 0:
            break
        kept += character
    return kept + ELLIPSIS


def padded(text: str, columns: int, *, right: bool) -> str:
    """Return *text* with blanks, so that it takes *columns*; *right*: it ends there."""
    blanks = " " * (columns - width(text))
    return blanks + text if right else text + blanks


def _width(character: str) -> int:
    if unicodedata.category(character) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1
