"""
Fitting a table of names, figures and bars into a screen.

Bars shrink first, then names are cut, the longest first, then bars go, and names are
cut further. Figures are never cut: a table of many of them is wider than a narrow
screen. In a pipe names stay whole, since programs may look for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenweir.cli.table import GAP, Cell, shown, table
from tokenweir.cli.text_width import clipped, width
from tokenweir.cli.usage_bars import PERCENT_COLUMNS, bar, percent

# As wide as a share in percent, and the blank before its bar.
SHARE = "share"
MIN_BAR, MAX_BAR = 6, 24
# Names are cut to the first for the sake of bars, and to the second if they must be.
SHORT_NAME, MIN_NAME = 12, 8


@dataclass(frozen=True, slots=True)
class Screen:
    """
    Where a report is printed.

    Attributes:
        columns: How wide it is.
        bold: It sets heads off.
        cuts_names: Names may be cut to fit.
        blocks: What bars are made of, see `tokenweir.cli.usage_bars`.
    """

    columns: int
    bold: bool
    cuts_names: bool
    blocks: str


@dataclass(frozen=True, slots=True)
class Line:
    """
    A line of a table.

    Attributes:
        names: To the left.
        cells: Figures.
        part: What its bar tells the share of; None: it has none.
    """

    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    part: int | None = None


def fitted(
    head: Line, lines: Sequence[Line], screen: Screen, whole: int | None = None
) -> str:
    """
    Return *lines* under *head* as text that fits into *screen*, if that is possible.

    Args:
        head: The names of all columns but the bars'.
        lines: As long as *head*.
        screen: Where it is printed.
        whole: What parts are shares of; None: there are no bars.
    """
    names = _widths([line.names for line in (head, *lines)])
    room = _room(head, lines, screen, has_bars=whole is not None)
    if screen.cuts_names:
        beside_bars = _cut(names, room - MIN_BAR, SHORT_NAME)
        has_bars = whole is not None and sum(beside_bars) + MIN_BAR <= room
        names = beside_bars if has_bars else _cut(names, room, MIN_NAME)
    length = _bar_length(room - sum(names), screen)
    rows: list[list[Cell]] = []
    for line in lines:
        cut = [clipped(shown(n), w) for n, w in zip(line.names, names, strict=True)]
        shares = [] if whole is None else [_share(line.part, whole, length, screen)]
        rows.append([*cut, *line.cells, *shares])
    heads = [*head.names, *map(str, head.cells), *([] if whole is None else [SHARE])]
    return table(heads, rows, bold=screen.bold)


def fits(head: Line, lines: Sequence[Line], screen: Screen) -> bool:
    """Tell if there is room for whole names and for bars."""
    names = _widths([line.names for line in (head, *lines)])
    room = _room(head, lines, screen, has_bars=True)
    return sum(names) + MIN_BAR <= room


def _room(head: Line, lines: Sequence[Line], screen: Screen, *, has_bars: bool) -> int:
    """Return how many columns there are for names and bars."""
    figures = sum(_widths([line.cells for line in (head, *lines)]))
    gaps = len(GAP) * (len(head.names) + len(head.cells) - 1)
    shares = len(GAP) + len(SHARE) if has_bars else 0
    return screen.columns - figures - gaps - shares


def _widths(rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [max(width(shown(c)) for c in column) for column in zip(*rows, strict=True)]


def _cut(widths: Sequence[int], room: int, least: int) -> list[int]:
    """Return *widths* that fit into *room*, or are cut to *least*."""
    left = list(widths)
    while sum(left) > room:
        longest = max(range(len(left)), key=left.__getitem__)
        if left[longest] <= least:
            break
        left[longest] -= 1
    return left


def _bar_length(room: int, screen: Screen) -> int:
    """Return how long bars may be; 0: there is no room for any."""
    if room >= MIN_BAR:
        return min(room, MAX_BAR)
    return 0 if screen.cuts_names else MIN_BAR


def _share(part: int | None, whole: int, length: int, screen: Screen) -> str:
    if part is None:
        return ""
    told = percent(part, whole).rjust(PERCENT_COLUMNS)
    drawn = bar(part, whole, length, screen.blocks) if length else ""
    return f"{told} {drawn}".rstrip()
