"""What was found about counters of budgets, and done: as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from tokenweir.cli.money import dollars
from tokenweir.cli.table import Amount, Cell, table
from tokenweir.core.budget import MAX_SPENT, NANOUSD_PER_USD
from tokenweir.core.finding import Finding, Verdict
from tokenweir.core.policy import Axis
from tokenweir.ledger.audit import Audit
from tokenweir.ledger.rebuild import Step

_HEAD = ("budget", "whose", "window from (UTC)", "says", "should say", "by", "verdict")
_REBUILD_HEAD = ("budget", "whose", "window from (UTC)", "says", "would say", "done")
# In which order verdicts are told.
_ORDER = tuple(Verdict)
_PLURAL: Mapping[str, str] = {Verdict.AGREES: "agree"}


def verify_text(audit: Audit, *, everything: bool, bold: bool) -> str:
    """Return a table of what is wrong or in doubt (or of everything), and a summary."""
    told = [
        each
        for each in audit.findings
        if everything or each.verdict is not Verdict.AGREES
    ]
    parts = []
    if told:
        parts.append(table(_HEAD, [_row(each) for each in told], bold=bold))
    parts.append("\n".join(_summary(audit)))
    notes = [*_doubts(told), *_elsewhere(told)]
    if notes:
        parts.append("\n".join(notes))
    return "\n\n".join(parts)


def rebuild_text(steps: Sequence[Step], *, bold: bool) -> str:
    """Return a table of what was done, or would be."""
    rows = [
        [
            *_names(step.finding),
            _amount(step.finding, step.finding.counter.high),
            _amount(step.finding, _after(step)),
            _done(step),
        ]
        for step in steps
    ]
    return table(_REBUILD_HEAD, rows, bold=bold)


def verify_document(audit: Audit) -> Mapping[str, object]:
    """Return everything, for machines."""
    return {
        "at": _moment(audit.now_ms),
        "agrees": audit.agrees,
        "verdicts": _counts(audit),
        "evidence": {
            "records": audit.exchanges - audit.exported,
            "exported": audit.exported,
            "sums": audit.sums,
        },
        "findings": [_document(each) for each in audit.findings],
    }


def rebuild_document(
    audit: Audit, steps: Iterable[Step], *, applied: bool
) -> Mapping[str, object]:
    """Return what was found and done, for machines."""
    return {
        **verify_document(audit),
        "applied": applied,
        "steps": [
            {
                **_document(step.finding),
                "add": step.amendment.add,
                "becomes": _after(step),
                "done": step.done,
            }
            for step in steps
        ],
    }


def _row(finding: Finding) -> list[Cell]:
    source = ", ".join(sorted(finding.sources)) or "-"
    counter = finding.counter
    return [
        *_names(finding),
        _range(finding, counter.low, counter.high),
        "-" if finding.quota is None else _range(finding, finding.low, finding.high),
        source,
        _verdict(finding),
    ]


def _verdict(finding: Finding) -> str:
    counter, difference = finding.counter, abs(finding.difference)
    match finding.verdict:
        case Verdict.TOO_LOW | Verdict.TOO_HIGH:
            return f"{finding.verdict} by {_amount(finding, difference)}"
        case Verdict.HOLDS_DIFFER:
            reserved = _amount(finding, counter.reserved)
            held = _amount(finding, counter.held)
            return f"reserved {reserved}, but holds have {held}"
        case _:
            return finding.verdict


def _names(finding: Finding) -> list[Cell]:
    begin = datetime.fromtimestamp(finding.window.begin_ms / 1_000, tz=UTC)
    quota = finding.account.key.partition("|")[0]
    return [quota, finding.partition, f"{begin:%Y-%m-%d %H:%M}"]


def _range(finding: Finding, low: int, high: int) -> Amount:
    if low == high:
        return _amount(finding, low)
    return Amount(f"{_amount(finding, low)} to {_amount(finding, high)}")


def _amount(finding: Finding, figure: int) -> Amount:
    if _unit(finding) == "nanousd":
        return Amount(f"${dollars(figure, NANOUSD_PER_USD)}")
    return Amount(f"{figure:,}")


def _unit(finding: Finding) -> str:
    is_money = f"|{Axis.BUDGET_USD}|" in finding.account.key
    return "nanousd" if is_money else "tokens"


def _after(step: Step) -> int:
    return min(max(0, step.finding.counter.high + step.amendment.add), MAX_SPENT)


def _done(step: Step) -> str:
    return {None: "no", True: "yes", False: "set back meanwhile"}[step.done]


def _summary(audit: Audit) -> Iterator[str]:
    total = len(audit.findings)
    counts = [
        f"{count:,} {_PLURAL.get(verdict, verdict)}"
        for verdict, count in _counts(audit).items()
    ]
    what = "1 counter" if total == 1 else f"{total:,} counters"
    yield f"{what} at {_moment(audit.now_ms)}: {', '.join(counts) or 'nothing spent'}"
    own = audit.exchanges - audit.exported
    yield (
        f"evidence: {own:,} records in the ledger, {audit.exported:,} exported ones, "
        f"{audit.sums:,} hourly sums"
    )


def _counts(audit: Audit) -> dict[str, int]:
    counts = Counter(each.verdict for each in audit.findings)
    return {str(verdict): counts[verdict] for verdict in _ORDER if counts[verdict]}


def _doubts(told: Sequence[Finding]) -> Iterator[str]:
    doubts = {
        doubt
        for each in told
        if each.verdict is Verdict.UNKNOWN
        for doubt in each.doubts
    }
    yield from (f"can't tell: {doubt}" for doubt in sorted(doubts))
    if any(each.verdict is Verdict.UNKNOWN and not each.doubts for each in told):
        yield "can't tell: it is in use; look again"
    if any(each.verdict is Verdict.GONE for each in told):
        yield (
            f"{Verdict.GONE}: not in this policy, or with another calendar; such "
            "counters refuse nobody, and are left alone"
        )


def _elsewhere(told: Sequence[Finding]) -> Iterator[str]:
    for each in told:
        if each.verdict is Verdict.TOO_LOW and each.elsewhere:
            amount = _amount(each, each.elsewhere)
            quota, partition, _ = _names(each)
            yield (
                f"{quota}, {partition}: {amount} was spent under other policies; if it "
                "is new, it need not count that"
            )


def _document(finding: Finding) -> dict[str, object]:
    counter = finding.counter
    return {
        "limit": finding.account.key,
        "budget": finding.account.key.partition("|")[0],
        "partition": finding.partition,
        "unit": _unit(finding),
        "window": {
            "from": _moment(finding.window.begin_ms),
            "until": _moment(finding.window.end_ms),
        },
        "verdict": str(finding.verdict),
        "counter": {
            "spent": {"least": counter.low, "most": counter.high},
            "reserved": counter.reserved,
            "held": counter.held,
        },
        "reckoned": {"least": finding.low, "most": finding.high},
        "difference": finding.difference,
        "other_policies": finding.elsewhere,
        "sources": sorted(finding.sources),
        "doubts": sorted(finding.doubts),
    }


def _moment(moment_ms: int) -> str:
    moment = datetime.fromtimestamp(moment_ms / 1_000, tz=UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
