"""Tokenizers from files count as the model does, and broken ones are told."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tokenizers.files import write_tokenizer
from tokenweir.core.tokenizer_name import MAX_FILE_BYTES, file_name
from tokenweir.tokenizers.tokenizer_file import (
    TokenizerFileError,
    is_file,
    load_file,
    version_of,
)

pytest.importorskip("tokenizers", reason="needs the extra `tokenizers`")


def named(path: Path) -> str:
    """Return the name of a tokenizer in a file."""
    return file_name(str(path))


def test_it_counts_by_its_own_vocabulary(tmp_path: Path) -> None:
    """One token per character here; nothing is put around, cut or filled up."""
    encode = load_file(named(write_tokenizer(tmp_path)))

    assert len(encode("hello")) == 5
    assert len(encode("")) == 0
    assert len(encode("x" * 600)) == 600


def test_special_tokens_in_a_text_are_text(tmp_path: Path) -> None:
    """Who writes ``<s>`` has written three characters."""
    encode = load_file(named(write_tokenizer(tmp_path)))

    assert len(encode("<s>")) == 3


def test_half_surrogate_pairs_are_counted(tmp_path: Path) -> None:
    """They come in JSON, and no encoder takes them as they are."""
    encode = load_file(named(write_tokenizer(tmp_path)))

    assert len(encode("a\ud83db")) >= 2


def write(path: Path, content: bytes) -> Path:
    """Write a file, and return where it is."""
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not a tokenizer.json"),
        (b"{}", "is not a tokenizer.json"),
        (b'{"model": {"type": "BPE"}}', "is not a tokenizer.json"),
        (b"[1, 2", "is not a tokenizer.json"),
        (b"\xff\xfe", "is no text"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, why: str) -> None:
    """Are told apart from good ones, in words that say what was expected."""
    with pytest.raises(TokenizerFileError, match=why):
        load_file(named(write(tmp_path / "tokenizer.json", content)))


def test_files_that_can_not_be(tmp_path: Path) -> None:
    """A missing one, and one that is far too large."""
    with pytest.raises(TokenizerFileError, match="can't be read"):
        load_file(named(tmp_path / "none.json"))
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(TokenizerFileError, match="64 MiB"):
        load_file(named(large))


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said."""
    real = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "tokenizers":
            raise ImportError
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TokenizerFileError, match=r"tokenweir\[tokenizers\]"):
        load_file(named(write_tokenizer(tmp_path)))


def test_versions(tmp_path: Path) -> None:
    """A file that is replaced is another one; what is no file has no version."""
    path = write_tokenizer(tmp_path)
    before = version_of(named(path))
    replaced = write(tmp_path / "new", path.read_bytes() + b"\n")
    os.replace(replaced, path)  # noqa: PTH105 - as deployments do

    assert before is not None
    assert version_of(named(path)) != before
    assert version_of(named(tmp_path / "none")) is None
    assert version_of("qwen") is None
    assert is_file(named(path))
    assert not is_file("qwen")
