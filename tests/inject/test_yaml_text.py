"""Values mean after reading and writing what they meant before."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.inject.yaml_text import Verbatim, YamlError, read, written

TEXTS = [
    "yes", "no", "on", "off", "y", "n", "true", "False", "null", "~", "", "1", "0644",
    "0o17", "0x1F", "1e3", "1.5", "-1", "+1", ".5", ".inf", ".nan", "1_000", "12:30",
    "2024-01-01", "=", "<<", "-", "--", "-inf", "NaN", "a: b", "# no", "x #y", "@x", "%x",
    "&a", "*a", "!t", "[x]", "{x}", "a\nb\n", "a\n\n", " x ", "\ttab", "quote\"'", "ü €",
    "\U0001f600", "\u2028", "\x07", "---", "...", "a\rb", "? x", ": x", "key:", "|", ">",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_text_stays_text(text: str) -> None:
    """What was in quotes is text to every reader, also to one of YAML 1.1."""
    source = json.dumps({"a": text})
    (document,) = read(source)
    out = written([document])

    assert list(read(out)) == [{"a": text}]
    assert yaml.safe_load(out) == {"a": text}


@given(st.text(), st.text())
def test_any_text(key: str, text: str) -> None:
    """Whatever it is, as a key too."""
    out = written([{key: text}])

    assert yaml.safe_load(out) == {key: text}
    assert list(read(out)) == [{key: text}]


@pytest.mark.parametrize(
    "plain",
    [
        "0644",
        "0o644",
        "0x1F",
        "1e3",
        "1.50",
        ".5",
        "1_000",
        "12:30",
        "2024-01-01",
        "yes",
        "Off",
        "y",
        ".inf",
        "=",
        "words",
        "x-y",
    ],
)
def test_what_is_plain_stays_as_it_stands(plain: str) -> None:
    """Readers differ about it: whichever comes next shall read what was written."""
    (document,) = read(f"a: {plain}\n")

    assert isinstance(document["a"], Verbatim)
    assert written([document]) == f"a: {plain}\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30", 30),
        ("-5", -5),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("!!str 5", "5"),
        ("!!str yes", "yes"),
        ("|-\n  a\n  b", "a\nb"),
    ],
)
def test_values(text: str, value: object) -> None:
    """What no two readers differ about is that value."""
    (document,) = read(f"a: {text}\n")

    assert document["a"] == value
    assert type(document["a"]) is type(value)
    assert list(read(written([document]))) == [{"a": value}]


def test_documents() -> None:
    """There may be several; order of keys is kept, anchors are written out."""
    text = "b: &x {c: 1}\na: *x\n---\n---\n- 1\n"
    documents = list(read(text))

    assert documents == [{"b": {"c": 1}, "a": {"c": 1}}, None, [1]]
    out = written([documents[0], documents[2]])
    assert out == "b:\n  c: 1\na:\n  c: 1\n---\n- 1\n"


def test_long_text_is_not_folded() -> None:
    """A line stays a line, as in an annotation that people look at."""
    text = "word " * 100 + "end"

    assert written([{"a": text}]) == f"a: {text}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1", "line 1, column 6: expected"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed here"),
        ("a: *x", "line 1, column 4: found undefined alias"),
        ("!!python/object:os.system {}", "line 1, column 1: could not determine"),
        ("\x00", "is no YAML"),
        ("[" * 700, "is no YAML"),
    ],
)
def test_what_is_none(text: str, told: str) -> None:
    """It says where, as far as that is known, and runs nothing."""
    with pytest.raises(YamlError) as caught:
        list(read(text))

    assert str(caught.value).startswith(told)


def test_binary() -> None:
    """What is said to be bytes stays so."""
    documents: list[Any] = list(read("a: !!binary aGVsbG8=\n"))

    assert documents == [{"a": b"hello"}]
    assert list(read(written(documents))) == documents


def test_half_a_pair_of_surrogates() -> None:
    """It is no text, so there is a mark in its place."""
    assert list(read('a: "x\\ud83d"')) == [{"a": "x\ufffd"}]
