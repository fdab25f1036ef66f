"""Tables that programs put into pages, between two comments."""

from __future__ import annotations

import re
from pathlib import Path


def _between(name: str) -> re.Pattern[str]:
    begin, end = re.escape(f"<!-- {name}: begin"), re.escape(f"<!-- {name}: end -->")
    return re.compile(f"({begin}[^\n]*-->\n)(.*?)(\n{end})", re.DOTALL)


def table_in(page: Path, name: str) -> str:
    """
    Return what stands in *page* between the comments of *name*.

    Raises:
        ValueError: The page has no such comments.
    """
    found = _between(name).search(page.read_text())
    if found is None:
        raise ValueError(f"{page} has no place for {name}")
    return found[2]


def put_table(page: Path, name: str, table: str) -> None:
    """Put *table* there. Raises: ValueError."""
    table_in(page, name)
    text = page.read_text()
    page.write_text(_between(name).sub(lambda m: f"{m[1]}{table}{m[3]}", text))
