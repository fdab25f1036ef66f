"""Types of forms, and the headers of their parts: what is written by SDKs, and no more."""

from __future__ import annotations

import pytest

from tokenweir.core.dialects.form_head import (
    PartHead,
    boundary_of,
    is_like_a_form,
    may_have_parts,
    read_head,
)
from tokenweir.core.errors import MalformedRequestError

TEXT = PartHead("model", is_file=False, ascii_only=False, size_bytes=None)
FILE = PartHead("file", is_file=True, ascii_only=False, size_bytes=None)
NAMED = 'Content-Disposition: form-data; name="model"'
SENT = 'Content-Disposition: form-data; name="file"; filename="a.wav"'


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=9b8b041cd77e16c0", "9b8b041cd77e16c0"),
        (
            "multipart/form-data; boundary=------------------------d74496d66958873e",
            "------------------------d74496d66958873e",
        ),
        (
            "multipart/form-data; boundary=----formdata-undici-012345678901",
            "----formdata-undici-012345678901",
        ),
        ('multipart/form-data; boundary="2c1e-4a"', "2c1e-4a"),
        ('multipart/form-data; boundary="----=_Part_0_1.2"', "----=_Part_0_1.2"),
        ("multipart/form-data;boundary=a;charset=UTF-8", "a"),
        ('Multipart/Form-Data; charset="utf-8"; Boundary=a', "a"),
    ],
)
def test_types(content_type: str, boundary: str) -> None:
    """The boundary is found as SDKs, curl and browsers write it."""
    assert boundary_of(content_type) == boundary.encode()
    assert may_have_parts(content_type)
    assert is_like_a_form(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "multipart/form-data",
        "multipart/mixed; boundary=a",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        'multipart/form-data; boundary="a',
        "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-data; x=y; boundary=a",
        "multipart/form-data; boundary*=utf-8''a",
        "multipart/form-data; boundary*0=a; boundary*1=b",
        r'multipart/form-data; boundary="a\b"',
        'multipart/form-data; boundary="a;b"',
        'multipart/form-data; boundary="a b"',
        "multipart/form-data; boundary=a,b",
        "multipart/form-data; boundary=--",
        'multipart/form-data; boundary=a; charset="utf-8',
        "multipart/form-data; boundary=a; charset=utf-16",
        "multipart/form-data; boundary=a, multipart/form-data; boundary=a",
        "multipart/form-data; boundary=\u017f\u212a",
        f"multipart/form-data; boundary={'a' * 71}",
    ],
)
def test_types_that_are_read_in_different_ways(content_type: str) -> None:
    """What has no boundary, more than one, or one with signs that hide it, has none."""
    assert boundary_of(content_type) is None


def test_like_a_form() -> None:
    """A type anywhere in a list counts, whatever its case."""
    assert may_have_parts("application/json, MULTIPART/mixed")
    assert not may_have_parts("application/x-www-form-urlencoded")
    assert is_like_a_form("application/x-WWW-form-urlencoded; charset=utf-8")
    assert not is_like_a_form("application/json")


@pytest.mark.parametrize(
    ("head", "read"),
    [
        (NAMED, TEXT),
        (NAMED.lower(), TEXT),
        # .NET
        (
            (
                "Content-Type: text/plain; charset=utf-8\r\n"
                "Content-Disposition: form-data; name=model"
            ),
            TEXT,
        ),
        (
            (
                "Content-Disposition: form-data; name=file; filename=a.wav; "
                "filename*=utf-8''a.wav"
            ),
            FILE,
        ),
        # Java: Spring, Apache's client, OkHttp
        (
            f"{NAMED}\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Length: 7",
            PartHead("model", is_file=False, ascii_only=False, size_bytes=7),
        ),
        (
            (
                f"{NAMED}\r\nContent-Type: text/plain; charset=ISO-8859-1\r\n"
                "Content-Transfer-Encoding: 8bit"
            ),
            PartHead("model", is_file=False, ascii_only=True, size_bytes=None),
        ),
        (
            f"{SENT}\r\nContent-Transfer-Encoding: binary\r\nContent-Type: audio/wav",
            FILE,
        ),
        # Browsers, curl, httpx, requests, Node
        (f"{SENT}\r\nContent-Type: audio/webm;codecs=opus", FILE),
        (SENT.replace("a.wav", "\u00e4 %22=(1).wav"), FILE),
        (
            SENT.replace('filename="', "filename*=utf-8''%C3%A4").replace('v"', "v"),
            FILE,
        ),
        (
            'Content-Disposition: form-data; name="chunking_strategy[type]"',
            PartHead("chunking_strategy[type]", False, False, None),
        ),
        (f"{NAMED}\r\nContent-Type: application/json", TEXT),
    ],
)
def test_heads(head: str, read: PartHead) -> None:
    """Parts are read as SDKs, curl and browsers write them."""
    assert read_head(head.encode()) == read


@pytest.mark.parametrize(
    "head",
    [
        "",
        "Content-Type: text/plain",
        f"{NAMED}\r\n{NAMED}",
        f'X-A: name="model"\r\n{NAMED}',
        f"{NAMED}\r\nContent-Type: text/plain\r\ncontent-type: text/plain",
        "Content-Disposition : form-data; name=model",
        "Content-Disposition:\tform-data; name=model",
        "Content-Disposition: attachment; name=model",
        "Content-Disposition: form-data; name*=utf-8''model",
        'Content-Disposition: form-data; name="model"; name="x"',
        'Content-Disposition: form-data; name="mo\\"del"',
        'Content-Disposition: form-data; name="mo%22del"',
        "Content-Disposition: form-data; name='model'",
        'Content-Disposition: form-data; name=""',
        'Content-Disposition: form-data; name="m\u00f6del"',
        'Content-Disposition: form-data; filename="a"; name="file"',
        'Content-Disposition: form-data; name="model"; x="y"',
        'Content-Disposition: form-data; name="_Charset_"',
        "Content-Disposition: form-data;\r\n name=model",
        "Content-Disposition: form-data; name=model\nX: y",
        "Content-Disposition: form-data; name=model\rX: y",
        "Content-Disposition: form-data; name=model\0",
        SENT.replace("a.wav", ""),
        SENT.replace("a.wav", " "),
        SENT.replace("a.wav", 'a\\"; name=\\"model'),
        SENT.replace("a.wav", "a; name=model; b"),
        SENT.replace('filename="', "filename*=utf-8''%e4").replace('v"', "v"),
        SENT.replace('filename="', "filename*=utf-16''").replace('v"', "v"),
        f"{SENT}\r\nContent-Type: Multipart/mixed; boundary=A",
        f"{SENT}\r\nContent-Type: message/rfc822",
        f'{SENT}\r\nContent-Type: a/b; c="d',
        f"{NAMED}\r\nContent-Type: application/octet-stream",
        f"{NAMED}\r\nContent-Type: text/plain; charset=utf-16",
        f'{NAMED}\r\nContent-Type: text/plain; charset="utf-8',
        f"{NAMED}\r\nContent-Transfer-Encoding: base64",
        f"{NAMED}\r\nContent-Transfer-Encoding: quoted-printable",
        f"{NAMED}\r\nContent-Length: +5",
        f"{NAMED}\r\nContent-Length: 5, 5",
    ],
)
def test_heads_that_are_read_in_different_ways(head: str) -> None:
    """Whatever hides a name, tells two, or has the value read otherwise is refused."""
    with pytest.raises(MalformedRequestError, match="headers"):
        read_head(head.encode())
