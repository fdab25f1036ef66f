"""
What stands before the values of a form: the type of the whole, the headers of a part.

Servers read the same form in different ways where it is unusual: two headers of a kind,
quotes inside of quotes, a name in another header. What is metered must be what the
provider reads, so only what SDKs, curl and browsers write is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from tokenweir.core.errors import MalformedRequestError

# RFC 2046, 5.1.1, but for blanks and commas, which some split at. Some letter or digit
# must be in it: the end of one that is all dashes can't be told.
_BOUNDARY = (
    r"(?=[^;]*[a-z0-9])"
    r"(?:([a-z0-9'+_.-]{1,70})"
    r"""|"([a-z0-9'()+_./:=?-]{1,70})")"""
)
_CHARSET = r'(?: ?; ?charset=(?:utf-8|"utf-8"))?'
_TYPE = re.compile(
    rf"multipart/form-data{_CHARSET} ?; ?boundary={_BOUNDARY}{_CHARSET}",
    re.IGNORECASE | re.ASCII,
)
_MULTIPART = "multipart"
_URL_ENCODED = "x-www-form-urlencoded"

_LINE = re.compile(rb"([A-Za-z-]{1,32}): ?([^\x00-\x1f\x7f]+)")
# Some split at semicolons before they look for quotes. An empty name of a file makes the
# part a text to some, and a file to others.
_DISPOSITION = re.compile(
    rb"form-data; ?name=(?:"
    rb'"(?P<quoted>[A-Za-z0-9_-]{1,64}(?:\[[A-Za-z0-9_-]{0,64}\]){0,4})"'
    rb"|(?P<plain>[A-Za-z0-9_-]{1,64}))"
    rb'(?P<file>; ?filename=(?:"(?! )[^"\\;]{1,1024}"|[A-Za-z0-9_.-]{1,255}))?'
    rb"(?:; ?filename\*=(?i:utf-8)''"
    rb"(?P<coded>(?:[A-Za-z0-9!#$&+.^_`|~-]|%[0-9A-Fa-f]{2})+))?"
)
_TOKEN = rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
# What is multipart or a message in itself has parts of its own to some.
_FILE_TYPE = re.compile(
    rb"(?!(?i:multipart|message)/)TOKEN/TOKEN"
    rb'(?: ?; ?TOKEN=(?:TOKEN|"[^"\\;]*"))*'.replace(b"TOKEN", _TOKEN)
)
_TEXT_TYPE = re.compile(
    rb"(?:text/plain|application/json)"
    rb'(?: ?; ?charset=("?)(?P<charset>utf-8|us-ascii|iso-8859-1)\1)?',
    re.IGNORECASE,
)
_UTF_8 = b"utf-8"
# Others say that the value is written in another way, which some undo.
_AS_IT_IS = frozenset({b"binary", b"8bit", b"7bit"})
_LENGTH = re.compile(rb"[0-9]{1,12}")
_DISPOSITION_NAME = b"content-disposition"
_HEADERS = {
    _DISPOSITION_NAME,
    b"content-type",
    b"content-transfer-encoding",
    b"content-length",
}
# A field by which some choose how the others are decoded (HTML 5).
_CHARSET_NAME = "_charset_"


@dataclass(frozen=True, slots=True)
class PartHead:
    """
    What the headers of a part say.

    Attributes:
        name: Of the field, as it is written.
        is_file: It is one, and no text.
        ascii_only: Only ASCII is the same in its charset as in UTF-8.
        size_bytes: Of the value, or None: not said.
    """

    name: str
    is_file: bool
    ascii_only: bool
    size_bytes: int | None


def boundary_of(content_type: str) -> bytes | None:
    """Return the boundary that *content_type* names, None if it is no form's."""
    match = _TYPE.fullmatch(content_type)
    return (match[1] or match[2]).encode() if match else None


def may_have_parts(content_type: str) -> bool:
    """Tell if a server may read a body of *content_type* in parts."""
    return _MULTIPART in content_type.lower()


def is_like_a_form(content_type: str) -> bool:
    """Tell if a server may read a body of *content_type* as a form of any kind."""
    return may_have_parts(content_type) or _URL_ENCODED in content_type.lower()


def read_head(head: bytes) -> PartHead:
    """
    Read the headers of a part: *head* is without the empty line.

    Raises:
        MalformedRequestError: There are others than are known, or the like.
    """
    values = _values(head)
    told = _DISPOSITION.fullmatch(values.get(_DISPOSITION_NAME, b""))
    if told is None:
        raise _unusual()
    is_file = bool(told["file"] or told["coded"])
    kind = values.get(b"content-type", b"text/plain")
    match = (_FILE_TYPE if is_file else _TEXT_TYPE).fullmatch(kind)
    way = values.get(b"content-transfer-encoding", b"binary").lower()
    length = values.get(b"content-length", b"0")
    name = (told["quoted"] or told["plain"]).decode()
    if (
        match is None
        or way not in _AS_IT_IS
        or not _LENGTH.fullmatch(length)
        or name.lower() == _CHARSET_NAME
        or not _is_utf_8(told["coded"] or b"")
    ):
        raise _unusual()
    charset = None if is_file else match["charset"]
    return PartHead(
        name,
        is_file,
        charset is not None and charset.lower() != _UTF_8,
        int(length) if b"content-length" in values else None,
    )


def _is_utf_8(coded: bytes) -> bool:
    """Tell if *coded* is: otherwise it is no name of a file to some."""
    try:
        unquote_to_bytes(coded).decode()
    except UnicodeDecodeError:
        return False
    return True


def _values(head: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n"):
        match = _LINE.fullmatch(line)
        name = match[1].lower() if match else b""
        if match is None or name not in _HEADERS or name in found:
            raise _unusual()
        found[name] = match[2]
    return found


def _unusual() -> MalformedRequestError:
    return MalformedRequestError(
        "A part of the multipart form has headers that servers read in different ways: "
        "send one content-disposition (form-data, a plain name, a filename without "
        "quotes, backslashes and semicolons), and no others than content-type, "
        "content-length and content-transfer-encoding, once each."
    )
