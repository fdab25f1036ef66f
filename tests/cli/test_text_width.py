import pytest

from tokenweir.cli.text_width import clipped, padded, width


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("acme", 4),
        ("Müller", 6),
        ("Mu\u0308ller", 6),
        ("株式会社", 8),
        ("ｱｸﾒ", 3),
        ("a\u200db", 2),
        ("📈", 2),
        ("█▏…", 3),
    ],
)
def test_width(text: str, columns: int) -> None:
    """Wide characters take two columns, combining marks and joiners none."""
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("acme", 4, "acme"),
        ("acme-corp", 5, "acme…"),
        ("株式会社", 8, "株式会社"),
        ("株式会社", 7, "株式会…"),
        ("株式会社", 6, "株式…"),
        ("Mu\u0308ller", 3, "Mu\u0308…"),
        ("acme", 1, "…"),
    ],
)
def test_clipped(text: str, columns: int, shown: str) -> None:
    """What is cut says so, fits, and is not cut in the middle of a character."""
    assert clipped(text, columns) == shown
    assert width(clipped(text, columns)) <= columns


def test_padded() -> None:
    """Names stand to the left, figures to the right, whatever they are made of."""
    assert padded("株", 4, right=False) == "株  "
    assert padded("1,000", 7, right=True) == "  1,000"
