"""What is wrong with a policy file, as every command tells it."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from tokenweir.core.errors import PolicyError

# How a problem begins that is no value's, but the file's.
_WHOLE = "policy: "


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
    if all(problem.startswith(_WHOLE) for problem in error.problems):
        print(f"{file} is no policy yet; docs/policy.md shows one.", file=err)
        return
    count = len(error.problems)
    problems = "1 problem" if count == 1 else f"{count} problems"
    print(f"{file}: {problems}. {page} has every field.", file=err)
