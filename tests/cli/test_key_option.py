"""A key is found where it is said to be, and repeated nowhere."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tokenweir.cli.key_option import MAX_KEY_BYTES, WARNING, KeyOptionError, api_key

KEY = "sk-tw-CANARY"


def test_where_a_key_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a variable, in a file, or on standard input; a line's end is no part of it."""
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    monkeypatch.setenv("APP_KEY", KEY)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{KEY}\n".encode())))

    assert [api_key("env:APP_KEY"), api_key(f"file:{path}"), api_key("-")] == [KEY] * 3
    assert capsys.readouterr() == ("", "")


def test_a_key_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """It is taken, with a warning that does not repeat it."""
    assert api_key(KEY) == KEY
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"{WARNING}\n")
    assert KEY not in err


@pytest.mark.parametrize(
    ("given", "content", "problem"),
    [
        ("env:NO_SUCH_VARIABLE", b"", "the variable NO_SUCH_VARIABLE is empty"),
        ("file:{}", b" \n", "is empty or not set"),
        ("file:{}x", b"", "no such file or directory"),
        ("file:{}", KEY.encode() * MAX_KEY_BYTES, "too long"),
        ("-", b"", "standard input is empty"),
        ("", b"", "what was given is empty"),
    ],
)
def test_no_key(
    given: str,
    content: bytes,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was looked at, and why it is none."""
    path = tmp_path / "key"
    path.write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    with pytest.raises(KeyOptionError, match=problem) as caught:
        api_key(given.format(path))
    assert KEY not in str(caught.value)
