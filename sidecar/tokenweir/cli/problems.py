"""What is wrong with a policy file, as every command tells it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tokenweir.core.errors import PolicyError

# How a problem begins that is no value's, but the file's.
_WHOLE = "policy: "
# Problems after which there are no values to tell of, and what to do.
_HINTS = {
    "no such file": "Give the path of a policy; docs/policy.md shows a first one.",
    "permission denied": "Let this user read it, as by chmod u+r, or be who may.",
    "is a folder": "Give the file in it.",
    "is larger than": "Is it a policy at all? docs/policy.md shows one.",
}
_NO_POLICY = "That is no policy yet; docs/policy.md shows one."
_NO_YAML = (
    "That is no YAML: mend that line or the one before it, then ask again. Often a "
    "bracket or a quote is not closed, or there is a tab."
)
_SYNTAX = re.compile(r"line \d+(, column \d+)?: ")
_VARIABLE = re.compile(r": environment variable (\S+) is not set")


def tell(
    file: Path,
    error: PolicyError,
    out: TextIO,
    err: TextIO,
    *,
    page: str = "docs/policy.md",
) -> None:
    """
    Print each of the *error*'s problems with *file*, then how many there are.

    Args:
        file: The policy, or a file of prices.
        error: What is wrong with it.
        out: For the problems, a line each.
        err: For the rest.
        page: Where its fields are explained.
    """
    for problem in error.problems:
        whole = problem.startswith(_WHOLE)
        print(f"{file}: {problem.removeprefix(_WHOLE)}" if whole else problem, file=out)
    out.flush()
    if (hint := _of_all(error.problems)) is not None:
        print(hint, file=err)
        return
    count = len(error.problems)
    problems = "1 problem" if count == 1 else f"{count} problems"
    print(f"{file}: {problems}. {page} has every field.", file=err)
    if names := _unset(error.problems):
        print(
            f"Set {', '.join(names)} before this command is run, as by export; "
            "`tokenweir check --without-secrets` does without.",
            file=err,
        )


def _of_all(problems: Sequence[str]) -> str | None:
    """Return what to do if *problems* are of the file as such, or None."""
    if any(_SYNTAX.match(problem) for problem in problems):
        return _NO_YAML
    if not all(problem.startswith(_WHOLE) for problem in problems):
        return None
    hints = (hint for cause, hint in _HINTS.items() if cause in problems[0])
    return next(hints, _NO_POLICY)


def _unset(problems: Sequence[str]) -> list[str]:
    """Return the variables that are not set, each once."""
    found = (_VARIABLE.search(problem) for problem in problems)
    return list(dict.fromkeys(match[1] for match in found if match))
