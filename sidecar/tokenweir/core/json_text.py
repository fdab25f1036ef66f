"""
JSON that others wrote.

Two readers, since the two directions differ. A request decides what is charged,
so it must mean the same to us and to every provider: `parse_object` refuses
whatever parsers disagree on. A response goes on to the client whatever we make
of it, so `read_value` takes what can be understood.

Strictness is checked on the text's outline, which is the text without its
strings: what is left are brackets, colons, commas and numbers. All of it is
done by searching and replacing, so a long prompt costs what copying it costs.

A large body is read in a thread, and a single call into C keeps the interpreter
from all others. So the outline is made window by window, and what makes the parser
slow (values, not bytes) is counted before it begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import msgspec

from tokenweir.core.errors import MalformedRequestError

# Nested deeper than any request of these APIs; far below where parsers in
# whatever language recurse too deep.
MAX_DEPTH = 128

# Strings and containers in one request, names included. Hundreds of tools or thousands
# of messages have some ten thousand. To read so many takes a quarter of a second.
MAX_VALUES = 150_000

# Members and elements in one request, so that numbers count too.
MAX_ELEMENTS = 500_000

# The same of one reply, or of one event of it. Above it there are thousands of
# probabilities, and nobody here reads those.
MAX_REPLY_VALUES = 20_000
MAX_REPLY_ELEMENTS = 200_000

# 10 ms, if all of it is escapes.
_WINDOW_BYTES = 1024 * 1024

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_POSITION = re.compile(r"\(byte \d+\)")


def parse_object(body: bytes) -> dict[str, Any]:
    """
    Return the object that *body* is.

    Refused, besides what is no JSON: a byte-order mark, other encodings than
    UTF-8, half surrogate pairs, NaN and infinities, numbers that no float
    holds, names that occur twice in one object, nesting above `MAX_DEPTH`,
    more than `MAX_VALUES` or `MAX_ELEMENTS`, anything but an object.

    Raises:
        MalformedRequestError: With a message that quotes nothing of *body*.
    """
    outline = _outline(body)
    _check_values(outline)
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedRequestError(_complaint(error)) from None
    if not isinstance(value, dict):
        raise MalformedRequestError("The body must be a JSON object.")
    if outline.count(b":") != _count_members(value):
        raise MalformedRequestError("A name occurs twice in one JSON object.")
    return value


def read_value(text: bytes) -> Any:
    """
    Return what *text* says, or None if it can't be understood.

    Broken UTF-8 is replaced. NaN and infinities, which some providers write as
    log probabilities, are None; numbers that no float holds are infinite. More
    than `MAX_REPLY_VALUES` or `MAX_REPLY_ELEMENTS` are not understood.
    """
    if len(text) > MAX_REPLY_VALUES and _is_too_much(text):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _read_tolerantly(text)


def write_value(value: object) -> bytes:
    """Write *value* as JSON; what UTF-8 can't hold is replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _read_tolerantly(text: bytes) -> Any:
    decoded = text.decode("utf-8", "replace")
    try:
        return json.loads(decoded, parse_constant=_nothing, strict=False)
    except (ValueError, RecursionError):
        return None


def _is_too_much(text: bytes) -> bool:
    """Tell if *text* holds too many values, or what looks like them in strings."""
    quotes = text.count(b'"') - text.count(rb"\"")
    values = quotes // 2 + text.count(b"{") + text.count(b"[")
    return values > MAX_REPLY_VALUES or text.count(b",") > MAX_REPLY_ELEMENTS


def _nothing(_constant: str) -> None:
    return None


def _outline(body: bytes) -> bytes:
    outside: list[bytes] = []
    in_string, quotes_left = 0, 2 * MAX_VALUES + 1
    for window in _windows(body):
        pieces = _without_escapes(window).split(b'"', quotes_left)
        quotes_left -= len(pieces) - 1
        if not quotes_left:
            raise MalformedRequestError("The body holds too many values.")
        outside += pieces[in_string::2]
        in_string ^= (len(pieces) - 1) % 2
    return b"".join(outside)


def _windows(body: bytes) -> Iterator[bytes]:
    """Cut *body*, but no escape."""
    start = 0
    while start < len(body):
        window = body[start : start + _WINDOW_BYTES]
        if (len(window) - len(window.rstrip(b"\\"))) % 2:
            window = body[start : start + _WINDOW_BYTES + 1]
        yield window
        start += len(window)


def _without_escapes(window: bytes) -> bytes:
    if b"\\" not in window:  # to look for one costs a thirtieth of replacing none
        return window
    # Pairs first: the backslash that then stands before a quote escapes it.
    return window.replace(rb"\\", b"").replace(rb"\"", b"")


def _check_values(outline: bytes) -> None:
    brackets = outline.translate(None, _NOT_BRACKETS)
    if len(brackets) // 2 > MAX_VALUES or outline.count(b",") > MAX_ELEMENTS:
        raise MalformedRequestError("The body holds too many values.")
    if (
        len(brackets) > MAX_DEPTH
        and max(accumulate(map(_STEPS.__getitem__, brackets))) > MAX_DEPTH
    ):
        raise MalformedRequestError(f"The body is nested above {MAX_DEPTH} levels.")


def _count_members(value: Any) -> int:
    members = 0
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if type(node) is dict:
            members += len(node)
            waiting.extend(node.values())
        elif type(node) is list:
            waiting.extend(node)
    return members


def _complaint(error: Exception) -> str:
    where = _POSITION.search(str(error))
    return f"The body is not valid JSON{f' {where[0]}' if where else ''}."
