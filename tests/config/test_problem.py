"""Problems become lines that a person can act on, and a terminal can show."""

from __future__ import annotations

from tokenweir.config.problem import MAX_PROBLEMS, NO_VALUE, Problem, listed, shown


def test_a_problem_is_one_line() -> None:
    """Path, text and line; the document's root has a word of its own."""
    assert str(Problem(("a", 0, "b.c"), "is wrong", 7)) == "a.0.b.c: is wrong (line 7)"
    assert str(Problem((), "is empty")) == "policy: is empty"


def test_a_key_cannot_write_into_a_terminal() -> None:
    """Control characters are escaped, and what is too long is cut."""
    assert shown("a\x1b[31m\nb") == "a\\x1b[31m\\nb"
    assert shown("x" * 100) == "x" * 80 + "…"
    assert shown("x" * 80) == "x" * 80
    assert shown(3) == "3"


def test_problems_come_in_the_files_order() -> None:
    """By line; those of one line stay as they were found."""
    found = [
        Problem(("c",), "3", 9),
        Problem(("b",), "2", 1),
        Problem(("a",), "1", 1),
    ]

    assert listed(found) == ("b: 2 (line 1)", "a: 1 (line 1)", "c: 3 (line 9)")


def test_consequences_are_left_out() -> None:
    """Of a path only the first is told, and none if something inside has no value."""
    found = [
        Problem(("a", "b"), NO_VALUE),
        Problem(("a", "b"), "is missing"),
        Problem(("a",), "has too little"),
        Problem(("ab",), "is another"),
        Problem(("ab", "c"), "is wrong too"),
    ]

    assert listed(found) == (
        f"a.b: {NO_VALUE}",
        "ab: is another",
        "ab.c: is wrong too",
    )


def test_a_flood_is_cut() -> None:
    """Nobody reads more than some hundred lines, but their number is told."""
    lines = listed(Problem((index,), "is wrong") for index in range(MAX_PROBLEMS + 3))

    assert len(lines) == MAX_PROBLEMS + 1
    assert lines[-1] == "policy: has 3 more problems"
    assert len(listed(Problem((i,), "") for i in range(MAX_PROBLEMS))) == MAX_PROBLEMS
