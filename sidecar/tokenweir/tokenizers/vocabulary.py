"""
The vocabularies that are carried along, and the encoder over them.

Nothing is ever downloaded: the rank tables are package data, and what was read is
compared with the digest that OpenAI publishes for it. tiktoken does the work.

WARNING: building an encoder takes about half a second, and holds the interpreter's
lock for 150 ms of it. Do it before serving (`TokenCounter.preload`).
"""

from __future__ import annotations

import binascii
import gzip
import hashlib
import threading
from collections.abc import Callable
from importlib import resources

import tiktoken

from tokenweir.core.model_family import CL100K, O200K
from tokenweir.tokenizers.encode import Encode, is_the_encoders
from tokenweir.tokenizers.fast import fast_encoder
from tokenweir.tokenizers.tokenizer_file import is_file, load_file, version_of

# The digests are those of tiktoken_ext/openai_public.py, of the unpacked files.
_SHA256 = {
    O200K: "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    CL100K: "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}

SUPPORTED = tuple(_SHA256)
"""The vocabularies that are carried."""

# How a text is split before pairs are merged, from the same place.
_LETTERS_LOW = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LETTERS_UP = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERN = {
    O200K: (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS_UP}*{_LETTERS_LOW}+{_CONTRACTION}"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_LETTERS_UP}+{_LETTERS_LOW}*{_CONTRACTION}"
        r"|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    CL100K: (
        r"'(?i:[sdmt]|ll|ve|re)"
        r"|[^\r\n\p{L}\p{N}]?+\p{L}++"
        r"|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}


OnFault = Callable[[str, BaseException], None]
"""Told where something of ours broke, and what."""


class VocabularyError(Exception):
    """A rank table is missing or is not the one that OpenAI publishes."""


def load_encoding(name: str) -> tiktoken.Encoding:
    """
    Build the encoder of the vocabulary *name*, out of `SUPPORTED`.

    It has no special tokens: in a user's text they are text.

    Raises: VocabularyError.
    """
    return tiktoken.Encoding(
        name,
        pat_str=_PATTERN[name],
        mergeable_ranks=_ranks(_table(name)),
        special_tokens={},
    )


class Vocabularies:
    """
    Loads each vocabulary once, in the thread that needs it first.

    A name is out of `SUPPORTED`, or that of a file (see `tokenizer_file`): of those
    there are as many as a policy names. *on_fault* is told what could not be loaded.
    """

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._encoders: dict[str, Encode | None] = {}
        self._versions: dict[str, object] = {}
        self._fast: set[str] = set()

    def loaded(self, name: str) -> bool:
        """Tell if `get` answers at once."""
        return name in self._encoders

    def get(self, name: str) -> Encode | None:
        """Return the encoder of *name*, or None if it can't be had."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            if name not in self._encoders:
                self._versions[name] = version_of(name)
                self._encoders[name] = self._load(name)
            return self._encoders[name]

    def is_fast(self, name: str) -> bool:
        """Tell if what `get` has given counts several times as fast as tiktoken."""
        return name in self._fast

    def failed(self, name: str) -> bool:
        """Tell if *name* is known not to be had."""
        return name in self._encoders and self._encoders[name] is None

    def refresh(self) -> None:
        """Load those files again that have changed; what can't be had any more stays."""
        for name, version in list(self._versions.items()):
            now = version_of(name)
            if now is None or now == version:
                continue
            self._versions[name] = now
            encoder = self._load(name)
            if encoder is not None:
                self._encoders[name] = encoder

    def _load(self, name: str) -> Encode | None:
        try:
            if is_file(name):
                return load_file(name)
            fast = fast_encoder(name)
            if fast is not None:
                self._fast.add(name)
            return fast or load_encoding(name).encode_ordinary
        except BaseException as fault:
            if not is_the_encoders(fault):
                raise
            self._on_fault("loading a vocabulary", fault)
            return None


def _table(name: str) -> bytes:
    packed = resources.files("tokenweir.tokenizers") / "data" / f"{name}.tiktoken.gz"
    try:
        table = gzip.decompress(packed.read_bytes())
    except (OSError, EOFError) as fault:
        raise VocabularyError(f"{name}: cannot be read") from fault
    if hashlib.sha256(table).hexdigest() != _SHA256[name]:
        raise VocabularyError(f"{name}: not the published table")
    return table


def _ranks(table: bytes) -> dict[bytes, int]:
    """Parse lines of a token in base64, a space and its rank."""
    fields = table.split()
    return {
        binascii.a2b_base64(token): int(rank)
        for token, rank in zip(fields[::2], fields[1::2], strict=True)
    }
