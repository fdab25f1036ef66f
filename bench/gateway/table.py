"""The table that people read: a row for each variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.gateway.spread import Spread
from bench.gateway.summary import Summary

Figures = Summary
_NONE = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """
    Attributes:
        title: Of the column, with its unit.
        load: Whose figure it is.
        figure: Which; several are joined by ``/``.
        digits: After the point.
        factor: What figures are multiplied by.
        ranged: Whether the range of rounds is told, too.
    """

    title: str
    load: str
    figure: tuple[str, ...]
    digits: int = 1
    factor: float = 1.0
    ranged: bool = True


def _added(load: str, title: str) -> Column:
    figures = ("added_latency_p50_ms", "added_latency_p99_ms")
    return Column(title, load, figures, ranged=False)


THROUGHPUT = (
    Column("JSON c=16, req/s", "json-16", ("per_second",), 0),
    Column("of Envoy alone, %", "json-16", ("ratio_per_second",), 1, 100),
    Column("req per CPU-s", "json-16", ("per_cpu_second",), 0, ranged=False),
    Column(
        "CPU µs/req: Envoy / processor / Redis",
        "json-16",
        ("cpu_us_envoy", "cpu_us_processor|cpu_us_proxy", "cpu_us_ledger"),
        0,
        ranged=False,
    ),
    Column("Redis calls", "json-16", ("ledger_calls",), 2, ranged=False),
    Column(
        "stream CPU ms: Envoy / processor / Redis",
        "sse-16-paced",
        ("cpu_us_envoy", "cpu_us_processor|cpu_us_proxy", "cpu_us_ledger"),
        2,
        0.001,
        ranged=False,
    ),
    Column("CPU µs/chunk", "sse-16-paced", ("cpu_us_pod_chunk",), 0),
    Column(
        "to first chunk, added p50 / p99 ms",
        "sse-16-paced",
        ("added_first_p50_ms", "added_first_p99_ms"),
        ranged=False,
    ),
    Column(
        "between chunks, added p50 / p99 ms",
        "sse-16-paced",
        ("added_gap_p50_ms", "added_gap_p99_ms"),
        2,
        ranged=False,
    ),
)
LATENCY = (
    *(_added(f"json-{n}", f"saturated c={n}, p50 / p99") for n in (1, 16, 64)),
    *(_added(f"json-{n}-paced", f"paced c={n}, p50 / p99") for n in (1, 16, 64)),
)
STREAMS = (
    *(
        Column(
            f"c={n}: gap p50 / p99 ms",
            f"sse-{n}-paced",
            ("gap_p50_ms", "gap_p99_ms"),
            2,
            ranged=False,
        )
        for n in (1, 16, 64)
    ),
    *(
        Column(f"fast c={n}, chunks/s", f"sse-{n}", ("chunks_per_second",), 0)
        for n in (16, 64)
    ),
    Column("CPU µs/chunk, fast c=16", "sse-16", ("cpu_us_pod_chunk",), 0, ranged=False),
)
Extra = Callable[[str], str]


def table(
    summary: Summary,
    columns: Sequence[Column],
    extras: Sequence[tuple[str, Extra]] = (),
) -> str:
    """
    Return *columns* of all variants as Markdown; rows without a figure are left out,
    and if there is none with any, so is all of it.

    *extras* are columns of text: a title, and what gives the text of a variant.
    """
    titles = [
        "",
        *(column.title for column in columns),
        *(title for title, _ in extras),
    ]
    head = [_row(titles), "|---|" + "---:|" * (len(titles) - 1)]
    lines = []
    for variant in summary:
        cells = [cell(summary, variant, column) for column in columns]
        if set(cells) - {_NONE}:
            lines.append(
                _row([variant, *cells, *(text(variant) for _, text in extras)])
            )
    return "\n".join([*head, *lines]) if lines else ""


def cell(summary: Summary, variant: str, column: Column) -> str:
    """Return one cell's text."""
    of_load = summary.get(variant, {}).get(column.load, {})
    texts = [
        _text(next((of_load[n] for n in name.split("|") if n in of_load), None), column)
        for name in column.figure
    ]
    return _NONE if set(texts) == {_NONE} else " / ".join(texts)


def _text(found: Spread | None, column: Column) -> str:
    if found is None:
        return _NONE
    each = Spread(*(column.factor * x for x in (found.median, found.low, found.high)))
    return (
        each.text(column.digits)
        if column.ranged
        else f"{each.median:,.{column.digits}f}"
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
