"""
A usage report for people: what was used and what it cost, with bars; what ended out of
the ordinary; which limits refused how much; and what was saved.

What is 0 everywhere is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from textwrap import fill

from tokenweir.cli.money import MIN_DIGITS
from tokenweir.cli.table import Amount, Cell
from tokenweir.cli.usage_figures import (
    Figures,
    Report,
    cost_nanousd,
    counted,
    is_used,
    refused,
    reported_tokens,
    usage_of,
)
from tokenweir.cli.usage_layout import Line, Screen, fits, fitted
from tokenweir.core.budget import NANOUSD_PER_USD

# So many digits of the smallest cost are told, leading zeros not counted.
TELLING_DIGITS = 2
MIN_NOTE = 40
ABRIDGED_FROM = 100_000
_UNITS = (("B", 10**9), ("M", 10**6), ("k", 10**3))
NANO_DIGITS = 9
NOBODY = "-"
UNKNOWN = Amount("")
TOTAL = "total"
FREE = """\
Tokens that cost 0.00 are free or have no price: `tokenweir prices MODEL` tells which."""

CLASS_HEADS = {
    "input_tokens": "input",
    "cached_input_tokens": "cached",
    "cache_write_tokens": "write 5m",
    "cache_write_1h_tokens": "write 1h",
    "audio_input_tokens": "audio in",
    "image_input_tokens": "image in",
    "output_tokens": "output",
    "reasoning_tokens": "reasoning",
    "audio_output_tokens": "audio out",
    "image_output_tokens": "image out",
}
ODD_HEADS = {
    "outcome_cut": "cut",
    "outcome_upstream_failed": "failed",
    "outcome_drained": "drained",
    "outcome_lost": "lost",
    "unpriced": "unpriced",
}
SOURCES = {
    "reported": "reported by the provider",
    "counted": "counted from what passed",
    "estimated": "estimated",
}

Column = tuple[str, Callable[[Figures], Cell]]


def report_text(report: Report, span: str, screen: Screen, *, classes: bool) -> str:
    """
    Return *report* as lines of text.

    Args:
        report: Of something that was used.
        span: What hours it is about, in words.
        screen: Where it is printed.
        classes: Tell each class of tokens.
    """
    parts = [
        f"Used from {span}",
        _main_table(report, screen, classes=classes),
        _odd_table(report, screen),
        _refusals(report.total, screen),
        "\n".join(fill(note, max(screen.columns, MIN_NOTE)) for note in _notes(report)),
    ]
    return "\n\n".join(part for part in parts if part)


def told_digits(costs: Sequence[int]) -> int:
    """Return how many digits after the point tell each of *costs* (nano-USD)."""
    least = min((cost for cost in costs if cost > 0), default=NANOUSD_PER_USD)
    zeros = NANO_DIGITS - len(str(least))
    digits = min(max(zeros + TELLING_DIGITS, MIN_DIGITS), NANO_DIGITS)
    while digits > MIN_DIGITS and all(money(c, digits).endswith("0") for c in costs):
        digits -= 1
    return digits


def money(nanousd: int, digits: int) -> Amount:
    """Return a cost in US dollars, rounded to *digits* after the point."""
    step = Decimal(1).scaleb(-digits)
    rounded = (Decimal(nanousd) / NANOUSD_PER_USD).quantize(step, ROUND_HALF_UP)
    return Amount(f"{rounded:,f}")


def abridged(figure: int) -> Amount:
    """Return *figure* in at most six characters, such as ``"2.47M"``, up to a trillion."""
    if abs(figure) < ABRIDGED_FROM:
        return Amount(f"{figure:,}")
    unit, size = next(each for each in _UNITS if abs(figure) >= each[1])
    digits = max(0, 3 - len(str(abs(figure) // size)))
    return Amount(f"{figure / size:.{digits}f}{unit}")


def name_shown(name: str, by: str) -> str:
    """Return a group's *name* as people read it; *by* says what it is one of."""
    if by == "hour":  # "2026-11-30T04:00:00Z"
        return name[:16].replace("T", " ")
    return name or NOBODY


def _main_table(report: Report, screen: Screen, *, classes: bool) -> str:
    measure = cost_nanousd if cost_nanousd(report.total) else _tokens
    head, lines = _main_lines(report, _columns(report.total, classes=classes), measure)
    if screen.cuts_names and not fits(head, lines, screen):
        columns = _columns(report.total, classes=classes, narrow=True)
        head, lines = _main_lines(report, columns, measure)
    return fitted(head, lines, screen, measure(report.total))


def _main_lines(
    report: Report, columns: Iterable[Column], measure: Callable[[Figures], int]
) -> tuple[Line, list[Line]]:
    """Return the head and the lines of the main table."""
    found = list(_lines(report))
    digits = told_digits([cost_nanousd(figures) for _, figures in found])
    columns = [
        *columns,
        ("cost USD", lambda figures: money(cost_nanousd(figures), digits)),
    ]
    lines = [
        Line(
            names,
            tuple(value(figures) for _, value in columns),
            None if names[0] == TOTAL else measure(figures),
        )
        for names, figures in found
    ]
    return Line(report.by, tuple(head for head, _ in columns)), lines


def _odd_table(report: Report, screen: Screen) -> str:
    """Return who had exchanges that were refused or cut, or have no price."""
    columns: list[Column] = [
        (head, _figure(name))
        for name, head in ODD_HEADS.items()
        if report.total.get(name)
    ]
    if refused(report.total):
        columns.insert(0, ("refused", refused))
    found = [
        Line(names, tuple(value(figures) for _, value in columns))
        for names, figures in _lines(report)
    ]
    odd = [line for line in found if any(line.cells)]
    if len(odd) == 2 and odd[-1].names[0] == TOTAL:
        odd.pop()  # it says what the line above it says
    head = Line(report.by, tuple(head for head, _ in columns))
    return fitted(head, odd, screen) if odd else ""


def _refusals(total: Figures, screen: Screen) -> str:
    """Return which limit has refused how much, and of how many that it applied to."""
    found = counted(total)
    limits = dict.fromkeys((*found.refused_by, *found.shadowed))
    rows: list[tuple[str, int, Cell, Cell]] = [
        (
            limit,
            found.refused_by.get(limit, 0),
            found.shadowed.get(limit, 0),
            found.matched.get(limit, UNKNOWN),
        )
        for limit in limits
    ]
    rows += [(reason, count, 0, UNKNOWN) for reason, count in found.refused_for.items()]
    # What is in shadow mode refuses nobody: it is told what it would have done.
    shadow = bool(found.shadowed)
    heads = ("refused", "would have", "of") if shadow else ("refused", "of")
    lines = [
        Line((name,), (refused_, in_shadow, of) if shadow else (refused_, of))
        for name, refused_, in_shadow, of in rows
    ]
    return fitted(Line(("refused by",), heads), lines, screen) if lines else ""


def _notes(report: Report) -> Iterator[str]:
    """Yield what else there is to know of the total."""
    total = report.total
    tokens = {
        "reported": reported_tokens(total),
        **{name: total.get(f"tokens_{name}", 0) for name in ("counted", "estimated")},
    }
    sources = [
        f"{total[f'source_{name}']:,} {words} ({tokens[name]:,} tokens)"
        for name, words in SOURCES.items()
        if total.get(f"source_{name}")
    ]
    if sources:
        yield f"Figures of calls: {', '.join(sources)}."
    yield from _savings(total)
    groups = [figures for _, figures in _lines(report)]
    if any(_tokens(figures) and not cost_nanousd(figures) for figures in groups):
        yield FREE


def _savings(total: Figures) -> Iterator[str]:
    saved = [total.get(name, 0) for name in ("saved_nanousd", "cap_saved_nanousd")]
    downgrades, caps = (money(each, told_digits(saved)) for each in saved)
    if total.get("downgraded"):
        yield (
            f"Downgrades: {total['downgraded']:,} went to a cheaper model. The ones that "
            f"were asked for would have cost {downgrades} USD more."
        )
    if total.get("capped"):
        yield (
            f"Answers with a cap of the policy: {total['capped']:,}; cut off by it: "
            f"{total.get('cap_reached', 0):,}. That saved at most {caps} USD."
        )


# === lines and columns ============================================================


def _lines(report: Report) -> Iterator[tuple[tuple[str, ...], Figures]]:
    """Yield names and figures of all lines of a table."""
    for row in report.rows:
        if is_used(row.figures):
            yield tuple(map(name_shown, row.group, report.by)), row.figures
    rest = [""] * (len(report.by) - 1)
    if report.others is not None:
        yield (f"{report.other_groups:,} others", *rest), report.others
    if len(report.rows) > 1 or report.others is not None:
        yield (TOTAL, *rest), report.total


def _columns(
    total: Figures, *, classes: bool, narrow: bool = False
) -> Iterator[Column]:
    """Yield what is told of each group; *narrow*: in less room."""
    told: Callable[[int], Cell] = abridged if narrow else int
    tokens = partial(_told, told)
    yield "calls", _figure("exchanges")
    if classes:
        for name, head in CLASS_HEADS.items():
            if total.get(name):
                yield head, tokens(_figure(name))
        yield "total", tokens(_tokens)
        return
    yield "input", tokens(lambda found: usage_of(found).total_input_tokens)
    if total.get("cached_input_tokens") and not narrow:
        yield "cached", _figure("cached_input_tokens")
    yield "output", tokens(lambda found: usage_of(found).total_output_tokens)


def _told(
    tell: Callable[[int], Cell], value: Callable[[Figures], int]
) -> Callable[[Figures], Cell]:
    return lambda found: tell(value(found))


def _figure(name: str) -> Callable[[Figures], int]:
    return lambda found: found.get(name, 0)


def _tokens(figures: Figures) -> int:
    return usage_of(figures).total_tokens
