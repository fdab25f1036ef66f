import pytest

from tokenweir.cli.table import Amount, Cell, shown, table


def test_table() -> None:
    """Names stand to the left, figures to the right, with thousands separators."""
    text = table(
        ["tenant", "total"], [["acme", 1_234_567], ["a-longer-name", 5]], bold=False
    )

    assert text == (
        "tenant             total\nacme           1,234,567\na-longer-name          5"
    )


def test_amounts() -> None:
    """Money is a figure too, and is printed as it is."""
    text = table(["cost"], [[Amount("12.50")], [Amount("0.25")]], bold=False)

    assert text == " cost\n12.50\n 0.25"


def test_bold_head() -> None:
    """On a terminal the head is set off; the figures stay plain."""
    first, second = table(["tenant"], [["acme"]], bold=True).splitlines()

    assert first == "\x1b[1mtenant\x1b[0m"
    assert second == "acme"


def test_no_rows() -> None:
    """Without rows there is the head."""
    assert table(["tenant", "total"], [], bold=False) == "tenant  total"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (0, "0"),
        (-1_500, "-1,500"),
        ("gpt-4o", "gpt-4o"),
        ("\x1b[31mred\x1b[0m\r\n\u202egpt", "[31mred[0mgpt"),
        ("x" * 49, "x" * 47 + "…"),
    ],
)
def test_shown(cell: str | int, text: str) -> None:
    """A name that a client chose can't command the terminal, nor fill it."""
    assert shown(cell) == text


def test_wide_names() -> None:
    """Columns stay in line under names of wide characters and of combining marks."""
    rows: list[list[Cell]] = [["株式会社", 1], ["Mu\u0308ller", 22]]
    text = table(["tenant", "total"], rows, bold=False)

    assert text == ("tenant    total\n株式会社      1\nMu\u0308ller       22")
