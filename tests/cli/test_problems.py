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
            "Give the path of a policy; docs/policy.md shows a first one.\n",
        ),
        (
            ["policy: can't be read: permission denied"],
            "my.yaml: can't be read: permission denied\n",
            "Let this user read it, as by chmod u+r, or be who may.\n",
        ),
        (
            ["policy: is a folder, not a file"],
            "my.yaml: is a folder, not a file\n",
            "Give the file in it.\n",
        ),
        (
            ["policy: is larger than 9 bytes"],
            "my.yaml: is larger than 9 bytes\n",
            "Is it a policy at all? docs/policy.md shows one.\n",
        ),
        (
            ["policy: is empty"],
            "my.yaml: is empty\n",
            "That is no policy yet; docs/policy.md shows one.\n",
        ),
        (
            ["line 4, column 1: did not find expected ',' or '}'"],
            "line 4, column 1: did not find expected ',' or '}'\n",
            (
                "That is no YAML: mend that line or the one before it, then ask again. "
                "Often a bracket or a quote is not closed, or there is a tab.\n"
            ),
        ),
        (
            [
                "a.credential: environment variable ONE is not set (line 2)",
                "b.credential: environment variable ONE is not set (line 3)",
                "c.credential: environment variable TWO is not set (line 4)",
            ],
            (
                "a.credential: environment variable ONE is not set (line 2)\n"
                "b.credential: environment variable ONE is not set (line 3)\n"
                "c.credential: environment variable TWO is not set (line 4)\n"
            ),
            (
                "my.yaml: 3 problems. docs/policy.md has every field.\n"
                "Set ONE, TWO before this command is run, as by export; "
                "`tokenweir check --without-secrets` does without.\n"
            ),
        ),
    ],
)
def test_each_problem_has_a_line(problems: list[str], out: str, err: str) -> None:
    """A value is told by its path; what is wrong with the file, by the file's name."""
    told, summary = io.StringIO(), io.StringIO()

    tell(Path("my.yaml"), PolicyError(problems), told, summary)

    assert told.getvalue() == out
    assert summary.getvalue() == err
