"""
Request bodies that come encoded.

What is metered must be what the provider reads. So a body is decoded as its headers
say, whole, or it is refused; and one that other servers could read in another way than
we do is refused as well: servers that overlook `content-encoding` read the bytes as they
are, others go by a `charset` that JSON does not have. Forms are not taken encoded at all:
a boundary may stand anywhere in a coded stream.

A few kilobytes can hold a thousand times as much, so what is made of them is bounded by
the limit of bodies and by their own size, and is never held above that.
"""

from __future__ import annotations

import re

from tokenweir.core.content_coding import CODINGS, Bounded, codings_of, is_known
from tokenweir.core.dialects.form_head import may_have_parts
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.events import Headers, RequestHead, header_list
from tokenweir.core.rejection import BodyTooLarge, EncodingNotMetered, Malformed

# A prompt shrinks to a third or a tenth. What shrinks to less says the same again and
# again, and whoever means that has a megabyte for it.
MAX_RATIO = 100
FREE_BYTES = 1024 * 1024

# gzip members and Zstandard frames, one after the other. A writer makes one, or one
# each time that it flushes. Empty ones would take five seconds to read 16 MB of.
MAX_STREAMS = 1_000

_STEP_BYTES = 16 * 1024

# What does not compress is longer under its coding than without.
_OVERHEAD_BYTES = 64 * 1024

# RFC 8259, 8.1: JSON "MUST be encoded using UTF-8". These say so, or tell the same
# structure by the same bytes. Others have bytes that hide a quote, or make one.
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1"})
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?\s*([^\";,\s]*)", re.IGNORECASE)

# What may stand before JSON, in any of its encodings: blanks, a byte-order mark, and
# the other half of UTF-16's characters.
_BEFORE_JSON = b" \t\r\n\xef\xbb\xbf\xfe\xff\0"


def content_encoding(headers: Headers) -> str:
    """Return all that *headers* say of a body's coding; ``""``: it has none."""
    encoding = header_list(headers, "content-encoding")
    return encoding if codings_of(encoding) else ""


def unreadable(head: RequestHead) -> Malformed | EncodingNotMetered | None:
    """Return why the body behind *head* can't be read, if its head tells."""
    if head.ended:
        return Malformed("The request has no body.")
    encoding = header_list(head.headers, "content-encoding").strip()
    if not is_known(encoding):
        return EncodingNotMetered(encoding)
    content_type = header_list(head.headers, "content-type")
    if codings_of(encoding) and may_have_parts(content_type):
        return Malformed(
            "A form can't be metered with a content-encoding: send it plain."
        )
    for charset in _CHARSET.findall(content_type):
        if charset.lower() not in _CHARSETS:
            return Malformed(
                "The content-type has a charset that JSON can't be written in: "
                "send UTF-8."
            )
    return None


def decoded(body: bytes, encoding: str, limit_bytes: int) -> bytes | BodyTooLarge:
    """
    Return what *body* says, which came with the content-encoding *encoding*.

    *encoding* is one that `is_known`. What is above *limit_bytes* is too large.

    Raises:
        MalformedRequestError: It is no such body, or one of an absurd ratio.
    """
    by_ratio = max(FREE_BYTES, MAX_RATIO * len(body))
    codings = codings_of(encoding)
    # RFC 9110, 8.4: they are listed "in the order in which they were applied".
    for under, coding in reversed([*enumerate(codings)]):
        if body.lstrip(_BEFORE_JSON).startswith(b"{"):
            raise MalformedRequestError(
                "The body is not encoded, though its content-encoding says so."
            )
        most = min(limit_bytes, by_ratio) + (_OVERHEAD_BYTES if under else 0)
        made = _made(body, coding, most)
        if made is None and limit_bytes <= by_ratio:
            return BodyTooLarge(limit_bytes)
        if made is None:
            raise MalformedRequestError(
                f"The body decodes to more than {MAX_RATIO} times its size."
            )
        body = made
    return body


def _made(body: bytes, coding: str, most_bytes: int) -> bytes | None:
    """Return what *body* decodes to, or None if that is above *most_bytes*."""
    decoder = Bounded(CODINGS[coding](), most_bytes)
    pieces: list[bytes] = []
    for at in range(0, len(body), _STEP_BYTES):
        pieces.extend(filter(None, decoder.feed(body[at : at + _STEP_BYTES])))
        if decoder.exceeded:
            return None
        if decoder.streams > MAX_STREAMS:
            raise MalformedRequestError("The encoded body has too many parts.")
        if decoder.broken:
            break
    if not decoder.whole:
        raise MalformedRequestError(
            f"The body is no whole {coding} stream, as its content-encoding says."
        )
    return b"".join(pieces)
