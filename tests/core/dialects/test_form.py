"""Forms with files: what is in them, and which are none."""

from __future__ import annotations

import pytest

from tests.forms import BOUNDARY, form
from tokenweir.core.dialects.form import (
    Part,
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


def test_parts() -> None:
    """Fields come in order; a file may hold anything but the boundary."""
    parts = parts_of(FORM)

    assert is_form(FORM)
    assert not is_form(b'{"a": "--"}')
    assert [(part.name, part.is_file) for part in parts] == [
        ("model", False),
        ("file", True),
        ("image", True),
        ("n", False),
    ]
    assert text_of(FORM, parts[0]) == "whisper-1"
    assert head_of(FORM, parts[1]) == b"\0\r\n--x"


def test_head() -> None:
    """Of a large file only the beginning is looked at."""
    body = form(("file", b"a" * 100_000))
    [part] = parts_of(body)

    assert len(head_of(body, part)) == 48 * 1024
    assert part.end - part.start == 100_000


def test_text_that_is_no_text() -> None:
    """What is no UTF-8 is read as far as it goes."""
    assert text_of(b"a\xffb", Part("x", 0, 3, is_file=False)) == "a\ufffdb"


@pytest.mark.parametrize(
    "body",
    [
        b"--",
        b"--b",
        b"--b\r\n",
        b"--b\r\nno end",
        FORM[:-4] + b"\0",
        FORM[: len(FORM) // 2],
        b"--b\r\ncontent-disposition: form-data\r\n\r\nv\r\n--b--",
        b'--b\r\ncontent-disposition: form-data; name="a"\r\n--b--',
        b'--b\r\n\r\nname="a"\r\n--b--',
        form(*[("a", "b")] * 257),
    ],
)
def test_broken(body: bytes) -> None:
    """What is no whole form is refused, one that was cut above all."""
    with pytest.raises(MalformedRequestError, match="form"):
        parts_of(body)


def test_with_text() -> None:
    """One text is replaced, in each of its places; no other byte changes."""
    assert with_text(FORM, "model", "w2") == FORM.replace(b"whisper-1", b"w2")
    assert with_text(FORM, "file", "x") == FORM
    assert with_text(FORM, "other", "x") == FORM
    assert BOUNDARY in FORM
