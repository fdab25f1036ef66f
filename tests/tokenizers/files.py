"""A small `tokenizer.json`, as model repositories have large ones."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any


def write_tokenizer(folder: Path, name: str = "tokenizer.json", **more: Any) -> Path:
    """
    Write one that has a token for each character, and return where it is.

    It would cut texts at 512 tokens, fill them up to 16, put tokens around them, and
    take ``<s>`` for one; nothing of that is for counting. *more* are members of it.
    """
    characters = ["<s>", "<unk>", *string.printable]
    special = {"single_word": False, "lstrip": False, "rstrip": False}
    special |= {"normalized": False, "special": True}
    content: dict[str, Any] = {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": 512,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": {
            "strategy": {"Fixed": 16},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 1,
            "pad_type_id": 0,
            "pad_token": "<unk>",
        },
        "added_tokens": [{"id": 0, "content": "<s>", **special}],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
        },
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: number for number, text in enumerate(characters)},
            "merges": [],
        },
    }
    path = folder / name
    path.write_text(json.dumps(content | more))
    return path
