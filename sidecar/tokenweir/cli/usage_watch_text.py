"""What `tokenweir usage watch` shows: a screen for people, lines for pipes, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tokenweir.cli.table import Cell, shown
from tokenweir.cli.text_width import clipped
from tokenweir.cli.usage_figures import (
    Figures,
    Sums,
    cost_nanousd,
    counted,
    is_used,
    refused,
    sum_of,
    usage_of,
)
from tokenweir.cli.usage_formats import all_figures
from tokenweir.cli.usage_layout import Line, Screen, fitted
from tokenweir.cli.usage_span import rfc_3339
from tokenweir.cli.usage_table import abridged, money, name_shown, told_digits
from tokenweir.ledger.picture import IN_FLIGHT, Picture

MOST_LIMITS = 5
_NOTHING_YET = (
    "Nothing in this hour yet: calls show here once they begin.",
    "`tokenweir tour` makes some, through a `tokenweir up` that runs here.",
)
_HEADS = ("now", "calls", "tokens", "USD", "tokens", "USD", "refused")


@dataclass(frozen=True, slots=True)
class Terms:
    """
    What was asked for.

    Attributes:
        by: What sums are kept apart by.
        tenant: The only one, or None.
        every_seconds: Between two looks.
        top: How many groups have a line.
    """

    by: tuple[str, ...]
    tenant: str | None
    every_seconds: int
    top: int


@dataclass(frozen=True, slots=True)
class _Row:
    names: tuple[str, ...]
    flying: Figures
    minute: Figures
    hour: Figures


def screen_text(picture: Picture, terms: Terms, screen: Screen) -> str:
    """Return *picture* for a terminal: no line is wider than *screen* if possible."""
    rows = _rows(picture, terms)
    kept, rest = rows[: terms.top], rows[terms.top :]
    lines = [*kept]
    blank = ("",) * (len(terms.by) - 1)
    if rest:
        lines.append(_sum(rest, (f"{len(rest):,} others", *blank)))
    if len(rows) > 1:
        lines.append(_sum(rows, ("total", *blank)))
    table = _table(lines or [_sum([], ("-", *blank))], terms, screen)
    parts = [
        clipped(_first_line(picture, terms), screen.columns),
        clipped(in_flight_text(picture), screen.columns),
        "",
        _super_head(table, picture),
        table,
        *_remarks(picture, screen),
    ]
    return "\n".join(parts)


def line_text(picture: Picture) -> str:
    """Return *picture* as one line, for pipes."""
    minute, hour = sum_of(picture.minute.values()), sum_of(picture.this_hour.values())
    return (
        f"{_clock(picture.at_ms)}  {in_flight_text(picture)}  "
        f"last minute: {_used_text(minute)}  "
        f"since {rfc_3339(picture.hour)[11:16]}: {_used_text(hour)}, "
        f"{refused(hour):,} refused"
    )


def json_line(picture: Picture, terms: Terms) -> str:
    """Return *picture* as a line of JSON, with every figure."""
    flying = [
        {**dict(zip(terms.by, group, strict=True)), **dict(figures)}
        for group, figures in sorted(picture.flying.items())
    ]
    return json.dumps(
        {
            "at": _moment(picture.at_ms),
            "ledger": "ok",
            "by": list(terms.by),
            "tenant": terms.tenant,
            "minute": {
                "whole": picture.minute_is_whole,
                **_sums_document(picture.minute, terms.by),
            },
            "hour": {
                "from": rfc_3339(picture.hour),
                **_sums_document(picture.this_hour, terms.by),
            },
            "in_flight": {
                "whole": picture.flying_is_whole,
                "rows": flying,
                "total": _flying_total(picture),
                "reserved_by_limit": dict(sorted(picture.reserved.items())),
            },
        }
    )


def silent_json_line(at_ms: int, since_ms: int) -> str:
    """Return that there is no answer, as a line of JSON."""
    return json.dumps(
        {"at": _moment(at_ms), "ledger": "no answer", "since": _moment(since_ms)}
    )


def silent_text(at_ms: int, since_ms: int) -> str:
    """Return that there is no answer, and since when, for people."""
    return (
        f"{_clock(at_ms)}  no answer from the ledger since {_clock(since_ms)}: "
        "trying again"
    )


def in_flight_text(picture: Picture) -> str:
    """Return what is in flight, and what that has reserved."""
    count, tokens, nanousd = (_flying_total(picture)[name] for name in IN_FLIGHT)
    at_least = "" if picture.flying_is_whole else "at least "
    held = f"{tokens:,} tokens, {money(nanousd, told_digits([nanousd]))} USD"
    return f"in flight: {at_least}{count:,}, reserved: {held}"


# === parts of it ==================================================================


def _rows(picture: Picture, terms: Terms) -> list[_Row]:
    """Return all groups, who uses most at present first."""
    used = {group for group, figures in picture.this_hour.items() if is_used(figures)}
    rows = [
        _Row(
            tuple(map(name_shown, group, terms.by)),
            picture.flying.get(group, {}),
            picture.minute.get(group, {}),
            picture.this_hour.get(group, {}),
        )
        for group in {*picture.minute, *used, *picture.flying}
    ]
    return sorted(rows, key=_order)


def _order(row: _Row) -> tuple[int, int, int, int, tuple[str, ...]]:
    return (
        -cost_nanousd(row.minute),
        -_tokens(row.minute),
        -cost_nanousd(row.hour),
        -_tokens(row.hour),
        row.names,
    )


def _sum(rows: Sequence[_Row], names: tuple[str, ...]) -> _Row:
    return _Row(
        names,
        sum_of(row.flying for row in rows),
        sum_of(row.minute for row in rows),
        sum_of(row.hour for row in rows),
    )


def _table(rows: Sequence[_Row], terms: Terms, screen: Screen) -> str:
    digits = told_digits(
        [cost_nanousd(figures) for row in rows for figures in (row.minute, row.hour)]
    )
    lines = [
        Line(
            row.names,
            (
                row.flying.get(IN_FLIGHT[0], 0),
                abridged(row.minute.get("exchanges", 0)),
                *_used_cells(row.minute, digits),
                *_used_cells(row.hour, digits),
                refused(row.hour),
            ),
        )
        for row in rows
    ]
    return fitted(Line(terms.by, _HEADS), lines, screen)


def _used_cells(figures: Figures, digits: int) -> tuple[Cell, ...]:
    return abridged(_tokens(figures)), money(cost_nanousd(figures), digits)


def _super_head(table: str, picture: Picture) -> str:
    """Return what is written above the heads of *table*: which columns are of when."""
    head = table.partition("\n")[0].replace("\x1b[1m", "").replace("\x1b[0m", "")
    ends = head.index("USD") + len("USD")
    since = f"since {rfc_3339(picture.hour)[11:16]}"
    return "last minute".rjust(ends) + since.rjust(len(head) - ends)


def _first_line(picture: Picture, terms: Terms) -> str:
    whose = "" if terms.tenant is None else f" of {shown(terms.tenant)}"
    return (
        f"{_clock(picture.at_ms)}  usage{whose}, every {terms.every_seconds} s, "
        "Ctrl-C ends it"
    )


def _remarks(picture: Picture, screen: Screen) -> Iterator[str]:
    found = counted(sum_of(picture.this_hour.values()))
    counts = {**found.refused_by, **found.refused_for}
    if counts:
        most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[
            :MOST_LIMITS
        ]
        told = ", ".join(f"{shown(name)} {count:,}" for name, count in most)
        yield ""
        yield clipped(f"refused most by: {told}", screen.columns)
    elif not (picture.minute or picture.flying or _is_any_used(picture)):
        yield ""
        yield from (clipped(line, screen.columns) for line in _NOTHING_YET)
    if not picture.minute_is_whole:
        yield "The last minute is not whole: more was used than could be read."
    if not picture.flying_is_whole:
        yield "More is in flight than could be read."


def _is_any_used(picture: Picture) -> bool:
    return any(map(is_used, picture.this_hour.values()))


def _sums_document(sums: Sums, by: Sequence[str]) -> Mapping[str, object]:
    return {
        "rows": [
            {**dict(zip(by, group, strict=True)), **all_figures(figures)}
            for group, figures in sorted(sums.items())
        ],
        "total": all_figures(sum_of(sums.values())),
    }


def _flying_total(picture: Picture) -> dict[str, int]:
    total = sum_of(picture.flying.values())
    return {name: total.get(name, 0) for name in IN_FLIGHT}


def _used_text(figures: Figures) -> str:
    nanousd = cost_nanousd(figures)
    return (
        f"{figures.get('exchanges', 0):,} calls, {_tokens(figures):,} tokens, "
        f"{money(nanousd, told_digits([nanousd]))} USD"
    )


def _tokens(figures: Figures) -> int:
    return usage_of(figures).total_tokens


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1_000, UTC).strftime("%H:%M:%S UTC")
