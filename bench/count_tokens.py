"""
How much faster tokens are counted where the extra `fast` is installed.

    .venv/bin/python bench/count_tokens.py

Both counters see the same texts, in slices as the product makes them, in turns and in
one process; the figure is the ratio of their times, the median of the rounds. Texts are
the standard library's source, so nothing is needed but Python, and pathological ones.
"""

from __future__ import annotations

import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Sized
from pathlib import Path

from tokenweir.tokenizers.fast import fast_encoder
from tokenweir.tokenizers.text_counter import SLICE_CHARS
from tokenweir.tokenizers.vocabulary import load_encoding

ROUNDS = 7
CHARS = 400_000
NAME = "o200k_base"


def slices(text: str) -> list[str]:
    """Return *text* as the product feeds it to an encoder."""
    return [text[at : at + SLICE_CHARS] for at in range(0, len(text), SLICE_CHARS)]


def source() -> str:
    """Return so much of the standard library's source."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return "".join(file.read_text(errors="replace") for file in files)[:CHARS]


def short(text: str) -> list[str]:
    """Return *text* as many messages of a sentence each."""
    return [text[at : at + 200] for at in range(0, len(text), 200)]


def seconds(encode: Callable[[str], Sized], pieces: list[str]) -> tuple[float, int]:
    """Return how long it takes to count *pieces*, and how many tokens they have."""
    began, tokens = time.perf_counter(), 0
    for piece in pieces:
        tokens += len(encode(piece))
    return time.perf_counter() - began, tokens


def main() -> int:
    """Print the table; return 1 if the counts differ, or there is nothing to compare."""
    fast = fast_encoder(NAME)
    if fast is None:
        print("not installed: pip install 'tokenweir[fast]'")
        return 1
    slow = load_encoding(NAME).encode_ordinary
    code = source()
    texts = {
        "source code, slices of 10,000 characters": slices(code),
        "source code, pieces of 200 characters": short(code),
        "one letter, 100,000 times": slices("A" * 100_000),
        "kana and kanji": slices("ほげふが日本語の文章" * 10_000),
        "emoji": slices("👩‍🔬🎉" * 10_000),
    }
    print(f"| {NAME} | tiktoken | fast | times as fast |\n|---|---|---|---|")
    is_equal = True
    for name, pieces in texts.items():
        rounds = [(seconds(slow, pieces), seconds(fast, pieces)) for _ in range(ROUNDS)]
        is_equal &= all(one[1] == other[1] for one, other in rounds)
        times = [statistics.median(each[n][0] for each in rounds) for n in (0, 1)]
        ratio = statistics.median(one[0] / other[0] for one, other in rounds)
        tokens = rounds[0][0][1]
        rates = [f"{tokens / each / 1e6:.1f} M tokens/s" for each in times]
        print(f"| {name} | {rates[0]} | {rates[1]} | {ratio:.1f} |")
    print("counts are equal" if is_equal else "counts DIFFER")
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
