"""`tokenweir usage`: what was used, by whom."""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import json
import os
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url
from tokenweir.cli.money import digits_of, dollars
from tokenweir.cli.numbers import number
from tokenweir.cli.table import Amount, Cell, table
from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.core.usage import TokenUsage

LEDGER_VARIABLE = "TOKENWEIR_LEDGER_URL"
GROUPS = ("tenant", "key", "model")
COLUMNS = ("exchanges", "input", "cached", "output", "total", "lost", "cost USD")
CSV_COLUMNS = (
    "exchanges",
    "requests",
    "total_input_tokens",
    "cached_input_tokens",
    "total_output_tokens",
    "total_tokens",
    "outcome_lost",
    "cost_usd",
)
# What a spreadsheet takes for the beginning of a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
HOURS_A_DAY = 24
MAX_HOURS = 10_000  # the ledger keeps them for 13 months

_HELP = "what was used today and what it cost, by tenant, key and model"
_DESCRIPTION = """\
Print what was used today (UTC), by tenant, key and model, from the ledger's hourly
sums. Input includes the cached part. Lost are exchanges that nobody settled, because
their processor died: they are charged as far as it was known. An exchange belongs to
the hour in which it began; one that still runs is not in the sums. Costs are exact, at
the prices that held then; what had no price costs what was reserved for it, or 0.
"""
_FREE = """\
Tokens that cost 0.00 are free or have no price: `tokenweir prices MODEL` tells which."""

Sums = Mapping[tuple[str, ...], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Span:
    """A range of hours since 1970 (UTC), *last* included."""

    first: int
    last: int

    @property
    def begin(self) -> str:
        """When it begins, in RFC 3339."""
        return _moment(self.first)

    @property
    def end(self) -> str:
        """When it ends, in RFC 3339."""
        return _moment(self.last + 1)


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("usage", help=_HELP, description=_DESCRIPTION)
    parser.add_argument(
        "--ledger",
        metavar="URL",
        help=f"{LEDGER_HELP} "
        f"(default: env:{LEDGER_VARIABLE}, else that of a running `tokenweir up`)",
    )
    parser.add_argument(
        "--by",
        type=_groups,
        default=GROUPS,
        metavar="LIST",
        help="what sums are kept apart by, out of tenant,key,model (default: all)",
    )
    span = parser.add_mutually_exclusive_group()
    span.add_argument(
        "--today", action="store_true", help="since midnight UTC (the default)"
    )
    span.add_argument(
        "--hours",
        type=number(1, MAX_HOURS),
        metavar="N",
        help="the last N hours, this one included",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, every figure")
    form.add_argument(
        "--csv", action="store_true", help="print CSV, for spreadsheets: no total"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the sums."""
    from tokenweir.core.errors import LedgerUnavailableError  # noqa: PLC0415 -- slow

    try:
        url = _ledger_url(arguments.ledger)
    except LedgerOptionError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    span = _span(time.time(), arguments.hours)
    try:
        sums = asyncio.run(_read(url, span, arguments.by))
    except LedgerUnavailableError:
        print(_no_answer(url), file=sys.stderr)
        return EXIT_PROBLEMS
    if arguments.json:
        print(json.dumps(_document(span, arguments.by, sums), indent=2))
    elif arguments.csv:
        print(_csv(arguments.by, sums), end="")
    elif sums:
        print(_report(arguments.by, sums, bold=_is_terminal()))
    else:
        print(f"Nothing was used from {span.begin} on, as far as this ledger knows.")
    return EXIT_FINE


async def _read(url: str, span: Span, by: Sequence[str]) -> Sums:
    from tokenweir.ledger.redis import RedisStore  # noqa: PLC0415 -- slow
    from tokenweir.ledger.usage import GroupBy, usage  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    store = RedisStore(url, Fanout(()))
    try:
        groups = [GroupBy[name.upper()] for name in by]
        return await usage(store, span.first, span.last, groups)
    finally:
        await store.close()


# === what is printed ==============================================================


def _report(by: Sequence[str], sums: Sums, *, bold: bool) -> str:
    ordered = _sorted(sums)
    groups = [group for group, _ in ordered]
    figures = [figures for _, figures in ordered]
    if len(ordered) > 1:
        groups.append(("total", *[""] * (len(by) - 1)))
        figures.append(_total(sums))
    digits = max(digits_of(_cost(each), NANOUSD_PER_USD) for each in figures)
    rows = [
        [*group, *_cells(each, digits)]
        for group, each in zip(groups, figures, strict=True)
    ]
    text = table([*by, *COLUMNS], rows, bold=bold)
    costless = any(_usage(each).total_tokens and not _cost(each) for each in figures)
    return f"{text}\n\n{_FREE}" if costless else text


def _cells(figures: Mapping[str, int], digits: int) -> list[Cell]:
    used = _usage(figures)
    return [
        figures.get("exchanges", 0),
        used.total_input_tokens,
        used.cached_input_tokens,
        used.total_output_tokens,
        used.total_tokens,
        figures.get("outcome_lost", 0),
        Amount(dollars(_cost(figures), NANOUSD_PER_USD, digits)),
    ]


def _document(span: Span, by: Sequence[str], sums: Sums) -> Mapping[str, object]:
    return {
        "from": span.begin,
        "until": span.end,
        "by": list(by),
        "rows": [
            {**dict(zip(by, group, strict=True)), **_figures(figures)}
            for group, figures in _sorted(sums)
        ],
        "total": _figures(_total(sums)),
    }


def _csv(by: Sequence[str], sums: Sums) -> str:
    """Return the rows with a head, as RFC 4180 has it, also if there are none."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*by, *CSV_COLUMNS])
    for group, figures in _sorted(sums):
        told = _figures(figures)
        names = map(_no_formula, group)
        writer.writerow([*names, *(told[column] for column in CSV_COLUMNS)])
    return text.getvalue()


def _no_formula(name: str) -> str:
    """Return *name* so that no spreadsheet runs it: clients chose some of them."""
    return f"'{name}" if name.startswith(_FORMULAS) else name


def _total(sums: Sums) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for figures in sums.values():
        total.update(figures)
    return total


def _figures(figures: Mapping[str, int]) -> Mapping[str, int | str]:
    """Return all figures, those that are 0 too, and the sums over the classes."""
    used = _usage(figures)
    known = {"exchanges": 0, "requests": 0, **asdict(used), "outcome_lost": 0}
    return {
        **known,
        **figures,
        "cost_nanousd": _cost(figures),
        "cost_usd": dollars(_cost(figures), NANOUSD_PER_USD),
        "total_input_tokens": used.total_input_tokens,
        "total_output_tokens": used.total_output_tokens,
        "total_tokens": used.total_tokens,
    }


def _usage(figures: Mapping[str, int]) -> TokenUsage:
    return TokenUsage(**{name: figures.get(name, 0) for name in asdict(TokenUsage())})


def _cost(figures: Mapping[str, int]) -> int:
    return figures.get("cost_nanousd", 0)


def _sorted(sums: Sums) -> list[tuple[tuple[str, ...], Mapping[str, int]]]:
    """Return the groups, who used most first."""
    return sorted(
        sums.items(), key=lambda item: (-_usage(item[1]).total_tokens, item[0])
    )


def _is_terminal() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


# === what is asked for ============================================================


def _no_answer(url: str) -> str:
    from tokenweir.ledger.address import place  # noqa: PLC0415 -- slow

    return (
        f"--ledger: no answer from {place(url)}. Does it run, and do user and password "
        "fit?"
    )


def _ledger_url(given: str | None) -> str:
    """Return the URL that *given* says. Raises: LedgerOptionError, if there is none."""
    if given is not None:
        return ledger_url(given)
    if os.environ.get(LEDGER_VARIABLE):
        return ledger_url(f"env:{LEDGER_VARIABLE}")
    return _running_stack()


def _running_stack() -> str:
    """Return the URL of the ledger that `tokenweir up` has embedded."""
    from tokenweir.stack.folder import PREFIX, SHORT_PARENT  # noqa: PLC0415 -- slow

    found = sorted(
        {
            path
            for parent in (tempfile.gettempdir(), SHORT_PARENT)
            for path in Path(parent).glob(f"{PREFIX}*/ledger.sock")
            if _accepts(path)
        }
    )
    if len(found) > 1:
        urls = "".join(f"\n  --ledger unix://{path}" for path in found)
        raise LedgerOptionError(
            f"More than one `tokenweir up` runs here. Say which:{urls}"
        )
    if not found:
        raise LedgerOptionError(
            "No `tokenweir up` with a ledger of its own runs here. Say where the ledger "
            f"is, by --ledger or in {LEDGER_VARIABLE}."
        )
    return f"unix://{found[0]}"


def _accepts(path: Path) -> bool:
    """Tell if somebody listens: a stack that was killed leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def _span(now_s: float, hours: int | None) -> Span:
    last = int(now_s // 3_600)
    if hours is None:
        return Span(last - last % HOURS_A_DAY, last)
    return Span(last - hours + 1, last)


def _groups(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not set(names) <= set(GROUPS) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"must be a list out of {','.join(GROUPS)}")
    return names


def _moment(hour: int) -> str:
    return datetime.fromtimestamp(hour * 3_600, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
