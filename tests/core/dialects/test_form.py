"""Forms with files: what is in them, and which are none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.form_readers import Field, by_aiohttp, by_email
from tests.forms import BOUNDARY, CONTENT_TYPE, form
from tokenweir.core.dialects.form import (
    Part,
    check_type,
    head_of,
    is_form,
    parts_of,
    text_of,
    with_text,
)
from tokenweir.core.errors import MalformedRequestError

FORM = form(
    ("model", "whisper-1"), ("file", b"\0\r\n--x"), ("image[]", b"b"), ("n", "2")
)
MODEL = b'Content-Disposition: form-data; name="model"'
FILE = b'Content-Disposition: form-data; name="file"; filename="a.wav"'
TYPE = "multipart/form-data; boundary=A"


def of_parts(*parts: bytes, boundary: bytes = b"A") -> bytes:
    """Return a form of *parts*, headers included."""
    mark = b"--" + boundary
    return (
        b"".join(mark + b"\r\n" + part + b"\r\n" for part in parts) + mark + b"--\r\n"
    )


def fields_of(body: bytes, content_type: str) -> list[Field]:
    """Return what is read here. Raises: MalformedRequestError."""
    check_type(body, content_type)
    return [
        (part.name, part.is_file, body[part.start : part.end])
        for part in parts_of(body)
    ]


def test_parts() -> None:
    """Fields come in order; a file may hold anything but the boundary."""
    parts = parts_of(FORM)

    assert is_form(FORM)
    assert not is_form(b'{"a": "--"}')
    assert [(part.name, part.is_file, part.in_brackets) for part in parts] == [
        ("model", False, False),
        ("file", True, False),
        ("image", True, True),
        ("n", False, False),
    ]
    assert text_of(FORM, parts[0]) == "whisper-1"
    assert head_of(FORM, parts[1]) == b"\0\r\n--x"
    for end in (FORM[:-2], FORM + b"\r\n"):
        assert parts_of(end) == parts


def test_head() -> None:
    """Of a large file only the beginning is looked at."""
    body = form(("file", b"a" * 100_000))
    [part] = parts_of(body)

    assert len(head_of(body, part)) == 48 * 1024
    assert part.end - part.start == 100_000


def test_text_that_is_no_text() -> None:
    """What is no UTF-8 is read in different ways, so it is refused."""
    with pytest.raises(MalformedRequestError, match="UTF-8"):
        text_of(b"a\xffb", Part("x", 0, 3, is_file=False))
    latin = b"Content-Type: text/plain; charset=ISO-8859-1\r\n" + MODEL + b"\r\n\r\n"
    assert fields_of(of_parts(latin + b"a"), TYPE) == [("model", False, b"a")]
    with pytest.raises(MalformedRequestError, match="UTF-8"):
        parts_of(of_parts(latin + "\u00e4".encode()))


@pytest.mark.parametrize(
    "body",
    [
        b"--",
        b"--b",
        b"--b\r\n",
        b"--b--",
        b"--b--\r\n",
        b"--b\r\nno end",
        FORM[:-4] + b"\0",
        FORM[:-2] + b"\r",
        FORM[: len(FORM) // 2],
        b"--b\r\ncontent-disposition: form-data\r\n\r\nv\r\n--b--",
        b'--b\r\ncontent-disposition: form-data; name="a"\r\n--b--',
        b'--b\r\n\r\nname="a"\r\n--b--',
        form(*[("a", "b")] * 257),
        # What is beside the parts, or looks like another one.
        b"hidden\r\n" + FORM,
        b"\r\n" + FORM,
        FORM + b"hidden",
        FORM + b"\r\n\r\n",
        FORM + FORM,
        of_parts(MODEL + b"\r\n\r\na").replace(b"--A\r\n", b"--A \r\n"),
        of_parts(MODEL + b"\r\n\r\na").replace(b"\r\n", b"\n"),
        of_parts(MODEL + b"\r\n\r\na\n--A\n" + MODEL + b"\n\nb"),
        of_parts(MODEL + b"\r\n\r\na\r--A\r\n" + MODEL + b"\r\n\r\nb"),
        of_parts(MODEL + b"\r\n\r\na\r\n--Ab\r\n" + MODEL + b"\r\n\r\nb"),
        of_parts(MODEL + b"\r\n\r\na--A--"),
        # Headers that are too long, and a length that is wrong.
        of_parts(FILE + b"\r\nContent-Type: a/" + b"b" * 3_000 + b"\r\n\r\na"),
        of_parts(MODEL + b"\r\nContent-Length: 1\r\n\r\nab"),
        of_parts(b"X: a\r\n" + MODEL + b"\r\n\r\na"),
    ],
)
def test_broken(body: bytes) -> None:
    """What is no whole form is refused, one that was cut or hides parts above all."""
    with pytest.raises(MalformedRequestError, match="form"):
        parts_of(body)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (FORM, ""),
        (FORM, "application/json"),
        (FORM, "multipart/form-data"),
        (FORM, TYPE),
        (FORM, f"{CONTENT_TYPE[1]}, {CONTENT_TYPE[1]}"),
        (b"--\r\n", TYPE),
        (b"hidden\r\n" + FORM, CONTENT_TYPE[1]),
        (b"{}", TYPE),
        (b"{}", "application/x-www-form-urlencoded"),
    ],
)
def test_of_another_type(body: bytes, content_type: str) -> None:
    """The type of a form names the boundary that it begins with, and no other does."""
    with pytest.raises(MalformedRequestError, match="content-type"):
        check_type(body, content_type)


def test_of_its_type() -> None:
    """A form has the type of one, and what is none may have any other type or none."""
    check_type(FORM, CONTENT_TYPE[1])
    check_type(b"{}", "")
    check_type(b"{}", "application/json")


def test_a_form_in_a_form() -> None:
    """What stands in a field's text is no form by whatever type."""
    inner = of_parts(MODEL + b"\r\n\r\ndear", boundary=b"B")
    body = of_parts(
        MODEL + b"\r\n\r\ncheap",
        b'Content-Disposition: form-data; name="user"\r\n\r\n' + inner,
    )
    hidden = TYPE.replace("=A", "=B")

    assert by_email(body, hidden)[0] == by_aiohttp(body, hidden)[0]
    assert by_email(body, hidden)[0] == ("model", False, b"dear")
    with pytest.raises(MalformedRequestError):
        fields_of(body, hidden)
    assert fields_of(body, TYPE)[0] == ("model", False, b"cheap")


def test_with_text() -> None:
    """One text is replaced, in each of its places; no other byte changes."""
    assert with_text(FORM, "model", "w2") == FORM.replace(b"whisper-1", b"w2")
    assert with_text(FORM, "file", "x") == FORM
    assert with_text(FORM, "other", "x") == FORM
    assert BOUNDARY in FORM


def test_with_text_of_another_length() -> None:
    """A length that was said of the text is not, where it changes."""
    kind = b"\r\nContent-Type: text/plain"
    body = of_parts(b"CONTENT-LENGTH: 5\r\n" + MODEL + kind + b"\r\n\r\ncheap")

    assert with_text(body, "model", "m") == of_parts(MODEL + kind + b"\r\n\r\nm")


# === what others read =============================================================

HEADERS = (
    MODEL,
    MODEL.replace(b'"', b""),
    MODEL.replace(b"Content-D", b"content-d").replace(b"; n", b";n"),
    FILE,
    FILE.replace(b'"', b"") + b"; filename*=utf-8''%c3%a4%22%3b.wav",
    b'Content-Disposition: form-data; name="image[]"; filename="b c%22.png"',
    b'Content-Disposition: form-data; name="model"; filename=""',
    b"Content-Disposition: form-data; name=\"model\"; filename*=utf-8''%e4",
    b'Content-Disposition: form-data; name="x"; name="model"',
    b'Content-Disposition: form-data; filename="; name=model; "; name="x"',
    b'Content-Disposition: form-data; name="a\\"; name="model"',
    b"Content-Disposition: form-data; name*=utf-8''model",
    b"Content-Disposition: form-data;\r\n name=model",
    b'X-A: name="model"',
    b"Content-Type: text/plain; charset=utf-8",
    b"Content-Type: text/plain; charset=utf-16",
    b"Content-Type: application/octet-stream",
    b"Content-Type: multipart/mixed; boundary=A",
    b"Content-Transfer-Encoding: 8bit",
    b"Content-Transfer-Encoding: base64",
    b"Content-Length: 4",
    b"Content-Length: 1",
)
VALUES = (
    *(b"dear", b"", b"\r\n", b"\n", b"ZGVhcg==", b"\n--A\n", b"\r\n--A\r\n", b"-"),
    *(
        b"\r\n--AB\r\n" + MODEL + b"\r\n\r\ndear",
        b"\n--A\r\n" + MODEL + b"\r\n\r\ndear",
    ),
    *(b"\r\n--B\r\n" + MODEL + b"\r\n\r\ndear\r\n--B--", b"\r\r", b"--A", b"\0\xff"),
)
BLANKS = (b"\r\n\r\n", b"\r\n\r\n", b"\r\n\r\n", b"\n\n", b"\r\n\n", b"\r\r")
TYPES = (
    *(TYPE, TYPE, TYPE, TYPE.replace("A", '"A"'), f"{TYPE}; charset=UTF-8"),
    *(f"{TYPE}; boundary=B", f"multipart/form-data; boundary=B; x={TYPE}"),
    *('multipart/form-data; x="; boundary=B"; boundary=A', TYPE.replace("=A", "=B")),
)
PARTS = st.builds(
    lambda headers, blank, value: b"\r\n".join(headers) + blank + value,
    st.lists(st.sampled_from(HEADERS), min_size=1, max_size=3),
    st.sampled_from(BLANKS),
    st.sampled_from(VALUES),
)


def agreed(body: bytes, content_type: str) -> bool:
    """Tell if *body* is taken; then others must read the same of it."""
    try:
        here = fields_of(body, content_type)
    except MalformedRequestError:
        return False
    for read in (by_email, by_aiohttp):
        there = read(body, content_type)
        assert [(name.removesuffix("[]"), *rest) for name, *rest in there] == here
    return True


@given(
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(TYPES),
    st.sampled_from([b"", b"", b"", b"\r\n", b"x\r\n", b"--B\r\n"]),
    st.sampled_from([b"", b"", b"", b"x", b"\r\n", b"--A\r\n"]),
)
def test_as_others_read(
    parts: list[bytes], content_type: str, before: bytes, behind: bytes
) -> None:
    """Whatever is taken, other software reads the same fields of it."""
    agreed(before + of_parts(*parts) + behind, content_type)


def test_as_others_read_each_pair() -> None:
    """The same holds for each pair of headers with each value, and many are taken."""
    taken = sum(
        agreed(of_parts(b"\r\n".join(headers) + b"\r\n\r\n" + value), TYPE)
        for headers in (
            *((header,) for header in HEADERS),
            *itertools.permutations(HEADERS, 2),
        )
        for value in VALUES
    )

    assert taken > 100
