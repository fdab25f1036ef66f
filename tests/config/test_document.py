"""YAML is read by the rules of 1.2, with lines, and bounded."""

from __future__ import annotations

import pytest
import yaml

from tokenweir.config import document as module
from tokenweir.config.document import (
    MAX_DEPTH,
    UnreadableDocumentError,
    read_document,
)
from tokenweir.config.problem import Path


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the fast parser and with the one that is always there."""
    monkeypatch.setattr(module, "_PARSER", getattr(yaml, request.param))


def unreadable(text: str | bytes) -> str:
    """Return why *text* can't be read."""
    source = text.encode() if isinstance(text, str) else text
    with pytest.raises(UnreadableDocumentError) as caught:
        read_document(source)
    return caught.value.problem


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x", "x"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("True", True),
        ("false", False),
        ("False", False),
        ("'true'", "true"),
        ("12", 12),
        ("-3", -3),
        ("60_000", 60_000),
        ("1_000_000", 1_000_000),
        ("1__0", "1__0"),
        ("1_0", "1_0"),
        ("0600", "0600"),
        ("0x10", "0x10"),
        ("1:30", "1:30"),
        ("9" * 40, "9" * 40),
        ("1.5", 1.5),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        (".nan", ".nan"),
        ("1e3", "1e3"),
        ("2026-01-01", "2026-01-01"),
        ("! 5", "5"),
        ("!!str 5", "5"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("!!map {a: !!seq [1]}", {"a": [1]}),
        ("{1: a, no: b, ~: c}", {"1": "a", "no": "b", "~": "c"}),
        ("{'<<': 1}", {"<<": 1}),
        ("[null, ~, '']", [None, None, ""]),
    ],
)
def test_scalars_mean_what_they_look_like(text: str, value: object) -> None:
    """No word is a truth value by surprise, no number octal, no key but text."""
    document = read_document(text.encode())

    # Unlike ==, repr tells 1, 1.0 and True apart.
    assert repr(document.value) == repr(value)
    assert document.problems == ()


@pytest.mark.usefixtures("_parser")
def test_an_empty_text_has_no_value() -> None:
    """Neither nothing, nor a comment, nor an empty document is an error yet."""
    assert read_document(b"").value is None
    assert read_document(b"# only this").value is None
    assert read_document(b"--- \n").value is None


@pytest.mark.usefixtures("_parser")
def test_a_key_that_stands_twice() -> None:
    """It is told, with both lines, and the first value counts."""
    document = read_document(b"a:\n  b: 1\n  c: 2\n  b: 3\n")

    assert document.value == {"a": {"b": 1, "c": 2}}
    assert [str(problem) for problem in document.problems] == [
        "a.b: stands twice, first in line 2: remove one (line 4)"
    ]


@pytest.mark.usefixtures("_parser")
def test_a_key_without_value() -> None:
    """It is told, and counts as absent; also for the check for twins."""
    document = read_document(b"a:\nb: ~\na: 1\n")

    assert document.value == {}
    assert [str(problem) for problem in document.problems] == [
        "a: has no value: give it one, or remove it (line 1)",
        "b: has no value: give it one, or remove it (line 2)",
        "a: stands twice, first in line 1: remove one (line 3)",
    ]


@pytest.mark.usefixtures("_parser")
def test_aliases_and_merges() -> None:
    """An alias repeats a value; what a mapping says itself wins over what it merges."""
    document = read_document(
        b"a: &a {x: 1, y: 2}\n"
        b"b: &b {y: 3, z: 4}\n"
        b"c: *a\n"
        b"d: {<<: *a, x: 9}\n"
        b"e: {y: 8, <<: [*b, *a]}\n"
    )

    assert document.value == {
        "a": {"x": 1, "y": 2},
        "b": {"y": 3, "z": 4},
        "c": {"x": 1, "y": 2},
        "d": {"x": 9, "y": 2},
        "e": {"y": 8, "z": 4, "x": 1},
    }
    assert document.line(("e", "z")) == 2
    assert document.line(("e", "y")) == 5


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 0),
        (("a",), 1),
        (("a", "b"), 2),
        (("a", "b", 1), 4),
        (("a", "b", 1, "c"), 5),
        (("a", "b", 2), 2),
        (("a", "b", 9), 2),
        (("a", "b", "x"), 2),
        (("a", 0), 1),
        (("a", "b", 0, "x"), 3),
        (("z",), 0),
    ],
)
def test_lines_of_paths(path: Path, line: int) -> None:
    """A path has its key's line, or that of what is nearest around it."""
    document = read_document(b"a:\n  b:\n    - 1\n    - d: 1\n      c: 2\n")

    assert document.line(path) == line


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\n---\nb: 2", "line 2, column 1: begins a second document; a policy is one"),
        ("a: *x", "line 1, column 4: an alias without an anchor before it"),
        ("a: &x [*x]", "line 1, column 8: an alias inside of what it repeats"),
        ("? [a]\n: b", "line 1, column 3: a key must be text"),
        ("a: !!int 5", "line 1, column 4: has a tag that a policy may not use"),
        ("a: !!python/name:os.system", "line 1, column 4: has a tag that a policy may not use"),
        ("a: !!omap [b: 1]", "line 1, column 4: has a tag that a policy may not use"),
        ("a: {<<: 5}", "line 1, column 5: `<<` takes a mapping, or a list of them"),
        ("a: b\n c: d", "line 2, column 3: mapping values are not allowed"),
        ("a: 1\nb: \x07", "line 2: has a character that YAML does not allow"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(text: str, problem: str) -> None:
    """The reason has its line and column, whichever parser found it."""
    # One parser adds words to the other's.
    assert unreadable(text).startswith(problem)


def test_text_that_is_not_utf8() -> None:
    """The line of the first wrong byte is told."""
    assert unreadable(b"a: 1\nb: \xff\n") == "line 2: not UTF-8 text"


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize("opener", ["[", "{a: ", "- "])
def test_depth_is_bounded(opener: str) -> None:
    """A text of nothing but openers is refused before it is followed down."""
    assert "nested deeper than 32 levels" in unreadable(opener * 900)
    assert read_document(("[" * MAX_DEPTH + "]" * MAX_DEPTH).encode()).value


def test_depth_beyond_the_parsers_own_limit() -> None:
    """What the fast parser itself refuses is a problem like any other."""
    assert unreadable("[" * 100_000).startswith("line 1, column ")


@pytest.mark.usefixtures("_parser")
def test_aliases_are_bounded_as_expanded() -> None:
    """Nine lines that would be a billion values are refused, without expanding them."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        many = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{many}]")

    assert "more than 300000 values" in unreadable("\n".join(lines))


def test_no_text_is_quoted_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow parser's errors quote words of the text: those are left out."""
    monkeypatch.setattr(module, "_PARSER", yaml.SafeLoader)

    assert unreadable("a: !secret!x 5") == (
        "line 1, column 4: found undefined tag handle"
    )
    assert unreadable("a: @secret") == (
        "line 1, column 4: found character '@' that cannot start any token"
    )
