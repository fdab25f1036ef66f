"""An encoded request is what its headers say, whole and in bounds, or it is none."""

from __future__ import annotations

import contextlib
import gzip
import random
import tracemalloc
from collections.abc import Callable

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.codings.encoders import ENCODERS, zstandard
from tests.examples import head
from tests.wire import chat
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.events import Headers
from tokenweir.core.rejection import BodyTooLarge, EncodingNotMetered, Malformed
from tokenweir.core.request_coding import (
    FREE_BYTES,
    MAX_RATIO,
    MAX_STREAMS,
    content_encoding,
    decoded,
    unreadable,
)

BODY = chat(messages=[{"role": "user", "content": "Tell me a story."}])
LIMIT = 4 * 1024 * 1024
encodings = pytest.mark.parametrize(
    ("header", "encode"), ENCODERS.values(), ids=ENCODERS
)
Encode = Callable[[bytes], bytes]


def coded(*values: str) -> Headers:
    """Return headers that say how a body is encoded."""
    return tuple(("content-encoding", value) for value in values)


def typed(*values: str) -> Headers:
    """Return headers that say what a body is."""
    return tuple(("content-type", value) for value in values)


@encodings
def test_what_was_meant(header: str, encode: Encode) -> None:
    """A body means what it would without its coding."""
    assert unreadable(head(headers=coded(header))) is None
    assert decoded(encode(BODY), header, LIMIT) == BODY


@given(st.sampled_from([*ENCODERS.values()]), st.binary(max_size=300))
def test_any_body(coding: tuple[str, Encode], body: bytes) -> None:
    """Whatever was encoded comes back, even if it's no request."""
    header, encode = coding
    body = b"{" + body  # a body that is gzip in itself is as good as another

    assert decoded(encode(body), header, LIMIT) == body


@given(st.sampled_from(["gzip", "deflate", "br", "zstd"]), st.binary(max_size=300))
def test_nothing_else_is_raised(header: str, body: bytes) -> None:
    """No bytes whatever raise anything else."""
    for start in (b"", b"\x1f\x8b\x08", b"\x78\x9c", b"\x28\xb5\x2f\xfd"):
        with contextlib.suppress(MalformedRequestError):
            decoded(start + body, header, 1_000)


@encodings
def test_the_limit(header: str, encode: Encode) -> None:
    """The limit of bodies is exact, and is for what was meant."""
    whole = encode(BODY)

    assert decoded(whole, header, len(BODY)) == BODY
    assert decoded(whole, header, len(BODY) - 1) == BodyTooLarge(len(BODY) - 1)


@encodings
def test_what_is_not_whole(header: str, encode: Encode) -> None:
    """What breaks off, goes on behind its end, or isn't there at all is refused."""
    whole = encode(BODY)

    for body in (whole[:-1], whole[: len(whole) // 2], whole + b"\0", b"", b"\0" * 50):
        with pytest.raises(MalformedRequestError) as told:
            decoded(body, header, LIMIT)
        assert "content-encoding says" in told.value.message


@pytest.mark.parametrize("header", ["gzip", "deflate", "br", "zstd", "gzip, br"])
@pytest.mark.parametrize(
    "before", [b"", b" \r\n\t", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff\0", b"\0"]
)
def test_what_some_servers_read_as_it_is(header: str, before: bytes) -> None:
    """
    What looks like JSON is refused before it is decoded: a stream may be both, and a
    server that overlooks the header would answer what nobody has metered.
    """
    with pytest.raises(MalformedRequestError, match="not encoded"):
        decoded(before + BODY, header, LIMIT)


def test_what_looks_like_json_inside() -> None:
    """The same holds for what is under the first coding."""
    with pytest.raises(MalformedRequestError, match="not encoded"):
        decoded(gzip.compress(BODY), "deflate, gzip", LIMIT)


@pytest.mark.parametrize("encode", [gzip.compress, brotli.compress, zstandard])
def test_bombs(encode: Encode) -> None:
    """What is large is told so; what only became large is told that."""
    header = {gzip.compress: "gzip", brotli.compress: "br"}.get(encode, "zstd")
    bomb = encode(b"a" * 32 * 1024 * 1024)
    twice = encode(bomb)

    tracemalloc.start()
    with pytest.raises(MalformedRequestError, match=f"{MAX_RATIO} times"):
        decoded(bomb, header, 64 * 1024 * 1024)
    with pytest.raises(MalformedRequestError, match=f"{MAX_RATIO} times"):
        decoded(twice, f"{header}, {header}", 64 * 1024 * 1024)
    assert decoded(bomb, header, FREE_BYTES) == BodyTooLarge(FREE_BYTES)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 10 * 1024 * 1024


def test_the_ratio() -> None:
    """It is of the body as it came, and a megabyte is free."""
    free = gzip.compress(b"a" * FREE_BYTES)
    above = gzip.compress(b"a" * (FREE_BYTES + 1))
    noise = random.Random(3).randbytes(30_000)
    noisy = gzip.compress(noise) + gzip.compress(b"a" * 2 * FREE_BYTES)

    assert decoded(free, "gzip", LIMIT) == b"a" * FREE_BYTES
    with pytest.raises(MalformedRequestError):
        decoded(above, "gzip", LIMIT)
    assert decoded(noisy, "gzip", LIMIT) == noise + b"a" * 2 * FREE_BYTES


@pytest.mark.parametrize("encode", [gzip.compress, zstandard])
def test_too_many_parts(encode: Encode) -> None:
    """A body of empty members or frames takes no longer than another."""
    header = "gzip" if encode is gzip.compress else "zstd"
    some = encode(b"") * (MAX_STREAMS - 1) + encode(BODY)

    assert decoded(some, header, LIMIT) == BODY
    with pytest.raises(MalformedRequestError, match="too many"):
        decoded(encode(b"") * 2 * MAX_STREAMS + encode(BODY), header, LIMIT)


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ((), ""),
        (("",), ""),
        (("identity",), ""),
        ((" Identity ,", ""), ""),
        (("gzip",), "gzip"),
        (("identity", "gzip"), "identity, gzip"),
        (("gzip", "br"), "gzip, br"),
    ],
)
def test_what_headers_say(values: tuple[str, ...], encoding: str) -> None:
    """A header that comes twice is one list; what changes nothing is no coding."""
    assert content_encoding(coded(*values)) == encoding


@pytest.mark.parametrize(
    "values", [("x",), ("gzip", "x"), ("",) * 9 + ("aws-chunked",)]
)
def test_codings_that_nobody_knows(values: tuple[str, ...]) -> None:
    """They are told by the head already."""
    found = unreadable(head(headers=coded(*values)))

    assert isinstance(found, EncodingNotMetered)
    assert values[-1] in found.encoding


def test_no_body() -> None:
    """A head that says that it is all is told so, whatever else it says."""
    assert isinstance(unreadable(head(headers=coded("x"), ended=True)), Malformed)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "application/json",
        "application/json; charset=utf-8",
        'application/json;CHARSET="UTF-8"',
        "text/plain; charset=us-ascii; x=y",
        "application/json ; charset = iso-8859-1",
        "application/x-charset=utf-7",
        "not a type",
    ],
)
def test_charsets_that_hide_nothing(value: str) -> None:
    """Whatever the type, its charset is UTF-8 or reads the same quotes."""
    assert unreadable(head(headers=typed(value))) is None


@pytest.mark.parametrize(
    "values",
    [
        ("application/json; charset=utf-7",),
        ("application/json;charset=UTF-16LE",),
        ('application/json; x="y"; charset="shift_jis"',),
        ("application/json; charset=utf-8; charset=utf-7",),
        ("application/json", "application/json; charset=utf-32"),
        ("application/json; charset=",),
    ],
)
def test_charsets_that_hide_something(values: tuple[str, ...]) -> None:
    """A server that goes by such a charset reads another request than we do."""
    found = unreadable(head(headers=typed(*values)))

    assert isinstance(found, Malformed)
    assert "UTF-8" in found.message


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=b", "a, Multipart/x"])
def test_forms_are_sent_plain(kind: str) -> None:
    """A coded stream may hold another form as it is, behind the boundary of the type."""
    found = unreadable(head(headers=(*typed(kind), *coded("br"))))

    assert isinstance(found, Malformed)
    assert "form" in found.message
    assert unreadable(head(headers=(*typed(kind), *coded("identity")))) is None
    assert unreadable(head(headers=typed(kind))) is None
