"""Of media the head and the size are known, whatever they are written in."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.base import Media, MediaKind
from tokenweir.core.dialects.media import (
    HEAD_BYTES,
    is_data_url,
    media_from_base64,
    media_from_url,
)

IMAGE = MediaKind.IMAGE
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 400


def data_url(data: bytes, kind: str = "image/png") -> str:
    """Return *data* as a URL."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@given(st.binary(max_size=300), st.booleans(), st.booleans())
def test_base64(data: bytes, url_safe: bool, padded: bool) -> None:
    """Both alphabets are read, with padding or without."""
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    text = encode(data).decode()
    text = text if padded else text.rstrip("=")

    assert media_from_base64(text, IMAGE) == Media(IMAGE, data, len(data))


@pytest.mark.parametrize(
    "size_bytes", [HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 90_000]
)
def test_head_is_bounded(size_bytes: int) -> None:
    """Of large media only the head is decoded; the size is that of all of it."""
    data = (PNG + PNG)[:size_bytes]
    media = media_from_url(data_url(data), IMAGE, "low")

    assert media == Media(IMAGE, data[:HEAD_BYTES], size_bytes, "low")


def test_base64_with_line_ends() -> None:
    """Line ends, as MIME writes them, are no data; the size is about right."""
    media = media_from_base64(base64.encodebytes(PNG[:3_000]).decode(), IMAGE)

    assert media.head == PNG[:3_000]
    assert 3_000 <= media.size_bytes < 3_100


@pytest.mark.parametrize("text", ["", "=", "====", "a", "é", "!!!!", "\udcff"])
def test_broken_base64(text: str) -> None:
    """What is no base64 raises nothing."""
    media = media_from_base64(text, IMAGE)

    assert media.head == b""
    assert 0 <= media.size_bytes <= 3


@given(st.text())
def test_nothing_raises(text: str) -> None:
    """No text whatever raises, and no size is below that of the head."""
    for media in (
        media_from_base64(text, IMAGE),
        media_from_url(text, IMAGE),
        media_from_url("data:;base64," + text, IMAGE),
        media_from_url("data:," + text, IMAGE),
    ):
        assert media.size_bytes >= len(media.head)


@pytest.mark.parametrize(
    ("url", "data"),
    [
        ("data:text/plain,a%20b", b"a b"),
        ("data:,abc", b"abc"),
        ("data:text/plain;charset=utf-8,%E9%80%9A", b"\xe9\x80\x9a"),
        ("DATA:image/png;BASE64,YWJj", b"abc"),
        ("data:;base64,YWJj", b"abc"),
        ("data:image/svg+xml;charset=utf-8;base64,YWJj", b"abc"),
    ],
)
def test_data_urls(url: str, data: bytes) -> None:
    """A data URL holds what it says, in base64 or escaped."""
    assert media_from_url(url, IMAGE) == Media(IMAGE, data, len(data))


def test_escaped_data_is_bounded() -> None:
    """Of escaped data, too, only the head is decoded."""
    media = media_from_url("data:," + "%41" * 60_000, IMAGE)

    assert media == Media(IMAGE, b"A" * HEAD_BYTES, 60_000)


@pytest.mark.parametrize(
    "url", ["https://example.org/cat.png", "", "data:", "data: of a survey, 2026"]
)
def test_other_urls(url: str) -> None:
    """Nothing is fetched: behind another URL there may be anything."""
    assert media_from_url(url, IMAGE, "high") == Media(IMAGE, detail="high")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data:image/png;base64,AAAA", True),
        ("data:,", True),
        ("data: we have some, and more", False),
        ("data:image/png", False),
        ("metadata:,", False),
        ("data:" + "x" * 1_000 + "/y,", False),
    ],
)
def test_is_data_url(text: str, expected: bool) -> None:
    """Prose that begins with the word is no data URL."""
    assert is_data_url(text) is expected


@pytest.mark.parametrize(
    "header",
    [
        "data:image/png;base64,",
        "DATA:image/png;BASE64,",
        " data:image/png;base64,",
        "data: image/png; base64 ,",
        "data:image/png;charset=utf-8;base64,",
        "data:;base64,",
        "data:image/*;base64,",
    ],
)
def test_headers_of_data_urls_are_read_leniently(header: str) -> None:
    """As readers that are lenient do: else its base64 would be taken for a text."""
    encoded = base64.b64encode(PNG).decode()

    assert is_data_url(header + encoded)
    assert media_from_url(header + encoded, IMAGE).head == PNG[:HEAD_BYTES]


def test_base64_may_be_escaped_as_in_any_url() -> None:
    """Its plus signs and slashes may be, and its line ends."""
    data = bytes(range(256)) * 9
    text = base64.b64encode(data).decode()
    escaped = text.replace("+", "%2B").replace("/", "%2f").replace("=", "%3D%0A")

    assert media_from_url("data:image/png;base64," + escaped, IMAGE).head == data


def test_a_file_by_its_name_has_a_detail() -> None:
    """What is not fetched costs by what was asked for."""
    assert media_from_url("https://x.org/a.png", IMAGE, "low").detail == "low"
