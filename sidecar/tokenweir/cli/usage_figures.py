"""
What a usage report says, before it is a table, JSON or CSV.

Figures come by the names that rollups have for them (see `tokenweir.core.record`);
one that is 0 may be missing. Only sums are made here, so that all forms of a report
agree, and with each other's totals.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from tokenweir.core.tally import Tallied, tallied_in
from tokenweir.core.usage import TokenUsage

GROUPS = ("tenant", "key", "user", "model", "provider", "route", "day", "hour")
TIMES = ("day", "hour")
CLASSES = tuple(asdict(TokenUsage()))

Figures = Mapping[str, int]
Sums = Mapping[tuple[str, ...], Figures]


class Sort(enum.StrEnum):
    """What comes first: the dearest, who used most, or the first by name or time."""

    COST = "cost"
    TOKENS = "tokens"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one *group*: a value for each of what sums are kept apart by."""

    group: tuple[str, ...]
    figures: Figures


@dataclass(frozen=True, slots=True)
class Report:
    """
    A usage report.

    Attributes:
        by: What sums are kept apart by.
        rows: In the order asked for.
        others: The sum of the groups that have no row; None: all have one.
        other_groups: How many those are.
        total: Of all groups.
    """

    by: tuple[str, ...]
    rows: tuple[Row, ...]
    others: Figures | None
    other_groups: int
    total: Figures


def report(
    by: Sequence[str], sums: Sums, *, sort: Sort | None = None, top: int | None = None
) -> Report:
    """
    Return what there is to say of *sums*.

    Args:
        by: What they are kept apart by.
        sums: Figures by group.
        sort: None: by time if *by* begins with it, else the dearest first.
        top: How many groups have a row of their own; None: all.
    """
    order = sort or (Sort.NAME if by and by[0] in TIMES else Sort.COST)
    rows = sorted((Row(*item) for item in sums.items()), key=_ORDERS[order])
    kept, rest = rows[:top], rows[len(rows[:top]) :]
    others = sum_of(row.figures for row in rest) if rest else None
    total = sum_of(sums.values())
    return Report(tuple(by), tuple(kept), others, len(rest), total)


def sum_of(several: Iterable[Figures]) -> Figures:
    """Return the sums of *several*, name by name."""
    total: Counter[str] = Counter()
    for figures in several:
        total.update(figures)
    return dict(total)


def cost_nanousd(figures: Figures) -> int:
    """Return what it cost."""
    return figures.get("cost_nanousd", 0)


def usage_of(figures: Figures) -> TokenUsage:
    """Return the tokens by class."""
    return TokenUsage(**{name: figures.get(name, 0) for name in CLASSES})


def reported_tokens(figures: Figures) -> int:
    """Return the tokens that providers reported: what is neither counted nor estimated."""
    others = (figures.get(f"tokens_{name}", 0) for name in ("counted", "estimated"))
    return usage_of(figures).total_tokens - sum(others)


def counted(figures: Figures) -> Tallied:
    """Return what refused, what would have, and what applied; most first."""
    found = tallied_in(figures)
    return Tallied(
        _most_first(found.refused_by),
        _most_first(found.refused_for),
        _most_first(found.shadowed),
        _most_first(found.matched),
    )


def refused(figures: Figures) -> int:
    """Return the number of refusals."""
    return tallied_in(figures).refusals


def is_used(figures: Figures) -> bool:
    """
    Tell if there is anything to say.

    Else it is only known that limits apply to the group: no exchange has ended yet.
    """
    return bool(figures.get("exchanges") or refused(figures))


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    found = [(name, count) for name, count in counts.items() if count]
    return dict(sorted(found, key=lambda item: (-item[1], item[0])))


def _by_cost(row: Row) -> tuple[int, int, tuple[str, ...]]:
    return -cost_nanousd(row.figures), -usage_of(row.figures).total_tokens, row.group


def _by_tokens(row: Row) -> tuple[int, int, tuple[str, ...]]:
    return -usage_of(row.figures).total_tokens, -cost_nanousd(row.figures), row.group


def _by_name(row: Row) -> tuple[int, int, tuple[str, ...]]:
    return 0, 0, row.group


_ORDERS: Mapping[Sort, Callable[[Row], tuple[int, int, tuple[str, ...]]]] = {
    Sort.COST: _by_cost,
    Sort.TOKENS: _by_tokens,
    Sort.NAME: _by_name,
}
