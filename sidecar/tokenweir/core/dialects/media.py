"""
Parts of a prompt that are no text: only their head and size are looked at.

Base64 is never read as text (a picture would count a hundredfold) and nothing
is ever fetched. What is broken has a size all the same; the provider will say
what is wrong with it.
"""

from __future__ import annotations

import binascii
import re
from urllib.parse import unquote_to_bytes

from tokenweir.core.dialects.base import Media, MediaKind

# Pictures tell their size within so many bytes, long metadata included.
HEAD_BYTES = 48 * 1024

_HEAD_CHARS = HEAD_BYTES // 3 * 4
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOT_BASE64 = bytes(set(range(256)) - set(_ALPHABET))
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")

# RFC 2397: data:[<mediatype>][;base64],<data>. Bounded, since prose may begin so; with
# white space wherever a reader that is lenient lets it be.
_DATA_URL = re.compile(
    r"\s{0,64}data:\s{0,8}(?:[\w.+*-]{1,64}/[\w.+*-]{1,64}\s{0,8})?"
    r"(?:;[^,;]{0,64}){0,8},",
    re.IGNORECASE,
)


def is_data_url(text: str) -> bool:
    """Tell if *text* is a data URL."""
    return _DATA_URL.match(text) is not None


def media_from_url(url: str, kind: MediaKind, detail: str | None = None) -> Media:
    """Return what *url* holds if it is a data URL, else only that there is a part."""
    if not is_data_url(url):
        return Media(kind, detail=detail)
    header, _, data = url.partition(",")
    if "".join(header.split()).lower().endswith(";base64"):
        return media_from_base64(data, kind, detail)
    # An escape is three characters for one byte.
    head = unquote_to_bytes(data[: 3 * HEAD_BYTES])[:HEAD_BYTES]
    size_bytes = max(len(head), len(data) - 2 * data.count("%"))
    return Media(kind, head, size_bytes, detail)


def media_from_base64(data: str, kind: MediaKind, detail: str | None = None) -> Media:
    """Return head and size of the base64 *data*, whichever alphabet it uses."""
    characters = data[:_HEAD_CHARS].encode("ascii", "replace")
    if b"%" in characters:  # "+", "/" and "=", escaped as in any URL
        characters = unquote_to_bytes(characters)
    digits = characters.translate(_FROM_URL_SAFE).translate(None, _NOT_BASE64)
    # Two or three digits at the end hold a byte or two; one holds none.
    whole = digits + b"A" * (-len(digits) % 4)
    head = binascii.a2b_base64(whole)[: len(digits) * 3 // 4]
    size_bytes = (len(data) - data.count("=", max(0, len(data) - 2))) * 3 // 4
    return Media(kind, head, size_bytes, detail)
