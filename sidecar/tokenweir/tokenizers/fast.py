"""
A faster encoder for the vocabularies that are carried, where it is installed.

The package `quicktok-v1` (extra `fast`) has the same vocabularies, compiled. It counts
the same: `tests/tokenizers/test_fast.py` compares both over many texts, and what it
counts of a few is compared each time that one is loaded. If it differs, or is not
there, tiktoken counts.
"""

from __future__ import annotations

import os

from tokenweir.tokenizers.encode import Encode, is_the_encoders, whole

# Set to "0", tiktoken counts whatever is installed.
SWITCH = "TOKENWEIR_FAST_COUNTING"

# What vocabularies and rules of splitting differ in, by what tiktoken makes of them.
_PROBES = {
    "o200k_base": 42,
    "cl100k_base": 48,
}
_PROBE = (
    "Hello, world! I'LL say it's 12345678 times.\r\n\tdef f(x): return x ** 2  \n"
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0 \u041f\u0440\u0438\u0432\u0435\u0442 "
    "\U0001f469\u200d\U0001f52c <|endoftext|>"
)


def fast_encoder(name: str) -> Encode | None:
    """Return a fast encoder of the vocabulary *name*; None: tiktoken has to do."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        import quicktok  # noqa: PLC0415 -- optional

        count = quicktok.get_encoding(name).count
        if count(_PROBE) != _PROBES[name]:
            return None
    except BaseException as fault:
        if not is_the_encoders(fault):
            raise
        return None

    def encode(text: str) -> range:
        return range(count(whole(text)))

    return encode
