"""An audit of prompts as a table with texts below it, or as what JSON is made of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from tokenweir.cli.audit_figures import Ranking, Row
from tokenweir.cli.money import dollars
from tokenweir.cli.table import Amount, Cell
from tokenweir.cli.usage_bars import percent
from tokenweir.cli.usage_layout import Line, Screen, fitted
from tokenweir.cli.usage_table import money, told_digits
from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.core.prompt_part import PromptCost

_NAMES = ("#", "part", "digest", "tenant", "model")
_FIGURES = ("tokens each", "calls", "tokens", "cached", "cost USD", "hint")
_NOT_KNOWN = "?"
_INDENT = "    "
_MIN_COLUMNS = 40
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# By digest.
Texts = Mapping[str, str]


def day_text(day: int) -> str:
    """Return a *day* since 1970 as RFC 3339 has it."""
    return f"{_EPOCH + timedelta(days=day):%Y-%m-%d}"


def table_text(found: Ranking, screen: Screen) -> str:
    """Return the table, with a line of the others if there are some, and a total."""
    costs = [row.cost for row in found.rows]
    sums = [("total", found.total)]
    if found.others is not None:
        sums.insert(0, (f"{found.other_parts} others", found.others))
    digits = told_digits([cost.cost_nanousd for cost in (*costs, *dict(sums).values())])
    lines = [
        Line(_names(place, row), _cells(row, digits))
        for place, row in enumerate(found.rows, 1)
    ]
    lines += [
        Line(("", name, "", "", ""), ("", "", *_amounts(cost, digits), ""))
        for name, cost in sums
    ]
    return fitted(Line(_NAMES, _FIGURES), lines, screen)


def texts_text(found: Ranking, texts: Texts, columns: int) -> str:
    """Return the *texts* that are kept, by their place in the table."""
    return "\n\n".join(_text_of(found, texts, max(columns, _MIN_COLUMNS)))


def document(
    found: Ranking, days: range, tenant: str | None, texts: Texts | None
) -> Mapping[str, object]:
    """
    Return *found* as what JSON is made of.

    Args:
        found: What is told.
        days: Since 1970 (UTC).
        tenant: The only one that was asked for, or None.
        texts: What is kept of texts; None: nobody asked.
    """
    others = None
    if found.others is not None:
        others = {"parts": found.other_parts, **_sums(found.others)}
    return {
        "from": day_text(days[0]),
        "until": day_text(days[-1] + 1),
        "tenant": tenant,
        "rows": [_object(row, texts) for row in found.rows],
        "others": others,
        "total": _sums(found.total),
    }


def _names(place: int, row: Row) -> tuple[str, ...]:
    key = row.key
    return (str(place), key.kind, key.digest, key.tenant, key.model)


def _cells(row: Row, digits: int) -> tuple[Cell, ...]:
    return (
        row.tokens_each,
        row.cost.calls,
        *_amounts(row.cost, digits),
        row.hint.value,
    )


def _amounts(cost: PromptCost, digits: int) -> tuple[Cell, ...]:
    known = cost.reported_tokens
    cached = percent(cost.cached_tokens, known) if known else _NOT_KNOWN
    return (cost.tokens, Amount(cached), money(cost.cost_nanousd, digits))


def _text_of(found: Ranking, texts: Texts, columns: int) -> Iterator[str]:
    told = set()
    for place, row in enumerate(found.rows, 1):
        digest = row.key.digest
        if digest in texts and digest not in told:
            told.add(digest)  # another model's line has the same text
            shown = "\n".join(_lines(texts[digest], columns - len(_INDENT)))
            yield f"#{place} {row.key.kind} {digest}\n{textwrap.indent(shown, _INDENT)}"


def _lines(text: str, columns: int) -> Iterator[str]:
    """Yield *text* line by line, without what a terminal would obey."""
    for line in text.splitlines():
        plain = "".join(c if c.isprintable() else " " for c in line)
        yield from textwrap.wrap(plain, columns) or [""]


def _object(row: Row, texts: Texts | None) -> Mapping[str, object]:
    key, cost = row.key, row.cost
    text = {} if texts is None else {"text": texts.get(key.digest)}
    return {
        "part": key.kind.value,
        "digest": key.digest,
        "tenant": key.tenant,
        "model": key.model,
        "tokens_each": row.tokens_each,
        "calls": cost.calls,
        "input_tokens": cost.input_tokens,
        **_sums(cost),
        "hint": row.hint.value,
        **text,
    }


def _sums(cost: PromptCost) -> Mapping[str, int | str]:
    return {
        "tokens": cost.tokens,
        "reported_tokens": cost.reported_tokens,
        "cached_tokens": cost.cached_tokens,
        "cost_nanousd": cost.cost_nanousd,
        "cost_usd": dollars(cost.cost_nanousd, NANOUSD_PER_USD),
    }
