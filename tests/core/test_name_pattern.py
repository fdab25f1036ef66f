"""A name of a model means models by its beginning, or one."""

from __future__ import annotations

import pytest

from tokenweir.core.name_pattern import matches


@pytest.mark.parametrize(
    ("name", "patterns", "expected"),
    [
        ("gpt-4o", ("gpt-4o",), True),
        ("gpt-4o-mini", ("gpt-4o",), False),
        ("gpt-4o-mini", ("gpt-4o*",), True),
        ("gpt-4o", ("gpt-4o*",), True),
        ("gpt-4", ("gpt-4o*",), False),
        ("gpt-4", ("o1", "gpt-4"), True),
        ("anything", ("*",), True),
        ("gpt-4*", ("gpt-4",), False),
        ("gpt-4o", (), False),
    ],
)
def test_matches(name: str, patterns: tuple[str, ...], expected: bool) -> None:
    """A pattern is a whole name, or its beginning if it ends in a star."""
    assert matches(name, patterns) is expected
