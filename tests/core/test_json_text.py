"""Requests are read strictly, responses as far as they can be understood."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core import json_text
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.json_text import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_REPLY_ELEMENTS,
    MAX_REPLY_VALUES,
    MAX_VALUES,
    parse_object,
    read_value,
    write_value,
)

# What must not show up in what the client is told, let alone in a log.
CANARY = "sk-CANARY"
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def nested(depth: int) -> bytes:
    """Return an object that is nested *depth* levels."""
    return b'{"a":' * depth + b"1" + b"}" * depth


@given(st.dictionaries(st.text(), VALUES), st.booleans(), st.sampled_from([None, 1]))
def test_reads_what_json_is(
    members: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    """Every object is read as it was meant, whatever its spelling."""
    body = json.dumps(members, ensure_ascii=ascii_only, indent=indent).encode()

    assert parse_object(body) == members


@pytest.mark.parametrize(
    "body",
    [
        rb'{"a":"\"{[\\"}',
        rb'{"a":"\\\\\"","b":{"c":"}:,"}}',
        b'{"a":{"a":[{"a":1},{"a":2}]}}',
        b'{"a":1e5,"b":1.0,"c":-0,"d":123456789012345678901234567890}',
        '{"é":"\u2028\x85","\U0001f600":1}'.encode(),
        b" \t\r\n{} \n",
        nested(MAX_DEPTH),
        b'{"a":[' + b"[]," * 500 + b"{}]}",
    ],
)
def test_takes_what_is_unusual(body: bytes) -> None:
    """Quotes and brackets in strings, equal names in different objects are fine."""
    assert parse_object(body) == json.loads(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"\\u0061":2}',
        b'{"model":"x","messages":[{"role":"user","role":"system"}]}',
        b'{"ignored":[[{"x":{"a":1,"b":2,"a":1}}]]}',
        b'{"":1,"":1}',
    ],
)
def test_name_that_occurs_twice(body: bytes) -> None:
    """Parsers disagree on which of two equal names counts: both are refused."""
    with pytest.raises(MalformedRequestError, match="twice"):
        parse_object(body)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 20_000,
        b'{"a":' * 20_000,
        nested(MAX_DEPTH + 1),
        b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b',"model":"m"}',
        b'{"tools":' + nested(1_000) + b"}",
        b'{"a":"\\"' + b"[" * 200 + b'","b":' + b"[" * 200 + b"]" * 200 + b"}",
    ],
)
def test_deep_nesting(body: bytes) -> None:
    """Deep nesting is refused, also where nobody would look."""
    with pytest.raises(MalformedRequestError, match=f"nested above {MAX_DEPTH}"):
        parse_object(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[' + b'"",' * MAX_VALUES + b'""]}',
        b'{"a":[' + b"[]," * MAX_VALUES + b"[]]}",
        b"[" * 3 * MAX_VALUES,
        b'{"a":[' + b"1," * MAX_ELEMENTS + b"1,1]}",
        b'{"a":["' + b'\\"' * 3_000_000 + b'",' + b'"",' * MAX_VALUES + b'""]}',
    ],
    ids=["strings", "containers", "depth", "numbers", "behind escapes"],
)
def test_flood_of_values(body: bytes) -> None:
    """A body that would take a hundred times its size is refused unparsed."""
    with pytest.raises(MalformedRequestError, match="too many values"):
        parse_object(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"x",
        b"{",
        b'{"a"}',
        b'{"a":1,}',
        b"{'a':1}",
        b'{"a":01}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1e400}',
        b'{"a":' + b"9" * 5_000 + b"}",
        b'{"a":"\xff"}',
        b'{"\xff":1}',
        b'{"a":"\xed\xa0\x80"}',
        rb'{"a":"\ud800"}',
        rb'{"a":"\udc00x"}',
        b'{"a":"\n"}',
        b'{"a":1} x',
        b'{"a":1}{}',
        b'{"a":1}\x00',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        '{"a":1}'.encode("utf-16-le"),
        '{"a":1}'.encode("utf-32"),
        b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nwhisper\r\n--x--',
        b"]" * 200,
        b'{"a":1' + b"]" * 200,
        b"{" * 100 + b'"',
        rb'\"[{"a":1}]',
    ],
)
def test_no_valid_json(body: bytes) -> None:
    """Whatever a provider could read otherwise, or not at all, is refused."""
    with pytest.raises(MalformedRequestError, match="not valid JSON"):
        parse_object(body)


@pytest.mark.parametrize("body", [b"[]", b'["a"]', b'"a"', b"1", b"null", b"true"])
def test_no_object(body: bytes) -> None:
    """A request is an object."""
    with pytest.raises(MalformedRequestError, match="must be a JSON object"):
        parse_object(body)


def test_tells_where() -> None:
    """The message tells the place of a mistake."""
    with pytest.raises(MalformedRequestError, match=r"\(byte 8\)") as caught:
        parse_object(b'{"a": 1 "b": 2}')

    assert caught.value.param is None


@given(
    st.binary(max_size=60)
    | st.text(alphabet='{}[]:,"\\u0aeinflrstNI19.-+ ').map(str.encode)
)
def test_nothing_else_is_raised(body: bytes) -> None:
    """Nonsense is refused as malformed, never by another exception, nor quoted."""
    try:
        parse_object(b'{"sk-CANARY":"sk-CANARY",' + body)
    except MalformedRequestError as error:
        assert CANARY not in error.message  # noqa: PT017 - most of it is nonsense


@given(st.dictionaries(st.text(max_size=3), VALUES), st.data())
def test_agrees_with_json(members: dict[str, Any], data: st.DataObject) -> None:
    """What is taken after a mutation means the same to Python's own reader."""
    body = bytearray(json.dumps(members).encode())
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.sampled_from(b'{}[]:,"\\ 0e'))
    try:
        read = parse_object(bytes(body))
    except MalformedRequestError:
        return

    assert read == json.loads(body)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":[1,"x",null,1.5]}', {"a": [1, "x", None, 1.5]}),
        (b'{"logprob":-Infinity,"p":NaN,"usage":{"n":1}}', {"logprob": None, "p": None, "usage": {"n": 1}}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":"\xff\xe2"}', {"a": "\ufffd\ufffd"}),
        (rb'{"a":"\ud800"}', {"a": "\ud800"}),
        (b'{"a":"x\ny"}', {"a": "x\ny"}),
        (b"7", 7),
    ],
)  # fmt: skip
def test_reads_what_can_be_understood(text: bytes, value: object) -> None:
    """A response is read in spite of what strict readers refuse."""
    assert read_value(text) == value


def test_reads_numbers_that_no_float_holds() -> None:
    """A number that is too large is infinite, which is no figure."""
    assert read_value(b'{"a":1e400,"b":1}') == {"a": math.inf, "b": 1}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[DONE]",
        b": ping",
        b'{"a":',
        b"<html>",
        b"[" * 100_000,
        nested(10_000),
        b"[" + b"9" * 5_000 + b"]",
        b"[" + b"{}," * MAX_REPLY_VALUES + b"{}]",
        b"[" + b'"",' * 2 * MAX_REPLY_VALUES + b'""]',
        b"[" + b"1," * MAX_REPLY_ELEMENTS + b"1,1]",
    ],
)  # fmt: skip
def test_reads_nothing(text: bytes) -> None:
    """What can't be understood is None, be it nonsense, too deep or too much."""
    assert read_value(text) is None


def test_reads_much_text() -> None:
    """A long text is no flood of values."""
    quoted = rb"\"" * 2 * MAX_REPLY_VALUES

    assert read_value(b'"' + b"x" * MAX_VALUES + b'"') == "x" * MAX_VALUES
    assert read_value(b'"' + quoted + b'"') == '"' * 2 * MAX_REPLY_VALUES


@pytest.mark.parametrize("window_bytes", range(1, 12))
@pytest.mark.parametrize(
    "body",
    [
        rb'{"a":"\\\\","b":"\\\"[","c\"":{"d":"\\"}}',
        rb'{"\\":"\"","\\\"":"\u0022","x":[{"\n":"]"},"\\n"]}',
        b'{"model":"m","messages":[{"role":"user","content":"x"}]}',
    ],
)
def test_windows(
    monkeypatch: pytest.MonkeyPatch, body: bytes, window_bytes: int
) -> None:
    """Wherever a window of a large body ends, no escape and no string is cut."""
    monkeypatch.setattr(json_text, "_WINDOW_BYTES", window_bytes)

    assert parse_object(body) == json.loads(body)
    assert len(list(json_text._windows(body))) > 1
    assert b"".join(json_text._windows(body)) == body


@pytest.mark.parametrize("window_bytes", range(1, 12))
def test_twice_across_windows(
    monkeypatch: pytest.MonkeyPatch, window_bytes: int
) -> None:
    """A name that occurs twice is found in whichever windows it stands."""
    monkeypatch.setattr(json_text, "_WINDOW_BYTES", window_bytes)

    with pytest.raises(MalformedRequestError, match="twice"):
        parse_object(rb'{"\"a\\":1,"b":"\\","\"a\\":2}')


@given(st.binary(max_size=60))
def test_reading_never_raises(text: bytes) -> None:
    """No bytes whatever make reading a response raise."""
    read_value(text)


@given(VALUES)
def test_writes_json(value: object) -> None:
    """What is written is read again as the same."""
    assert json.loads(write_value(value)) == value


def test_writes_what_utf8_can_not_hold() -> None:
    """Half a surrogate pair, from a header maybe, spoils no answer."""
    assert write_value({"é": "\udcff"}) == '{"é":"?"}'.encode()
