"""
What is wrong, and where.

A path's parts come from the file's keys, so they are shown with control
characters escaped and cut: a key can't write into an operator's terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]

# Told at once; a file that is wrong in more places was not written by hand.
MAX_PROBLEMS = 500
_MAX_PART_CHARS = 80
NO_VALUE = "has no value: give it one, or remove it"


@dataclass(frozen=True, slots=True)
class Problem:
    """
    One mistake.

    Attributes:
        path: Keys and list indexes from the document's root; empty: all of it.
        text: What is wrong and what to do. Never repeats the value.
        line: In the file, from 1; 0: not known.
    """

    path: Path
    text: str
    line: int = 0

    def __str__(self) -> str:
        where = ".".join(shown(part) for part in self.path) or "policy"
        line = f" (line {self.line})" if self.line else ""
        return f"{where}: {self.text}{line}"


def shown(part: str | int) -> str:
    """Return a path's *part* as it can be printed anywhere."""
    text = str(part)
    if not text.isprintable():
        text = text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= _MAX_PART_CHARS else text[:_MAX_PART_CHARS] + "…"


def listed(problems: Iterable[Problem]) -> tuple[str, ...]:
    """
    Return *problems* as lines, in the file's order.

    Of a path, only the first is told, and none if something inside of it has no value:
    the others are consequences.
    """
    by_path: dict[Path, Problem] = {}
    for problem in problems:
        by_path.setdefault(problem.path, problem)
    around = {
        path[:length]
        for path, problem in by_path.items()
        if problem.text == NO_VALUE
        for length in range(len(path))
    }
    told = [problem for path, problem in by_path.items() if path not in around]
    told.sort(key=lambda problem: problem.line)
    lines = [str(problem) for problem in told[:MAX_PROBLEMS]]
    if len(told) > MAX_PROBLEMS:
        lines.append(f"policy: has {len(told) - MAX_PROBLEMS} more problems")
    return tuple(lines)
