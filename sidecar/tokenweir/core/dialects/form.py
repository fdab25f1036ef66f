"""
Forms with files (RFC 7578), which OpenAI's APIs of sound and pictures take.

The boundary is the one that the content-type names, and the body begins with it. Nothing
stands before or behind the parts, and nothing in them looks like a boundary: servers
differ in which line ends and blanks they want around one. A form whose end is missing is
refused: of a part nobody knows what else is in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenweir.core.dialects.form_head import boundary_of, is_like_a_form, read_head
from tokenweir.core.dialects.media import HEAD_BYTES
from tokenweir.core.errors import MalformedRequestError

# More parts are no request: OpenAI takes sixteen pictures.
_MAX_PARTS = 256
# Servers have limits on headers as well; these are below all of them.
_MAX_HEAD_BYTES = 2 * 1024
_BOUNDARY = re.compile(rb"--[^\r\n]{1,70}(?=\r\n)")
_LINE_END = b"\r\n"
# SDKs for JavaScript have ended forms by an empty line.
_ENDS = (b"--", b"--\r\n", b"--\r\n\r\n")
_LENGTH_LINE = re.compile(rb"^content-length:[^\r]*\r\n", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """
    One field of a form.

    Attributes:
        name: Without the brackets of an array.
        start: Where its value begins in the body.
        end: Where that ends.
        is_file: It is one, and no text.
        in_brackets: Its name had brackets: it is one of several, or inside of one.
        head: Where its headers begin.
    """

    name: str
    start: int
    end: int
    is_file: bool
    in_brackets: bool = False
    head: int = 0


def is_form(body: bytes) -> bool:
    """Tell if *body* begins as a form does; no JSON does."""
    return body.startswith(b"--")


def check_type(body: bytes, content_type: str) -> None:
    """
    Refuse a *body* that is a form by itself or by its *content_type* alone.

    Raises:
        MalformedRequestError: They differ, in the boundary above all.
    """
    if not is_form(body) and not is_like_a_form(content_type):
        return
    boundary = boundary_of(content_type)
    begin = _BOUNDARY.match(body)
    if boundary is None or begin is None or begin[0] != b"--" + boundary:
        raise MalformedRequestError(
            "A form must have the content-type multipart/form-data, and begin with the "
            "boundary that is named there; what is no form must not have the type of one."
        )


def parts_of(body: bytes) -> list[Part]:
    """
    Return the fields of the form *body*, by the boundary that it begins with.

    Raises: MalformedRequestError.
    """
    begin = _BOUNDARY.match(body)
    if begin is None:
        raise _broken()
    mark = begin[0]
    found: list[Part] = []
    at = begin.end()
    while body.startswith(_LINE_END, at):
        # Whatever looks like a boundary must be one.
        next_mark = body.find(mark, at)
        end = next_mark - len(_LINE_END)
        if next_mark < 0 or len(found) == _MAX_PARTS:
            raise _broken()
        if not body.startswith(_LINE_END, end):
            raise _broken()
        found.append(_part(body, at + len(_LINE_END), end))
        at = next_mark + len(mark)
    if body[at : at + len(_ENDS[-1]) + 1] not in _ENDS:
        raise _broken()
    return found


def head_of(body: bytes, part: Part) -> bytes:
    """Return the first bytes of a file."""
    return body[part.start : min(part.end, part.start + HEAD_BYTES)]


def text_of(body: bytes, part: Part) -> str:
    """Return the text of a field that is no file. Raises: MalformedRequestError."""
    try:
        return body[part.start : part.end].decode()
    except UnicodeDecodeError as error:
        raise MalformedRequestError("A text of the form is not in UTF-8.") from error


def with_text(body: bytes, name: str, text: str) -> bytes:
    """
    Return *body*, which was read before, with *text* in the field *name*.

    Nothing else changes, but that the part does not say a length.
    """
    for part in reversed(parts_of(body)):
        if part.name == name and not part.is_file:
            head = _LENGTH_LINE.sub(b"", body[part.head : part.start])
            body = body[: part.head] + head + text.encode() + body[part.end :]
    return body


def _part(body: bytes, start: int, end: int) -> Part:
    blank = body.find(_LINE_END * 2, start, min(end, start + _MAX_HEAD_BYTES))
    if blank < 0:
        raise _broken()
    head, value = read_head(body[start:blank]), blank + len(_LINE_END * 2)
    if head.size_bytes not in (None, end - value):
        raise _broken()
    if head.ascii_only and not body[value:end].isascii():
        raise MalformedRequestError("A text of the form is not in UTF-8.")
    plain = head.name.removesuffix("[]")
    return Part(plain, value, end, head.is_file, "[" in head.name, start)


def _broken() -> MalformedRequestError:
    return MalformedRequestError("The body is no whole multipart form.")
