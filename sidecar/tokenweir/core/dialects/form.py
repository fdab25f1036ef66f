"""
Forms with files (RFC 7578), which OpenAI's APIs of sound and pictures take.

The boundary is taken from the body, which begins with it. A form whose end is missing
is refused: of a part nobody knows what else is in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenweir.core.dialects.media import HEAD_BYTES
from tokenweir.core.errors import MalformedRequestError

# More parts are no request: OpenAI takes sixteen pictures.
_MAX_PARTS = 256
_BOUNDARY = re.compile(rb"--[^\r\n]{1,70}(?=\r\n)")
_NAME = re.compile(rb'\bname="([^"\r\n]{1,64})"', re.IGNORECASE)
_FILE = re.compile(rb"\bfilename\*?=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """
    One field of a form.

    Attributes:
        name: Without the brackets of an array.
        start: Where its value begins in the body.
        end: Where that ends.
        is_file: It is one, and no text.
    """

    name: str
    start: int
    end: int
    is_file: bool


def is_form(body: bytes) -> bool:
    """Tell if *body* begins as a form does; no JSON does."""
    return body.startswith(b"--")


def parts_of(body: bytes) -> list[Part]:
    """Return the fields of the form *body*. Raises: MalformedRequestError."""
    begin = _BOUNDARY.match(body)
    if begin is None:
        raise _broken()
    mark = b"\r\n" + begin[0]
    found: list[Part] = []
    at = begin.end()
    while not body.startswith(b"--", at):
        end = body.find(mark, at)
        if end < 0 or len(found) == _MAX_PARTS:
            raise _broken()
        found.append(_part(body, at + 2, end))
        at = end + len(mark)
    return found


def head_of(body: bytes, part: Part) -> bytes:
    """Return the first bytes of a file."""
    return body[part.start : min(part.end, part.start + HEAD_BYTES)]


def text_of(body: bytes, part: Part) -> str:
    """Return the text of a field that is no file."""
    return body[part.start : part.end].decode("utf-8", "replace")


def with_text(body: bytes, name: str, text: str) -> bytes:
    """Return *body*, which was read before, with *text* in the field *name*."""
    for part in reversed(parts_of(body)):
        if part.name == name and not part.is_file:
            body = body[: part.start] + text.encode() + body[part.end :]
    return body


def _part(body: bytes, start: int, end: int) -> Part:
    # A part without headers begins with the empty line itself.
    blank = body.find(b"\r\n\r\n", start - 2, end)
    name = _NAME.search(body, start, max(blank, start))
    if blank < 0 or name is None:
        raise _broken()
    is_file = _FILE.search(body, start, blank) is not None
    plain = name[1].decode("utf-8", "replace").removesuffix("[]")
    return Part(plain, blank + 4, end, is_file)


def _broken() -> MalformedRequestError:
    return MalformedRequestError("The body is no whole multipart form.")
