from __future__ import annotations

from dataclasses import replace

import pytest

from tokenweir.cli.table import Amount
from tokenweir.cli.text_width import width
from tokenweir.cli.usage_bars import ASCII_BLOCKS, BLOCKS
from tokenweir.cli.usage_layout import Line, Screen, fits, fitted

SCREEN = Screen(80, bold=False, cuts_names=True, blocks=BLOCKS)
HEAD = Line(("tenant", "model"), ("calls", "cost USD"))
LINES = [
    Line(("acme", "gpt-4o-mini"), (1_204, Amount("3.00")), 3),
    Line(("株式会社", "claude-sonnet-5"), (7, Amount("1.00")), 1),
    Line(("total", ""), (1_211, Amount("4.00"))),
]
LONG = [replace(line, names=(line.names[0] * 4, line.names[1] * 3)) for line in LINES]


def test_there_is_room() -> None:
    """Names are whole, and bars as long as is good; sums have none."""
    assert fitted(HEAD, LINES, SCREEN, 4) == (
        "tenant    model            calls  cost USD  share\n"
        "acme      gpt-4o-mini      1,204      3.00   75% ██████████████████\n"
        "株式会社  claude-sonnet-5      7      1.00   25% ██████\n"
        "total                      1,211      4.00"
    )
    assert fits(HEAD, LINES, SCREEN)


@pytest.mark.parametrize("columns", range(56, 140, 7))
def test_it_fits(columns: int) -> None:
    """However wide the screen is, and the names are, no line is wider."""
    lines = fitted(HEAD, LONG, replace(SCREEN, columns=columns), 4).splitlines()

    assert max(map(width, lines)) <= columns
    assert {line.split()[-2] for line in lines[1:3]} <= {"75%", "25%", "3.00", "1.00"}


def test_bars_before_names() -> None:
    """Names are cut so that there are bars; then bars go; then names are cut more."""
    narrow, narrower, narrowest = (
        fitted(HEAD, LONG, replace(SCREEN, columns=columns), 4)
        for columns in (62, 54, 20)
    )

    assert "acmeacmeacmeac…" in narrow
    assert "75% ████▌" in narrow
    assert "acmeacmeacmea…" in narrower
    assert "75%\n" in narrower
    assert "acmeacm…" in narrowest
    assert not fits(HEAD, LONG, replace(SCREEN, columns=62))


def test_in_a_pipe() -> None:
    """Programs find whole names, and bars are there."""
    pipe = replace(SCREEN, columns=40, cuts_names=False, blocks=ASCII_BLOCKS)
    text = fitted(HEAD, LONG, pipe, 4)

    assert "claude-sonnet-5" * 3 in text
    assert " 75% ####\n" in text


def test_without_bars() -> None:
    """A table of figures alone is fitted too."""
    assert fitted(HEAD, LINES, SCREEN).splitlines()[1] == (
        "acme      gpt-4o-mini      1,204      3.00"
    )
    cut = fitted(HEAD, LONG, replace(SCREEN, columns=40)).splitlines()
    assert max(map(width, cut)) <= 40


def test_bold() -> None:
    """The head can be set off."""
    assert fitted(HEAD, LINES, replace(SCREEN, bold=True), 4).startswith(
        "\x1b[1mtenant"
    )


def test_names_command_no_terminal() -> None:
    """What clients chose is printed without control characters, and counted so."""
    line = Line(("\x1b[31macme\r\n", "m"), (1, Amount("0.00")), 0)
    text = fitted(HEAD, [line], SCREEN, 0)

    assert "\x1b" not in text
    assert text.splitlines()[1].startswith("[31macme  m ")
