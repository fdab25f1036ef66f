import pytest

from tokenweir.cli.usage_bars import ASCII_BLOCKS, BLOCKS, bar, blocks_for, percent


@pytest.mark.parametrize(
    ("part", "whole", "drawn"),
    [
        (0, 100, ""),
        (-1, 100, ""),
        (5, 0, ""),
        (100, 100, "████"),
        (50, 100, "██"),
        (60, 100, "██▍"),
        (1, 1_000_000_000_000, "▏"),
        (999_999, 1_000_000, "███▉"),
    ],
)
def test_bar(part: int, whole: int, drawn: str) -> None:
    """A bar is as long as its share, to an eighth of a character, and never too long."""
    assert bar(part, whole, 4) == drawn


def test_in_ascii() -> None:
    """Without blocks a bar is of whole characters; a small part is still seen."""
    assert bar(60, 100, 10, ASCII_BLOCKS) == "######"
    assert bar(1, 1_000, 10, ASCII_BLOCKS) == "#"


@pytest.mark.parametrize(
    ("part", "whole", "told"),
    [
        (0, 100, "0%"),
        (0, 0, "0%"),
        (1, 1_000, "<1%"),
        (5, 1_000, "1%"),
        (2, 3, "67%"),
        (3, 3, "100%"),
    ],
)
def test_percent(part: int, whole: int, told: str) -> None:
    """Shares are rounded, and what is not nothing is not told as nothing."""
    assert percent(part, whole) == told


def test_blocks_for() -> None:
    """A terminal gets what its encoding has."""
    assert blocks_for("utf-8") == BLOCKS
    assert [blocks_for(name) for name in ("latin-1", "no-such", None)] == ["#"] * 3
