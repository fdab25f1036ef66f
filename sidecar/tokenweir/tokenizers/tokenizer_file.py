"""
A `tokenizer.json` of Hugging Face's format, from this machine's disk.

The package `tokenizers` reads it (extra `tokenizers`); nothing is ever downloaded. What a
file says beyond its vocabulary is left out: no cutting, no padding, no tokens around a
text, and special tokens in a text are text.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tokenweir.core.tokenizer_name import MAX_FILE_BYTES, path_in
from tokenweir.tokenizers.encode import Encode, is_the_encoders, whole


class TokenizerFileError(Exception):
    """A file can't be used. The text says why, and what to do."""


def is_file(name: str) -> bool:
    """Tell if *name* is that of a file: ``"file:/…/tokenizer.json"``."""
    return path_in(name) is not None


def version_of(name: str) -> object:
    """Return what changes when the file *name* does; None: it is no file, or gone."""
    path = path_in(name)
    if path is None:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def load_file(name: str) -> Encode:
    """
    Return the encoder of the file *name*. It takes up to some seconds.

    Raises: TokenizerFileError.
    """
    path = path_in(name)
    assert path is not None
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 -- optional
    except ImportError:
        raise TokenizerFileError(
            "needs the package `tokenizers`: pip install 'tokenweir[tokenizers]'"
        ) from None
    content = _content(Path(path))
    try:
        tokenizer = Tokenizer.from_str(content)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        # A file may be read and yet be unable to encode.
        encode = partial(tokenizer.encode_batch_fast, add_special_tokens=False)
        encode(["Hello, world! 1"])
    except BaseException as fault:
        if not is_the_encoders(fault):
            raise
        raise TokenizerFileError(
            "is not a tokenizer.json that the package `tokenizers` can read"
        ) from fault

    # A batch of one: unlike `encode` it lets other threads run meanwhile.
    return lambda text: encode([whole(text)])[0]


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise TokenizerFileError(f"can't be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise TokenizerFileError(
            f"has more than {MAX_FILE_BYTES // 2**20} MiB: is it a tokenizer.json?"
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise TokenizerFileError("is no text: is it a tokenizer.json?") from None
