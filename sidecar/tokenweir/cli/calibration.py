"""`tokenweir calibration`: what estimates are corrected by, and how to forget it."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.found_ledger import HELP as LEDGER_HELP
from tokenweir.cli.found_ledger import found_ledger_url, no_answer
from tokenweir.cli.ledger_option import LedgerOptionError

if TYPE_CHECKING:  # slow
    from tokenweir.core.calibration import Learned
    from tokenweir.ledger.calibration import CalibrationLedger, Spot

_HELP = "what estimates of tokens are corrected by"
_DESCRIPTION = """\
Tell what was learned from providers' reports about estimates of tokens, or forget it.
"""
_LIST = """\
Print the factors that estimates are corrected by: reported tokens by those estimated
without a correction. One with too few samples is not used yet.

docs/counting.md tells what they are learned from, and how far they go.
"""
_RESET = """\
Forget what was learned of a tenant's estimates. Processors follow within 15 seconds, and
learn anew from what providers report.
"""
_EPILOG = """\
examples:
  tokenweir calibration list                                 of all tenants
  tokenweir calibration list --tenant acme --json            of one, for programs
  tokenweir calibration reset --tenant acme                  all that is known of it
  tokenweir calibration reset --tenant acme --model local-7b of one model
"""
_NOTHING = (
    "Nothing was learned{whose}, as far as this ledger knows. Processors write what "
    "providers have reported every five seconds."
)
_LIST_RIGHTS = "The user needs the rights of tokenweir-reader."
_RESET_RIGHTS = "The user needs the rights of a processor's."


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommands."""
    parser = subparsers.add_parser("calibration", help=_HELP, description=_DESCRIPTION)
    verbs = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="what", required=True
    )
    for name, text in (("list", _LIST), ("reset", _RESET)):
        verb = verbs.add_parser(
            name,
            help=_HELP if name == "list" else "forget what was learned",
            description=text,
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        verb.add_argument("--ledger", metavar="URL", help=LEDGER_HELP)
        verb.add_argument(
            "--tenant",
            metavar="NAME",
            required=name == "reset",
            help="only of this one" if name == "list" else "whose",
        )
        verb.add_argument(
            "--model", metavar="NAME", help="only of this one, by its provider's name"
        )
        verb.add_argument("--json", action="store_true", help="for machines")
        verb.set_defaults(run=run_list if name == "list" else run_reset)


def run_list(arguments: argparse.Namespace) -> int:
    """Print what is known."""
    return _run(arguments, _LIST_RIGHTS)


def run_reset(arguments: argparse.Namespace) -> int:
    """Forget what is known, and print what it was."""
    return _run(arguments, _RESET_RIGHTS)


def _run(arguments: argparse.Namespace, rights: str) -> int:
    from tokenweir.core.errors import (  # noqa: PLC0415 -- slow
        LedgerRefusedError,
        LedgerUnavailableError,
    )

    try:
        url = found_ledger_url(arguments.ledger)
    except LedgerOptionError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    try:
        known = asyncio.run(_done(url, arguments))
    except LedgerRefusedError as error:
        print(f"--ledger: {error}. {rights}", file=sys.stderr)
        return EXIT_PROBLEMS
    except LedgerUnavailableError as error:
        print(f"{no_answer(url, error)} {rights}", file=sys.stderr)
        return EXIT_PROBLEMS
    _print(known, arguments)
    return EXIT_FINE


async def _done(url: str, arguments: argparse.Namespace) -> Mapping[Spot, Learned]:
    """Return what was asked about, after it was forgotten if that was asked for."""
    from tokenweir.ledger.calibration import CalibrationLedger  # noqa: PLC0415 -- slow
    from tokenweir.ledger.link import Link  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    link = Link(url, Fanout(()))
    ledger = CalibrationLedger(link)
    try:
        known = await _known(ledger, arguments.tenant, arguments.model)
        if arguments.what == "reset" and known:
            await ledger.forget(arguments.tenant, list(known))
        return known
    finally:
        await link.close()


async def _known(
    ledger: CalibrationLedger, tenant: str | None, model: str | None
) -> Mapping[Spot, Learned]:
    tenants = await ledger.tenants() if tenant is None else [tenant]
    return {
        spot: learned
        for spot, learned in sorted((await ledger.read(tenants)).items(), key=_order)
        if model in (None, spot[0].model)
    }


def _order(item: tuple[Spot, Learned]) -> tuple[str, ...]:
    (place, side), _ = item
    return (place.tenant, place.provider, place.model, place.route, side)


def _print(known: Mapping[Spot, Learned], arguments: argparse.Namespace) -> None:
    from tokenweir.cli.calibration_text import (  # noqa: PLC0415 -- slow
        document,
        table_text,
    )
    from tokenweir.cli.usage import screen  # noqa: PLC0415 -- slow

    is_reset = arguments.what == "reset"
    if arguments.json:
        told = document(known)
        print(json.dumps({"forgotten" if is_reset else "learned": told}, indent=2))
        return
    if not known:
        whose = "" if arguments.tenant is None else f" of {arguments.tenant}"
        print(_NOTHING.format(whose=whose))
        return
    if is_reset:
        print("Forgotten:\n")
    print(table_text(known, bold=screen().bold))
