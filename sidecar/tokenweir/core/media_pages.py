"""
How many pages a PDF says that it has, read from its first bytes.

Whoever sends it writes it, so what is looked at is bounded: so many counts, and around
each no more than one dictionary may have. Nothing is searched by an expression that can
try in more than one way.
"""

from __future__ import annotations

import re

# Outlines have counts too: some files have a hundred before that of their pages.
MAX_COUNTS = 128
_REACH_BYTES = 400

_COUNT = b"/Count"
_NUMBER = re.compile(rb"\s{1,8}(\d{1,6})")
_TYPE, _PAGES = b"/Type", b"/Pages"


def pages_in(head: bytes) -> int:
    """Return the most pages that a PDF that begins with *head* says; 0: none."""
    most = 0
    place = head.find(_COUNT)
    for _ in range(MAX_COUNTS):
        if place < 0:
            break
        number = _NUMBER.match(head, place + len(_COUNT))
        if number is not None and _is_of_pages(head, place):
            most = max(most, int(number[1]))
        place = head.find(_COUNT, place + len(_COUNT))
    return most


def _is_of_pages(head: bytes, place: int) -> bool:
    """Tell if the count at *place* is in a dictionary of the type of page trees."""
    first, last = max(0, place - _REACH_BYTES), place + _REACH_BYTES
    start = max(first, head.rfind(b">", first, place))
    end = head.find(b">", place, last)
    near = head[start : end if end >= 0 else last]
    before, found, after = near.partition(_PAGES)
    is_whole = bool(found) and not after[:1].isalnum()
    return is_whole and before.rstrip().endswith(_TYPE)
