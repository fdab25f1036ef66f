"""
Edits of a JSON object's members, on its bytes.

Whoever decodes a body and encodes it again changes more than was asked: key
order, `1.0`, `1e5`, escapes, whitespace, duplicates. Here the bytes of one
member are replaced, inserted or left out, and all others stay.

msgspec finds the members: it gives each value's bytes as they are written. The
places follow from the lengths, so long values are never walked through here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tokenweir.core.errors import MalformedRequestError

_BLANK = rb"[ \t\n\r]*"
_KEY = re.compile(
    _BLANK + rb",?" + _BLANK + rb'("(?:[^"\\]|\\.)*+")' + _BLANK + rb":" + _BLANK
)
_CLOSE = re.compile(_BLANK + rb"\}" + _BLANK)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class _Member:
    """Where a member is: its key begins at *start*, its value at *value*."""

    name: str
    start: int
    value: int
    end: int


def set_member(body: bytes, name: str, value: bytes) -> bytes:
    """
    Return *body* with *value*, which is JSON, as its member *name*.

    A new member comes last.

    Raises:
        MalformedRequestError: *body* is no JSON object.
    """
    members = _members(body)
    for member in members:
        if member.name == name:
            return body[: member.value] + value + body[member.end :]
    at = members[-1].end if members else body.index(b"{") + 1
    comma = b"," if members else b""
    return body[:at] + comma + msgspec.json.encode(name) + b":" + value + body[at:]


def set_inner_member(body: bytes, outer: str, name: str, value: bytes) -> bytes:
    """
    Return *body* with *value* as the member *name* of the object *outer*.

    If *outer* is absent or no object, such as null, it becomes one.

    Raises:
        MalformedRequestError: *body* is no JSON object.
    """
    return set_member_at(body, (outer, name), value)


def set_member_at(body: bytes, place: Sequence[str], value: bytes) -> bytes:
    """
    Return *body* with *value* at *place*: the names of objects, and of a member.

    Objects that are absent, or something else, are made.

    Raises:
        MalformedRequestError: *body* is no JSON object.
    """
    name, *rest = place
    if not rest:
        return set_member(body, name, value)
    inner = b"{}"
    for member in _members(body):
        if member.name == name and body.startswith(b"{", member.value):
            inner = body[member.value : member.end]
    return set_member(body, name, set_member_at(inner, rest, value))


def remove_member(body: bytes, name: str) -> bytes:
    """
    Return *body* without its member *name*, and without one comma.

    Raises:
        MalformedRequestError: *body* is no JSON object.
    """
    members = _members(body)
    for position, member in enumerate(members):
        if member.name != name:
            continue
        start, end = member.start, member.end
        if position + 1 < len(members):
            end = members[position + 1].start
        elif position > 0:
            start = members[position - 1].end
        return body[:start] + body[end:]
    return body


def _members(body: bytes) -> list[_Member]:
    try:
        values = _OBJECT.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise MalformedRequestError("The body is not a JSON object.") from None
    members = []
    at = body.index(b"{") + 1
    for name, value in values.items():
        key = _KEY.match(body, at)
        # If a name occurs twice, there are more members than values.
        if key is None or msgspec.json.decode(key[1]) != name:
            break
        at = key.end() + len(memoryview(value))
        members.append(_Member(name, key.start(1), key.end(), at))
    if not _CLOSE.fullmatch(body, at):
        raise MalformedRequestError("A name occurs twice in one JSON object.")
    return members
