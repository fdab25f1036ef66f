"""Secrets are fetched from where they are, and never shown."""

from __future__ import annotations

import pathlib
import re
import traceback

import pytest

from tests.config.policies import CANARY
from tokenweir.config.files import Files
from tokenweir.config.secret_reference import (
    MAX_SECRET_BYTES,
    SecretReference,
    parse_reference,
    resolve,
)


def test_references() -> None:
    """A variable or an absolute path, and written back as it was."""
    assert parse_reference("env:OPENAI_API_KEY") == SecretReference(
        "env", "OPENAI_API_KEY"
    )
    assert str(parse_reference("file:/run/my secrets/a")) == "file:/run/my secrets/a"


@pytest.mark.parametrize(
    "value",
    [
        CANARY,
        f"env:{CANARY}",
        f"file:{CANARY}",
        f"file:/run/\n{CANARY}",
        "env:",
        "env:1A",
        "ENV:A",
        "file:/",
        "env:A\n",
        "",
        5,
        None,
    ],
)
def test_what_is_no_reference(value: object) -> None:
    """A literal is refused without being repeated."""
    with pytest.raises(ValueError, match=r"^must say where the secret is") as caught:
        parse_reference(value)

    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        ("sk-1", "sk-1"),
        ("sk-1\n", "sk-1"),
        ("sk-1\r\n", "sk-1"),
    ],
)
def test_a_file_may_end_in_a_newline(
    tmp_path: pathlib.Path, content: str, secret: str
) -> None:
    """One newline, which editors add, is no part of the secret."""
    path = tmp_path / "key"
    path.write_bytes(content.encode())

    assert resolve(parse_reference(f"file:{path}"), {}, Files()).reveal() == secret


def test_a_variable_is_taken_as_it_is() -> None:
    """Nobody adds a newline to a variable."""
    assert resolve(parse_reference("env:A"), {"A": "sk-1"}, Files()).reveal() == "sk-1"
    with pytest.raises(ValueError, match=r"^env:A holds a space, a control"):
        resolve(parse_reference("env:A"), {"A": "sk-1\n"}, Files())


@pytest.mark.parametrize(
    "content",
    [
        f"{CANARY}\n\n",
        f"{CANARY}\nx",
        f" {CANARY}",
        f"{CANARY}\x00",
        f"{CANARY}\x7f",
        f"{CANARY}é",
        f"\ufeff{CANARY}",
    ],
)
def test_what_cannot_be_sent(tmp_path: pathlib.Path, content: str) -> None:
    """A secret that would break a header is refused by its reference alone."""
    path = tmp_path / "key"
    path.write_text(content, encoding="utf-8")
    for text, env in ((f"file:{path}", {}), ("env:A", {"A": content})):
        problem = (
            f"{text} holds a space, a control character or a letter outside of ASCII: "
            "a credential is one word"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(problem)}$") as caught:
            resolve(parse_reference(text), env, Files())

        assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_what_is_not_there(tmp_path: pathlib.Path) -> None:
    """Absent and empty are told apart; both name the reference."""
    empty, large = tmp_path / "empty", tmp_path / "large"
    empty.write_bytes(b"\n")
    large.write_bytes(b"x" * (MAX_SECRET_BYTES + 1))

    for text, problem in (
        ("env:A", "environment variable A is not set"),
        ("env:EMPTY", "env:EMPTY is empty"),
        (f"file:{empty}", f"file:{empty} is empty"),
        (f"file:{large}", f"file:{large} is larger than 65536 bytes"),
        (f"file:{tmp_path}", f"file:{tmp_path} is a folder, not a file"),
        ("file:/no/such", "file:/no/such can't be read: no such file or directory"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
            resolve(parse_reference(text), {"EMPTY": ""}, Files())
