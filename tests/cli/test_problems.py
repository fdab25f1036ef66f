"""Problems of a policy file, as they are printed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tokenweir.cli.problems import tell
from tokenweir.core.errors import PolicyError


@pytest.mark.parametrize(
    ("problems", "out", "err"),
    [
        (
            ["a.b: is wrong (line 2)", "c: too"],
            "a.b: is wrong (line 2)\nc: too\n",
            "my.yaml: 2 problems. docs/policy.md has every field.\n",
        ),
        (
            ["policy: can't be read: no such file or directory"],
            "my.yaml: can't be read: no such file or directory\n",
            "my.yaml is no policy yet; docs/policy.md shows one.\n",
        ),
    ],
)
def test_each_problem_has_a_line(problems: list[str], out: str, err: str) -> None:
    """A value is told by its path; what is wrong with the file, by the file's name."""
    told, summary = io.StringIO(), io.StringIO()

    tell(Path("my.yaml"), PolicyError(problems), told, summary)

    assert told.getvalue() == out
    assert summary.getvalue() == err
