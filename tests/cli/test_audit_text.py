"""An audit of prompts fits a screen, obeys no text, and tells programs everything."""

from __future__ import annotations

from tokenweir.cli.audit_figures import ranking
from tokenweir.cli.audit_text import day_text, document, table_text, texts_text
from tokenweir.cli.text_width import width
from tokenweir.cli.usage_bars import BLOCKS
from tokenweir.cli.usage_layout import Screen
from tokenweir.core.prompt_part import Kind, PromptCost
from tokenweir.ledger.prompts import OTHER, PromptKey

WIDE = Screen(200, bold=False, cuts_names=False, blocks=BLOCKS)
DIGEST = "0123456789abcdef"
SYSTEM = PromptKey("acme", "gpt-4o", Kind.SYSTEM, DIGEST)
MINI = PromptKey("acme", "gpt-4o-mini", Kind.SYSTEM, DIGEST)
TOOLS = PromptKey("globex", "gpt-4o", Kind.TOOLS, OTHER)
SUMS = {
    SYSTEM: PromptCost(8, 19_280, 16_000, 480, 30_000, 48_200_000),
    MINI: PromptCost(2, 4_820, 4_820, 4_820, 6_000, 700_000),
    TOOLS: PromptCost(1, 90, 0, 0, 100, 200_000),
}


def test_table() -> None:
    """By cost, with the share that came from a cache of what is known, and a total."""
    head, *rows = table_text(ranking(SUMS, 2), WIDE).splitlines()

    assert head.split() == [
        *("#", "part", "digest", "tenant", "model", "tokens", "each"),
        *("calls", "tokens", "cached", "cost", "USD", "hint"),
    ]
    assert [row.split() for row in rows] == [
        [
            *("1", "system", DIGEST, "acme", "gpt-4o", "2,410", "8", "19,280"),
            *("3%", "0.0482", "could", "be", "cached"),
        ],
        [
            *("2", "system", DIGEST, "acme", "gpt-4o-mini", "2,410", "2", "4,820"),
            *("100%", "0.0007", "is", "cached"),
        ],
        ["1", "others", "90", "?", "0.0002"],
        ["total", "24,190", "25%", "0.0491"],
    ]


def test_a_narrow_screen() -> None:
    """Names are cut, figures are not."""
    screen = Screen(60, bold=False, cuts_names=True, blocks=BLOCKS)
    lines = table_text(ranking(SUMS, 9), screen).splitlines()

    assert "…" in lines[1]
    assert "19,280" in lines[1]
    assert width(lines[1]) < width(table_text(ranking(SUMS, 9), WIDE).splitlines()[1])


def test_texts() -> None:
    """Once each, wrapped, by their place; what a terminal obeys is left out."""
    text = "Be brief.\n\x1b[31mred\x07\n\n" + "word " * 20
    told = texts_text(ranking(SUMS, 9), {DIGEST: text}, 40).splitlines()

    assert told[0] == f"#1 system {DIGEST}"
    assert told[1] == "    Be brief."
    assert told[2] == "     [31mred"
    assert not any("\x1b" in line or "\x07" in line for line in told)
    assert all(width(line) <= 40 for line in told[1:])
    assert sum(line.startswith("#") for line in told) == 1
    assert texts_text(ranking(SUMS, 9), {}, 80) == ""


def test_document() -> None:
    """Every figure, amounts as people write them too, and days that are not included."""
    told = document(ranking(SUMS, 1), range(20_000, 20_007), "acme", None)

    assert told == {
        "from": "2024-10-04",
        "until": "2024-10-11",
        "tenant": "acme",
        "rows": [
            {
                "part": "system",
                "digest": DIGEST,
                "tenant": "acme",
                "model": "gpt-4o",
                "tokens_each": 2_410,
                "calls": 8,
                "input_tokens": 30_000,
                "tokens": 19_280,
                "reported_tokens": 16_000,
                "cached_tokens": 480,
                "cost_nanousd": 48_200_000,
                "cost_usd": "0.0482",
                "hint": "could be cached",
            }
        ],
        "others": {
            "parts": 2,
            "tokens": 4_910,
            "reported_tokens": 4_820,
            "cached_tokens": 4_820,
            "cost_nanousd": 900_000,
            "cost_usd": "0.0009",
        },
        "total": {
            "tokens": 24_190,
            "reported_tokens": 20_820,
            "cached_tokens": 5_300,
            "cost_nanousd": 49_100_000,
            "cost_usd": "0.0491",
        },
    }


def test_texts_for_programs() -> None:
    """They are there if they were asked for; null: it is not kept."""
    found = ranking(SUMS, 9)
    rows = document(found, range(1), None, {DIGEST: "Be brief."})["rows"]

    assert isinstance(rows, list)
    assert [row["text"] for row in rows] == ["Be brief.", "Be brief.", None]
    assert document(ranking({}, 9), range(1), None, {})["rows"] == []


def test_days() -> None:
    """As RFC 3339 has them."""
    assert day_text(0) == "1970-01-01"
