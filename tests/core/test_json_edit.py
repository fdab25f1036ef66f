"""Edits change one member and leave every other byte alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.json_edit import (
    remove_member,
    set_inner_member,
    set_member,
    set_member_at,
)

BLANKS = st.text(alphabet=" \t\n\r", max_size=2)
NAMES = st.sampled_from(["a", "b", "model", "é", 'q"', "stream_options", "\\", ""])
NUMBERS = st.sampled_from(["1", "1.0", "1e5", "-0", "0.10", "12345678901234567890123"])


@st.composite
def texts(draw: st.DrawFn, depth: int = 2) -> str:
    """Return the text of some value, spelled in one of many ways."""
    kinds = ["number", "string", "word"] + (["array", "object"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "number":
            return draw(NUMBERS)
        case "string":
            return json.dumps(
                draw(st.text(max_size=4)), ensure_ascii=draw(st.booleans())
            )
        case "word":
            return draw(st.sampled_from(["true", "false", "null"]))
        case "array":
            return f"[{','.join(draw(st.lists(texts(depth - 1), max_size=2)))}]"
        case _:
            return draw(objects(depth - 1))


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> str:
    """Return the text of some object, with blanks wherever they may be."""
    members = []
    for name in draw(st.lists(NAMES, unique=True, max_size=4)):
        key = json.dumps(name, ensure_ascii=draw(st.booleans()))
        blanks = [draw(BLANKS) for _ in range(4)]
        value = draw(texts(depth))
        members.append(f"{blanks[0]}{key}{blanks[1]}:{blanks[2]}{value}{blanks[3]}")
    return "{" + ",".join(members) + draw(BLANKS) * (not members) + "}"


def is_part(part: bytes, whole: bytes) -> bool:
    """Tell if all bytes of *part* are in *whole*, in their order."""
    rest = iter(whole)
    return all(byte in rest for byte in part)


@given(objects(), NAMES, texts(), BLANKS, BLANKS)
def test_set(text: str, name: str, value: str, before: str, behind: str) -> None:
    """The member has the new value, and no byte of any other member is touched."""
    body = f"{before}{text}{behind}".encode()
    edited = set_member(body, name, value.encode())
    members = json.loads(body)

    assert list(json.loads(edited).items()) == list(
        (members | {name: json.loads(value)}).items()
    )
    assert is_part(value.encode(), edited)
    assert remove_member(edited, name) == remove_member(body, name)


@given(objects(), NAMES, BLANKS)
def test_remove(text: str, name: str, around: str) -> None:
    """The member is gone, and all that is left was there before, in its order."""
    body = f"{around}{text}{around}".encode()
    edited = remove_member(body, name)
    members = json.loads(body)
    left = {key: value for key, value in members.items() if key != name}

    assert list(json.loads(edited).items()) == list(left.items())
    assert is_part(edited, body)
    if name not in members:
        assert edited == body


@pytest.mark.parametrize(
    ("body", "edited"),
    [
        (b"{}", b'{"a":{"b":{"c":5}}}'),
        (b'{"a":null}', b'{"a":{"b":{"c":5}}}'),
        (b'{"a":{"x":1.0}}', b'{"a":{"x":1.0,"b":{"c":5}}}'),
        (b'{"a": {"b" : {"c": 9 , "d":1e5}} }', b'{"a": {"b" : {"c": 5 , "d":1e5}} }'),
    ],
)
def test_set_deeper(body: bytes, edited: bytes) -> None:
    """A member is set wherever it is, and what is not there is made."""
    assert set_member_at(body, ("a", "b", "c"), b"5") == edited


@given(objects(), BLANKS)
def test_set_inner(text: str, around: str) -> None:
    """The inner member is set, and nothing else, in the inner object or outside."""
    body = f"{around}{text}{around}".encode()
    edited = set_inner_member(body, "stream_options", "include_usage", b"true")
    expected = json.loads(body)
    options = expected.get("stream_options")
    inner = options if isinstance(options, dict) else {}
    expected["stream_options"] = inner | {"include_usage": True}

    assert json.loads(edited) == expected
    assert remove_member(edited, "stream_options") == remove_member(
        body, "stream_options"
    )


@pytest.mark.parametrize(
    ("body", "edited"),
    [
        (b"{}", b'{"stream_options":{"include_usage":true}}'),
        (b"{ }", b'{"stream_options":{"include_usage":true} }'),
        (b'{"a":1}', b'{"a":1,"stream_options":{"include_usage":true}}'),
        (b'{"a":1.0\n}\n', b'{"a":1.0,"stream_options":{"include_usage":true}\n}\n'),
        (b'{"stream_options":null}', b'{"stream_options":{"include_usage":true}}'),
        (b'{"stream_options":[1]}', b'{"stream_options":{"include_usage":true}}'),
        (
            b'{"stream_options": {"include_usage" : false, "x":1e5}, "z":0}',
            b'{"stream_options": {"include_usage" : true, "x":1e5}, "z":0}',
        ),
        (
            b'{"stream_options":{"include_usage":null}}',
            b'{"stream_options":{"include_usage":true}}',
        ),
        (
            b'{"stream_options":{"continuous_usage_stats":true}}',
            b'{"stream_options":{"continuous_usage_stats":true,"include_usage":true}}',
        ),
        (
            b'{"stream_\\u006fptions":{ }}',
            b'{"stream_\\u006fptions":{"include_usage":true }}',
        ),
        (
            b'{"a":[{"stream_options":{"x":false}}]}',
            b'{"a":[{"stream_options":{"x":false}}],"stream_options":{"include_usage":true}}',
        ),
    ],
)
def test_asking_for_usage(body: bytes, edited: bytes) -> None:
    """Usage is asked for whatever the options were, or weren't."""
    assert set_inner_member(body, "stream_options", "include_usage", b"true") == edited


@pytest.mark.parametrize(
    ("body", "edited"),
    [
        (b'{"a":1,"b":2,"c":3}', b'{"a":1,"c":3}'),
        (b'{ "b" : 2 , "a" : 1 }', b'{ "a" : 1 }'),
        (b'{"a":1 , "b":2 }', b'{"a":1 }'),
        (b'{ "b":2 }', b"{  }"),
        (b'{"a":1}', b'{"a":1}'),
    ],
)
def test_removing_the_comma(body: bytes, edited: bytes) -> None:
    """One comma goes with the member, wherever it stands."""
    assert remove_member(body, "b") == edited


@pytest.mark.parametrize("growth", [-1, 0, 1, 100_000])
def test_length_of_a_renamed_model(growth: int) -> None:
    """A body grows by just as much as the value that is replaced."""
    body = b'{"model":"gpt-4o-mini", "temperature":1.0}'
    name = "x" * (len("gpt-4o-mini") + growth)

    assert len(set_member(body, "model", f'"{name}"'.encode())) == len(body) + growth


def edits() -> list[Callable[[bytes], bytes]]:
    """Return one of each kind of edit."""
    return [
        lambda body: set_member(body, "a", b"1"),
        lambda body: set_inner_member(body, "a", "b", b"1"),
        lambda body: remove_member(body, "a"),
    ]


@pytest.mark.parametrize("edit", edits())
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"[{}]",
        b'"a"',
        b"{",
        b'{"a":',
        b'{"a":1}}',
        b'{"a":1,"a":1}',
        b'{"a":1,"a":22}',
        b'{"a":1,"b":2,"a":3}',
        b'{"a":1,"\\u0061":3,"b":2}',
        # As long as if the first "a" reached into the second one.
        b'{"a":1,"b":1234,"a":[{"q":1,"zzzzzzz":22}]}',
        b'{"a":' * 100_000,
        '{"a":1}'.encode("utf-16"),
    ],
)
def test_no_object(body: bytes, edit: Callable[[bytes], bytes]) -> None:
    """What is no object, or not to everybody the same one, is malformed."""
    with pytest.raises(MalformedRequestError):
        edit(body)


@given(
    st.binary(max_size=40) | st.text(alphabet='{}[]:,"\\ab1 ').map(str.encode),
    st.data(),
)
def test_nothing_else_is_raised(body: bytes, data: st.DataObject) -> None:
    """Nonsense is malformed, never another exception."""
    edit = data.draw(st.sampled_from(edits()))
    try:
        edited: Any = edit(body)
    except MalformedRequestError:
        return

    assert isinstance(json.loads(edited), dict)
