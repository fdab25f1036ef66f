"""Tables in pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.page import put_table, table_in

PAGE = "Before.\n\n<!-- t: begin, by hand -->\nold\n<!-- t: end -->\n\nAfter: \\1.\n"


def test_a_table_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    """What stands around it stays, and what is put in is taken as it is."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)

    put_table(page, "t", "| a\\1 |\n|---|")

    assert page.read_text() == PAGE.replace("old", "| a\\1 |\n|---|")
    assert table_in(page, "t") == "| a\\1 |\n|---|"


def test_a_page_without_a_place_is_told(tmp_path: Path) -> None:
    """It is left as it is."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)

    with pytest.raises(ValueError, match="no place for other"):
        put_table(page, "other", "x")

    assert page.read_text() == PAGE
