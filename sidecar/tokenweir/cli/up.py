"""`tokenweir up`: a whole stack on this machine."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url
from tokenweir.cli.numbers import number, port
from tokenweir.cli.problems import tell
from tokenweir.cli.transport_option import add_transport_option

MAX_WORKERS = 64

_DESCRIPTION = """\
Runs all of Tokenweir on this machine, until Ctrl-C: Envoy, the processor, and, where
nothing else is given, a ledger in memory and a mock provider with a demo policy.
Then prints how to call it, and a line for each exchange.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "up", help="run all of it on this machine", description=_DESCRIPTION
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="your policy, with your providers (default: a demo and a mock provider)",
    )
    parser.add_argument(
        "--port",
        type=port,
        default=4000,
        help="where apps connect to (default: %(default)s)",
    )
    parser.add_argument(
        "--admin-port",
        type=port,
        default=9090,
        metavar="PORT",
        help="metrics and health of the first worker; further ones have the ports "
        "after it (default: %(default)s)",
    )
    parser.add_argument(
        "--ledger",
        metavar="URL",
        help=f"{LEDGER_HELP} (default: an embedded Valkey, which forgets all at the end)",
    )
    parser.add_argument(
        "--workers",
        type=number(1, MAX_WORKERS),
        default=1,
        metavar="N",
        help="processors (default: %(default)s)",
    )
    add_transport_option(parser)
    parser.add_argument(
        "--log-dir",
        type=Path,
        metavar="DIR",
        help="where logs stay (default: in a private folder that goes at the end)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run a stack until a signal ends it."""
    try:
        url = None if arguments.ledger is None else ledger_url(arguments.ledger)
    except LedgerOptionError as error:
        return _refuse(str(error), EXIT_USAGE)

    from tokenweir.core.errors import PolicyError  # noqa: PLC0415 -- slow
    from tokenweir.stack.failure import (  # noqa: PLC0415 -- slow
        ChildFailedError,
        StackError,
    )
    from tokenweir.stack.local_stack import LocalStack  # noqa: PLC0415 -- slow
    from tokenweir.stack.settings import StackSettings  # noqa: PLC0415 -- slow
    from tokenweir.stack.terminal import Terminal  # noqa: PLC0415 -- slow

    settings = StackSettings(
        policy=arguments.policy,
        port=arguments.port,
        admin_port=arguments.admin_port,
        ledger_url=url,
        workers=arguments.workers,
        transport=arguments.transport,
        log_dir=arguments.log_dir,
    )
    terminal = Terminal(sys.stdout, os.environ)
    try:
        LocalStack(settings, os.environ, terminal, command()).run()
    except PolicyError as error:
        tell(arguments.policy, error, sys.stdout, sys.stderr)
        return EXIT_PROBLEMS
    except ChildFailedError as error:
        hint = "" if arguments.log_dir else "\nWith --log-dir DIR its whole log stays."
        return _refuse(f"{error}{hint}", EXIT_PROBLEMS)
    except StackError as error:
        return _refuse(str(error), EXIT_PROBLEMS)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _refuse(
            f"Can't be run: {where}{error.strerror or error}. TMPDIR and --log-dir say "
            "where it may write.",
            EXIT_PROBLEMS,
        )
    return EXIT_FINE


def command() -> str:
    """Return how the user calls this program in another terminal."""
    here = Path(sys.executable).with_name("tokenweir")
    found = shutil.which("tokenweir")
    if found is not None and Path(found) == here:
        return "tokenweir"
    return str(here) if here.exists() else f"{sys.executable} -m tokenweir"


def _refuse(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code
