"""The page's tables, out of a result that is kept beside the programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.accuracy.environment import ROOT
from bench.accuracy.measure import Score
from bench.accuracy.prompts import Prompts
from bench.accuracy.recorded import Compared
from bench.page import put_table

RESULT = Path(__file__).with_name("result.json")
PAGE = ROOT / "docs" / "accuracy.md"

# What the estimates are meant for: other languages stand in a table of their own.
CLAIMED = ("English", "Japanese", "Chinese", "code", "JSON", "logs")
FAMILIES = {
    "o200k_base": "o200k",
    "cl100k_base": "cl100k",
    "claude-3": "Claude 3 to 4.6",
    "claude-4.7": "Claude 4.7+",
    "gemini": "Gemini",
    "llama": "Llama 3",
    "qwen": "Qwen to 3",
    "qwen-3.5": "Qwen 3.5+",
    "deepseek": "DeepSeek",
}

Scores = Mapping[str, Mapping[str, Score]]


def as_result(
    scores: Scores, compared: Iterable[Compared], prompts: Prompts
) -> dict[str, Any]:
    """Return what was found as plain data."""
    return {
        "text": {
            family: {language: asdict(score) for language, score in found.items()}
            for family, found in scores.items()
        },
        "recorded": [asdict(one) for one in compared],
        "prompts": asdict(prompts),
    }


def keep(result: Mapping[str, Any]) -> None:
    """Write *result* down, and put its tables into the page."""
    RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    for name, table in tables(result).items():
        put_table(PAGE, name, table)


def kept() -> dict[str, Any]:
    """Return the result that was written down."""
    found: dict[str, Any] = json.loads(RESULT.read_text())
    return found


def tables(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables of *result* as Markdown, by name."""
    text = result["text"]
    languages = list(text["o200k_base"])
    others = [language for language in languages if language not in CLAIMED]
    return {
        "claimed": _by_language(text, CLAIMED),
        "others": _by_language(text, others),
        "recorded": _recorded(result["recorded"]),
        "prompts": _prompts(result["prompts"]),
    }


def _by_language(text: Mapping[str, Any], languages: Sequence[str]) -> str:
    lines = [
        _row("", "texts", *FAMILIES.values()),
        _row("---", "---:", *["---:" for _ in FAMILIES]),
    ]
    for language in languages:
        samples = text["o200k_base"][language]["samples"]
        cells = [_cell(text[family][language]) for family in FAMILIES]
        lines.append(_row(language, str(samples), *cells))
    return "\n".join(lines)


def _cell(score: Mapping[str, float]) -> str:
    if not score["p95"] and not score["bias"]:
        return "exact"
    return f"{score['bias']:+.0f} · {score['median']:.1f} · {score['p95']:.0f}"


def _recorded(found: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        _row("exchange", "input", "reported", "output", "reported", "hidden"),
        _row("---", "---:", "---:", "---:", "---:", "---:"),
    ]
    lines += (
        _row(
            one["name"].rpartition("-")[0],
            *(str(one[name]) for name in ("estimated_input", "input")),
            *(str(one[name]) for name in ("counted_output", "output", "hidden")),
        )
        for one in found
    )
    return "\n".join(lines)


def _prompts(found: Mapping[str, int]) -> str:
    return "\n".join(
        (
            _row("prompts", "counted alike", "largest difference"),
            _row("---:", "---:", "---:"),
            _row(*(str(found[name]) for name in ("all", "exact", "most"))),
        )
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
