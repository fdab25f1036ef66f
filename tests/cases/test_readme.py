"""README.md lists every case that is tested here, and where."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"^\| ([TLBECS]\d\d) \|([^|]*)\|[^|]*\|$", re.MULTILINE)
TEST = re.compile(r"^(?:async )?def test_([tlbecs]\d\d)_", re.MULTILINE)


def listed() -> dict[str, set[str]]:
    """Return the files that are named, by case."""
    rows = ROW.findall((HERE / "README.md").read_text())
    return {case: set(re.findall(r"`([^`]+)`", files)) for case, files in rows}


def files_with_tests() -> dict[str, set[str]]:
    """Return the files that have tests, by case."""
    found: dict[str, set[str]] = {}
    for file in HERE.glob("test_*.py"):
        for name in TEST.findall(file.read_text()):
            found.setdefault(name.upper(), set()).add(file.name)
    return found


def test_cases_are_where_the_page_says() -> None:
    """Each file that is named has a test of the case."""
    files = files_with_tests()
    for case, named in listed().items():
        assert named <= files.get(case, set()), case


def test_every_case_that_is_tested_is_listed() -> None:
    """No test is of a case that the page doesn't name with its file."""
    page = listed()
    for case, files in files_with_tests().items():
        assert files <= page.get(case, set()), case
