"""
A usage report for programs: JSON with every figure, CSV for spreadsheets.

Names are those of usage records and rollups. Figures that are 0 are there too, so that
no reader has to ask which are; docs/usage.md lists them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from tokenweir.cli.money import dollars
from tokenweir.cli.usage_figures import (
    CLASSES,
    Figures,
    Report,
    counted,
    refused,
    reported_tokens,
    usage_of,
)
from tokenweir.cli.usage_span import Span
from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.core.hold import Outcome
from tokenweir.core.tally import MATCHED, REFUSED_BY, REFUSED_FOR, SHADOWED
from tokenweir.core.usage import Source

# In money, twice: as it is counted, and as people write it.
AMOUNTS = ("cost", "saved", "cap_saved")
COUNTS = (
    "exchanges",
    "requests",
    *CLASSES,
    *(f"outcome_{outcome}" for outcome in Outcome),
    *(f"source_{source}" for source in Source),
    "tokens_counted",
    "tokens_estimated",
    "with_user",
    "unpriced",
    "downgraded",
    "capped",
    "cap_reached",
)
# Sums over classes, and over refusals; costs in US dollars.
SUMS = (
    "total_input_tokens",
    "total_output_tokens",
    "total_tokens",
    "tokens_reported",
    "refused",
)
CSV_COLUMNS = (*COUNTS, *SUMS, *(f"{name}_usd" for name in AMOUNTS))
OTHERS = "others"

_MAPS = (REFUSED_BY, REFUSED_FOR, SHADOWED, MATCHED)
# What a spreadsheet takes for the beginning of a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")

Value = int | str | Mapping[str, int]


def document(report: Report, span: Span, tenant: str | None) -> Mapping[str, object]:
    """Return *report* as what JSON is made of; *tenant*: the only one it is about."""
    others = None
    if report.others is not None:
        others = {"groups": report.other_groups, **all_figures(report.others)}
    return {
        "from": span.begin,
        "until": span.end,
        "by": list(report.by),
        "tenant": tenant,
        "rows": [
            {**dict(zip(report.by, row.group, strict=True)), **all_figures(row.figures)}
            for row in report.rows
        ],
        "others": others,
        "total": all_figures(report.total),
    }


def csv_text(report: Report) -> str:
    """Return a head and the rows, as RFC 4180 has it; `OTHERS` last, if there are."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*report.by, *CSV_COLUMNS])
    for row in report.rows:
        writer.writerow([*map(_no_formula, row.group), *_csv_cells(row.figures)])
    if report.others is not None:
        rest = [""] * (len(report.by) - 1)
        writer.writerow([OTHERS, *rest, *_csv_cells(report.others)])
    return text.getvalue()


def all_figures(figures: Figures) -> dict[str, Value]:
    """Return all figures, those that are 0 too, and the sums of them."""
    used, tallied = usage_of(figures), counted(figures)
    counts = {name: figures.get(name, 0) for name in COUNTS}
    # What a later version counts is told by the name that it has there.
    newer = {name: figures[name] for name in figures if not name.startswith(_MAPS)}
    return {
        **counts,
        **newer,
        "total_input_tokens": used.total_input_tokens,
        "total_output_tokens": used.total_output_tokens,
        "total_tokens": used.total_tokens,
        "tokens_reported": reported_tokens(figures),
        "refused": refused(figures),
        "refused_by_quota": tallied.refused_by,
        "refused_by_reason": tallied.refused_for,
        "shadowed_by_quota": tallied.shadowed,
        "matched_by_quota": tallied.matched,
        **_amounts(figures),
    }


def _amounts(figures: Figures) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    for name in AMOUNTS:
        nanousd = figures.get(f"{name}_nanousd", 0)
        found[f"{name}_nanousd"] = nanousd
        found[f"{name}_usd"] = dollars(nanousd, NANOUSD_PER_USD)
    return found


def _csv_cells(figures: Figures) -> Sequence[object]:
    told = all_figures(figures)
    return [told[column] for column in CSV_COLUMNS]


def _no_formula(name: str) -> str:
    """Return *name* so that no spreadsheet runs it: clients chose some of them."""
    return f"'{name}" if name.startswith(_FORMULAS) else name
