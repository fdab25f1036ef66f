"""`tokenweir usage`: what was used, by whom, and what it cost."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.found_ledger import HELP as LEDGER_HELP
from tokenweir.cli.found_ledger import found_ledger_url, no_answer
from tokenweir.cli.ledger_option import LedgerOptionError
from tokenweir.cli.numbers import number
from tokenweir.cli.table import shown
from tokenweir.cli.usage_bars import blocks_for
from tokenweir.cli.usage_figures import (
    GROUPS,
    TIMES,
    Report,
    Sort,
    Sums,
    is_used,
    report,
)
from tokenweir.cli.usage_formats import csv_text, document
from tokenweir.cli.usage_layout import Screen
from tokenweir.cli.usage_span import Span, between, bound, last_hours, month, today
from tokenweir.cli.usage_table import report_text

DEFAULT_GROUPS = ("tenant", "key", "model")
# Beside the columns of a watch there is room for two names.
WATCH_GROUPS = ("tenant", "model")
MAX_HOURS = 10_000  # the ledger keeps them for 13 months
MAX_TOP = 1_000_000
WATCH_TOP = 15
EVERY_SECONDS, MAX_EVERY_SECONDS = 2, 3_600
_NOT_WATCHED = ("today", "hours", "month", "csv", "classes", "sort")
# What pipes and files are written for.
PIPE_COLUMNS = 80

_HELP = "what was used and what it cost, by tenant, key, model and more"
_DESCRIPTION = """\
Print what was used and what it cost, from the ledger's hourly sums: today (UTC) and by
tenant, key and model, unless asked otherwise. Input includes the cached part. Shares are
of the cost, or of the tokens if nothing cost anything.

Calls that were out of the ordinary are told besides: refused; cut (the app left, or the
provider broke off); failed (at the provider); drained (a stopping processor let them go);
lost (their processor died: they are charged as far as it was known); and those without a
price, which cost what was reserved for them, or nothing. Costs are exact, at the prices
that held then; tables round them.

A call belongs to the hour in which it began; one that still runs is not in the sums.
docs/usage.md has examples, and every name in JSON.
"""
_EPILOG = """\
examples:
  tokenweir usage                                   today
  tokenweir usage --by day,model --month 2026-11    a month, day by day
  tokenweir usage --by user --tenant acme --top 10  who of acme's users costs most
  tokenweir usage --by hour --hours 24 --csv        for a spreadsheet
  tokenweir usage watch                             what goes on now
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "usage",
        help=_HELP,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("watch",),
        metavar="watch",
        help="show what is used at present, again and again: in the last minute, since "
        "the hour began, and in flight; Ctrl-C ends it",
    )
    parser.add_argument("--ledger", metavar="URL", help=LEDGER_HELP)
    parser.add_argument(
        "--by",
        type=groups,
        metavar="LIST",
        help=f"what sums are kept apart by, in that order, out of {','.join(GROUPS)} "
        f"(default: {','.join(DEFAULT_GROUPS)}; of watch: {','.join(WATCH_GROUPS)}); "
        "users are told by a code, those of the last 35 days",
    )
    parser.add_argument("--tenant", metavar="NAME", help="only what this one used")
    _add_span(parser)
    _add_form(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the sums, once or again and again."""
    from tokenweir.core.errors import LedgerUnavailableError  # noqa: PLC0415 -- slow

    try:
        url = found_ledger_url(arguments.ledger)
        span = _span(arguments, time.time())
        _require_fitting(arguments)
    except (LedgerOptionError, ValueError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    try:
        if arguments.what:
            _watch(url, arguments)
        else:
            _report(url, span, arguments)
    except LedgerUnavailableError as error:
        print(no_answer(url, error), file=sys.stderr)
        return EXIT_PROBLEMS
    return EXIT_FINE


def groups(text: str) -> tuple[str, ...]:
    """Read a list of what sums can be kept apart by."""
    names = tuple(name.strip() for name in text.split(","))
    if not set(names) <= set(GROUPS) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(
            f"must be a list out of {','.join(GROUPS)}, each once"
        )
    return names


def screen() -> Screen:
    """Return what standard output can show."""
    is_terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns
    return Screen(
        columns if is_terminal else PIPE_COLUMNS,
        bold=is_terminal and "NO_COLOR" not in os.environ,
        cuts_names=is_terminal,
        blocks=blocks_for(sys.stdout.encoding),
    )


def _add_span(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which hours (UTC)")
    span = group.add_mutually_exclusive_group()
    span.add_argument(
        "--today", action="store_true", help="since midnight (the default)"
    )
    span.add_argument(
        "--hours",
        type=number(1, MAX_HOURS),
        metavar="N",
        help="the last N hours, this one included",
    )
    span.add_argument("--month", type=month, metavar="YYYY-MM", help="that month")
    span.add_argument(
        "--from",
        dest="first",
        type=bound,
        metavar="WHEN",
        help="from a day (2026-11-30) or a moment (2026-11-30T12:00:00Z) on; "
        "parts of an hour are told as the whole hour",
    )
    group.add_argument(
        "--to",
        dest="last",
        type=bound,
        metavar="WHEN",
        help="with --from: until that day, included, or that moment (default: now)",
    )


def _add_form(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how it is told")
    group.add_argument(
        "--sort",
        choices=[sort.value for sort in Sort],
        metavar="WHAT",
        help="cost, tokens or name: what comes first (default: the highest cost; "
        "the first hour or day, if the list begins with those)",
    )
    group.add_argument(
        "--top",
        type=number(1, MAX_TOP),
        metavar="N",
        help="only the first N groups, and the sum of the others",
    )
    group.add_argument(
        "--classes", action="store_true", help="each class of tokens in the table"
    )
    group.add_argument(
        "--every",
        type=number(1, MAX_EVERY_SECONDS),
        metavar="SECONDS",
        help=f"with watch: between two looks (default: {EVERY_SECONDS})",
    )
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, every figure")
    form.add_argument(
        "--csv", action="store_true", help="print CSV, for spreadsheets: no total"
    )


def _span(arguments: argparse.Namespace, now_s: float) -> Span:
    """Return the hours that are asked for. Raises: ValueError, and says why."""
    if arguments.last is not None and arguments.first is None:
        raise ValueError("--to: goes with --from: say where it begins, too")
    if arguments.first is not None:
        return between(arguments.first, arguments.last, now_s)
    if arguments.month is not None:
        found: Span = arguments.month
        return found
    if arguments.hours is not None:
        return last_hours(now_s, arguments.hours)
    return today(now_s)


def _require_fitting(arguments: argparse.Namespace) -> None:
    """Raises: ValueError, if an option is not one of a watch, or of a report."""
    if not arguments.what:
        if arguments.every:
            raise ValueError("--every: goes with watch: `tokenweir usage watch`")
        return
    told = {f"--{name}": getattr(arguments, name) for name in _NOT_WATCHED}
    told |= {"--from": arguments.first, "--to": arguments.last}
    for option, value in told.items():
        if value:
            raise ValueError(f"{option}: not with watch, which is about the present")
    if times := set(arguments.by or ()) & set(TIMES):
        raise ValueError(
            f"--by: no {min(times)} with watch, which is about the present"
        )


def _watch(url: str, arguments: argparse.Namespace) -> None:
    from tokenweir.cli.usage_watch import (  # noqa: PLC0415 -- slow
        FullScreen,
        Lines,
        run_watch,
    )
    from tokenweir.cli.usage_watch_text import Terms  # noqa: PLC0415 -- slow

    terms = Terms(
        arguments.by or WATCH_GROUPS,
        arguments.tenant,
        arguments.every or EVERY_SECONDS,
        arguments.top or WATCH_TOP,
    )
    draws = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    display = (
        FullScreen(sys.stdout, terms, screen)
        if draws and not arguments.json
        else Lines(sys.stdout, terms, as_json=arguments.json)
    )
    run_watch(url, terms, display)


def _report(url: str, span: Span, arguments: argparse.Namespace) -> None:
    by = arguments.by or DEFAULT_GROUPS
    sums = asyncio.run(_read(url, span, by, arguments.tenant))
    sort = arguments.sort and Sort(arguments.sort)
    _print(report(by, sums, sort=sort, top=arguments.top), span, arguments)


async def _read(url: str, span: Span, by: Sequence[str], tenant: str | None) -> Sums:
    from tokenweir.ledger.redis import RedisStore  # noqa: PLC0415 -- slow
    from tokenweir.ledger.usage import GroupBy, usage  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    store = RedisStore(url, Fanout(()))
    try:
        kept_apart = [GroupBy[name.upper()] for name in by]
        return await usage(store, span.first, span.last, kept_apart, tenant=tenant)
    finally:
        await store.close()


def _print(found: Report, span: Span, arguments: argparse.Namespace) -> None:
    tenant, words = arguments.tenant, span.words(time.time())
    if arguments.json:
        print(json.dumps(document(found, span, tenant), indent=2))
    elif arguments.csv:
        print(csv_text(found), end="")
    elif is_used(found.total):
        print(report_text(found, words, screen(), classes=arguments.classes))
    else:
        whose = "" if tenant is None else f" by {shown(tenant)}"
        print(f"Nothing was used{whose} from {words}, as far as this ledger knows.")
