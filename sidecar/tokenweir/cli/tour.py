"""`tokenweir tour`: what a running stack does, shown and explained."""

from __future__ import annotations

import argparse
import asyncio
import os
import pathlib
import sys
from typing import TYPE_CHECKING

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.found_ledger import LEDGER_VARIABLE, no_answer
from tokenweir.cli.key_option import HELP as KEY_HELP
from tokenweir.cli.key_option import KeyOptionError, api_key
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url
from tokenweir.cli.problems import tell
from tokenweir.core.errors import LedgerUnavailableError, PolicyError

if TYPE_CHECKING:  # slow
    from tokenweir.stack.tour.ground import Asked, Ground
    from tokenweir.stack.tour.step import Step

_DESCRIPTION = """\
Show what a running `tokenweir up` does: ask a model, stream an answer, hit a limit, read
the refusal, wait exactly as long as it says, succeed, hang up in the middle of a stream,
and see in the ledger what each of them was charged. Each step is told with the request,
as a command to copy, with what came back, and why.

It asks the mock provider that `tokenweir up` starts, so nothing is spent. It is a smoke
test too: the exit code is 1 if anything was not as promised, and what differed is told.
"""
_EPILOG = """\
examples:
  tokenweir up                       in one terminal,
  tokenweir tour                     and in another
  tokenweir tour --json              as a smoke test
  tokenweir tour --url http://127.0.0.1:4100        of several stacks, that one
  tokenweir tour --key env:OPENAI_API_KEY --yes-spend   your policy and your provider
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "tour",
        help="show what a running `tokenweir up` does, step by step",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="where apps connect to (default: the `tokenweir up` that runs here)",
    )
    parser.add_argument(
        "--admin",
        metavar="URL",
        help="the processor's admin port, asked whether it is ready (default: of the "
        "stack)",
    )
    parser.add_argument(
        "--ledger",
        metavar="URL",
        help=f"{LEDGER_HELP} (default: of the stack, else env:{LEDGER_VARIABLE})",
    )
    parser.add_argument(
        "--policy",
        type=pathlib.Path,
        metavar="FILE",
        help="the policy that holds there (default: of the stack)",
    )
    parser.add_argument(
        "--key", metavar="WHERE", help=f"{KEY_HELP} (default: the demo's)"
    )
    parser.add_argument(
        "--model", metavar="NAME", help="who is asked (default: one of the policy)"
    )
    parser.add_argument(
        "--yes-spend",
        action="store_true",
        help="go on if the provider is not the mock: about 8 calls, which may cost money",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON at the end, and nothing before"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Lead through the tour."""
    from tokenweir.stack.announcement import announced  # noqa: PLC0415 -- slow
    from tokenweir.stack.tour.ground import (  # noqa: PLC0415 -- slow
        GroundError,
        ground,
        policy_file,
    )

    found = announced()
    try:
        asked = _asked(arguments)
        place = ground(asked, found, os.environ)
    except (GroundError, KeyOptionError, LedgerOptionError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except PolicyError as error:
        tell(policy_file(asked, found), error, sys.stderr, sys.stderr)
        return EXIT_PROBLEMS
    return _tour(place, as_json=arguments.json)


def _asked(arguments: argparse.Namespace) -> Asked:
    from tokenweir.stack.tour.ground import Asked  # noqa: PLC0415 -- slow

    ledger = arguments.ledger
    if ledger is None and os.environ.get(LEDGER_VARIABLE):
        ledger = f"env:{LEDGER_VARIABLE}"
    return Asked(
        url=arguments.url,
        admin=arguments.admin and arguments.admin.rstrip("/"),
        ledger=None if ledger is None else ledger_url(ledger),
        key=None if arguments.key is None else api_key(arguments.key),
        policy=arguments.policy,
        model=arguments.model,
        may_spend=arguments.yes_spend,
    )


def _tour(ground: Ground, *, as_json: bool) -> int:
    from tokenweir.cli.tour_text import (  # noqa: PLC0415 -- slow
        Silent,
        Told,
        closing,
        document_text,
        opening,
    )
    from tokenweir.cli.up import command  # noqa: PLC0415 -- slow
    from tokenweir.stack.terminal import Terminal  # noqa: PLC0415 -- slow
    from tokenweir.stack.tour.client import NoAnswerError  # noqa: PLC0415 -- slow
    from tokenweir.stack.tour.guide import STOPS, lead  # noqa: PLC0415 -- slow

    terminal = Terminal(sys.stdout, os.environ)
    if not as_json:
        terminal.say(opening(ground))
    teller = Silent() if as_json else Told(terminal, sys.stdout, len(STOPS))
    try:
        steps = asyncio.run(lead(ground, teller))
    except NoAnswerError as error:
        print(error, file=sys.stderr)
        return EXIT_PROBLEMS
    except LedgerUnavailableError as error:
        print(no_answer(ground.ledger, error), file=sys.stderr)
        return EXIT_PROBLEMS
    if as_json:
        print(document_text(ground, steps))
    else:
        terminal.say(closing(steps, command()))
    return _code(steps)


def _code(steps: list[Step]) -> int:
    return EXIT_PROBLEMS if any(step.differences for step in steps) else EXIT_FINE
