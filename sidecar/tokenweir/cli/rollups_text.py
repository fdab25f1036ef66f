"""What was found about hourly sums, and done: as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from tokenweir.cli.money import dollars
from tokenweir.cli.table import Amount, Cell, table
from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.core.record import CLASSES, GROUP, HOUR_MS, difference
from tokenweir.core.rollups import RollupFinding, RollupVerdict
from tokenweir.ledger.rollups import RollupAudit

_HEAD = (
    "hour (UTC)",
    "tenant",
    "exchanges",
    "should be",
    "tokens",
    "should be",
    "cost",
    "should be",
    "differs in",
)
_ORDER = tuple(RollupVerdict)
_TOLD: Mapping[RollupVerdict, str] = {
    RollupVerdict.AGREES: "agree",
    RollupVerdict.DIFFERS: "differ",
    RollupVerdict.UNPROVEN: "tell of more than records do",
}
# Of figures that differ: more of them tell nobody more.
_MOST_NAMES = 3


def rollups_text(sums: RollupAudit, *, bold: bool) -> str:
    """Return a table of what differs by hour and tenant, and a summary."""
    parts = []
    rows = [_row(name, own) for name, own in _by_hour(sums.differing)]
    if rows:
        parts.append(table(_HEAD, rows, bold=bold))
    counts = [f"{count:,} {_TOLD[verdict]}" for verdict, count in _counts(sums).items()]
    what = "1 sum" if _total(sums) == 1 else f"{_total(sums):,} sums"
    first = _moment(sums.first_hour)
    parts.append(f"{what} by the hour since {first}: {', '.join(counts) or 'none'}")
    if sums.left:
        left = len(sums.left)
        parts.append(f"{left:,} changed again and again: repeat it for those")
    return "\n\n".join(parts)


def rollups_document(sums: RollupAudit) -> Mapping[str, object]:
    """Return everything but what agrees, for machines."""
    left = {_name(each) for each in sums.left}
    return {
        "since": _moment(sums.first_hour),
        "verdicts": {str(name): count for name, count in _counts(sums).items()},
        "differing": [_document(each) for each in sums.differing],
        "left": len(left),
    }


def _by_hour(
    differing: Iterable[RollupFinding],
) -> list[tuple[tuple[int, str], list[RollupFinding]]]:
    found: dict[tuple[int, str], list[RollupFinding]] = {}
    for each in differing:
        found.setdefault((each.hour, each.group[0]), []).append(each)
    return sorted(found.items())


def _row(name: tuple[int, str], own: Sequence[RollupFinding]) -> list[Cell]:
    hour, tenant = name
    # Those of users tell the same a second time, unless they alone differ.
    whole = [each for each in own if each.user is None] or own
    says: Counter[str] = Counter()
    should: Counter[str] = Counter()
    for each in whole:
        says.update(each.says)
        should.update(each.should)
    figures = [
        cell
        for figure in (_exchanges, _tokens, _cost)
        for cell in (figure(says), figure(should))
    ]
    begin = datetime.fromtimestamp(hour * HOUR_MS / 1_000, tz=UTC)
    return [f"{begin:%Y-%m-%d %H:%M}", tenant, *figures, _names(own)]


def _exchanges(figures: Mapping[str, int]) -> Cell:
    return figures.get("exchanges", 0)


def _tokens(figures: Mapping[str, int]) -> Cell:
    return sum(figures.get(name, 0) for name in CLASSES)


def _cost(figures: Mapping[str, int]) -> Cell:
    return Amount(f"${dollars(figures.get('cost_nanousd', 0), NANOUSD_PER_USD)}")


def _names(own: Iterable[RollupFinding]) -> str:
    """Return which figures differ: the first few."""
    names = sorted(
        {name for each in own for name in difference(each.should, each.says)}
    )
    more = len(names) - _MOST_NAMES
    rest = f" and {more} more" if more > 0 else ""
    return f"{', '.join(names[:_MOST_NAMES])}{rest}"


def _document(finding: RollupFinding) -> dict[str, object]:
    return {
        "hour": _moment(finding.hour),
        **dict(zip(GROUP, finding.group, strict=True)),
        "user": finding.user,
        "says": dict(sorted(finding.says.items())),
        "should": dict(sorted(finding.should.items())),
    }


def _name(finding: RollupFinding) -> tuple[int, tuple[str, ...], str | None]:
    return finding.hour, finding.group, finding.user


def _counts(sums: RollupAudit) -> dict[RollupVerdict, int]:
    return {name: sums.verdicts[name] for name in _ORDER if sums.verdicts.get(name)}


def _total(sums: RollupAudit) -> int:
    return sum(sums.verdicts.values())


def _moment(hour: int) -> str:
    begin = datetime.fromtimestamp(hour * HOUR_MS / 1_000, tz=UTC)
    return begin.isoformat(timespec="seconds").replace("+00:00", "Z")
