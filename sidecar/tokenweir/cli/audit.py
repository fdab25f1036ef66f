"""`tokenweir audit prompts`: what of prompts repeats, and what that costs."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.found_ledger import HELP as LEDGER_HELP
from tokenweir.cli.found_ledger import found_ledger_url, no_answer
from tokenweir.cli.ledger_option import LedgerOptionError
from tokenweir.cli.numbers import number
from tokenweir.cli.table import shown

if TYPE_CHECKING:  # slow
    from tokenweir.cli.audit_figures import Ranking

DAY_SECONDS = 86_400
DEFAULT_DAYS = 7
MAX_DAYS = 35  # the ledger keeps no more
DEFAULT_TOP = 20
MAX_TOP = 100_000

_HELP = "which prompts cost most, and what to shorten first"
_DESCRIPTION = """\
Find out what of prompts costs money without need.
"""
_PROMPTS = """\
Print which parts of prompts come again and again, the dearest first: definitions of
tools, system prompts, and how long messages begin. Each is told by a digest; by its text
only with --text, and only if the policy lets text be kept.

Tokens of a part are its share of the input that the provider reported (an estimate, by
bytes); "cached" is the share of them that came from the provider's cache, where it says
so. Exchanges count once they are settled. "other" is what did not come twice.

docs/audit.md tells how to read it, and every name in JSON.
"""
_EPILOG = """\
examples:
  tokenweir audit prompts                          the last seven days
  tokenweir audit prompts --tenant acme --top 5    of one tenant
  tokenweir audit prompts --days 1 --text --json   today, with texts, for programs
"""
_RIGHTS = "The user needs the rights of tokenweir-reader."


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommands."""
    parser = subparsers.add_parser("audit", help=_HELP, description=_DESCRIPTION)
    verbs = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="what", required=True
    )
    prompts = verbs.add_parser(
        "prompts",
        help=_HELP,
        description=_PROMPTS,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    prompts.add_argument("--ledger", metavar="URL", help=LEDGER_HELP)
    prompts.add_argument(
        "--days",
        type=number(1, MAX_DAYS),
        default=DEFAULT_DAYS,
        metavar="N",
        help=f"the last N days (UTC), today included (default: {DEFAULT_DAYS}, "
        f"at most {MAX_DAYS})",
    )
    prompts.add_argument("--tenant", metavar="NAME", help="only this one's prompts")
    prompts.add_argument(
        "--top",
        type=number(1, MAX_TOP),
        default=DEFAULT_TOP,
        metavar="N",
        help=f"the first N, and the sum of the others (default: {DEFAULT_TOP})",
    )
    prompts.add_argument(
        "--text", action="store_true", help="also how each begins, where that is kept"
    )
    prompts.add_argument("--json", action="store_true", help="print JSON, every figure")
    prompts.set_defaults(run=run_prompts)


def run_prompts(arguments: argparse.Namespace) -> int:
    """Print what repeats."""
    from tokenweir.core.errors import (  # noqa: PLC0415 -- slow
        LedgerRefusedError,
        LedgerUnavailableError,
    )

    try:
        url = found_ledger_url(arguments.ledger)
    except LedgerOptionError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    today = int(time.time() // DAY_SECONDS)
    days = range(today - arguments.days + 1, today + 1)
    try:
        found, texts = asyncio.run(_read(url, days, arguments))
    except LedgerRefusedError as error:
        print(f"--ledger: {error}. {_RIGHTS}", file=sys.stderr)
        return EXIT_PROBLEMS
    except LedgerUnavailableError as error:
        print(f"{no_answer(url, error)} {_RIGHTS}", file=sys.stderr)
        return EXIT_PROBLEMS
    _print(found, days, texts, arguments)
    return EXIT_FINE


async def _read(
    url: str, days: range, arguments: argparse.Namespace
) -> tuple[Ranking, dict[str, str] | None]:
    """Return what repeats, and the texts of it; None: nobody asks for them."""
    from tokenweir.cli.audit_figures import ranking  # noqa: PLC0415 -- slow
    from tokenweir.ledger.link import Link  # noqa: PLC0415 -- slow
    from tokenweir.ledger.prompts import PromptLedger  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    link = Link(url, Fanout(()))
    ledger = PromptLedger(link)
    try:
        sums = await ledger.read(days[0], days[-1], tenant=arguments.tenant)
        found = ranking(sums, arguments.top)
        if not arguments.text:
            return found, None
        return found, await ledger.texts(row.key for row in found.rows)
    finally:
        await link.close()


def _print(
    found: Ranking,
    days: range,
    texts: dict[str, str] | None,
    arguments: argparse.Namespace,
) -> None:
    from tokenweir.cli.audit_text import (  # noqa: PLC0415 -- slow
        day_text,
        document,
        table_text,
        texts_text,
    )
    from tokenweir.cli.usage import screen  # noqa: PLC0415 -- slow

    tenant = arguments.tenant
    if arguments.json:
        print(json.dumps(document(found, days, tenant, texts), indent=2))
        return
    span = f"from {day_text(days[0])} UTC until now"
    if not found.rows:
        whose = "" if tenant is None else f" of {shown(tenant)}"
        print(f"No prompts{whose} {span}, as far as this ledger knows.\n{_WHY_NONE}")
        return
    on = screen()
    print(f"Parts of prompts {span}, the dearest first\n")
    print(table_text(found, on))
    if texts is not None:
        print(f"\n{texts_text(found, texts, on.columns) or _NO_TEXTS}")


_WHY_NONE = (
    "Processors write what has come twice, every five seconds; the policy's `audit` "
    "can turn it off."
)
_NO_TEXTS = (
    "No text is kept of these: it is where the policy has `audit: {keep_prompt_text: "
    "true}`, from the next call on."
)
