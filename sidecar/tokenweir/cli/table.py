"""Tables for terminals: names to the left, figures to the right."""

from __future__ import annotations

from collections.abc import Sequence

from tokenweir.cli.text_width import clipped, padded, width

MAX_NAME = 48
GAP = "  "
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


class Amount(str):
    """A figure that is text already, such as money."""

    __slots__ = ()


Cell = str | int


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]], *, bold: bool) -> str:
    """
    Return *rows* under *head* as lines of text.

    Numbers get thousands separators. Names are cut to `MAX_NAME` and lose control
    characters: a client chose some of them, and a terminal obeys what it prints.

    Args:
        head: Names of the columns.
        rows: Each as long as *head*; a column is of names, of numbers or of amounts.
        bold: Set the head off, by an escape sequence.
    """
    texts = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(head, *texts, strict=True)]
    numeric = (
        [isinstance(cell, int | Amount) for cell in rows[0]]
        if rows
        else [False] * len(head)
    )

    def line(cells: Sequence[str]) -> str:
        shaped = (
            padded(cell, columns, right=right)
            for cell, columns, right in zip(cells, widths, numeric, strict=True)
        )
        return GAP.join(shaped).rstrip()

    first = line(head)
    return "\n".join([f"{BOLD}{first}{PLAIN}" if bold else first, *map(line, texts)])


def shown(cell: Cell) -> str:
    """Return *cell* as it is printed."""
    if isinstance(cell, int):
        return f"{cell:,}"
    return clipped("".join(c for c in cell if c.isprintable()), MAX_NAME)
