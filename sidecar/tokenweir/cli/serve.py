"""`tokenweir serve`: the processor that Envoy asks."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tokenweir.cli import EXIT_USAGE
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url
from tokenweir.cli.numbers import MAX_PORT, number

MAX_TIMEOUT_MS = 60_000
MAX_DRAIN_SECONDS = 86_400

HELP = "run the processor that Envoy asks about every exchange"
DESCRIPTION = """\
Runs the processor: Envoy hands it each exchange over a unix socket, it reserves
and settles in the ledger. Prints one JSON line per exchange. SIGHUP reads the
policy again (as does any change of the file), SIGTERM drains and ends.
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to *subparsers*."""
    parser = subparsers.add_parser("serve", help=HELP, description=DESCRIPTION)
    parser.add_argument(
        "--policy", type=Path, required=True, metavar="FILE", help="the policy, YAML"
    )
    parser.add_argument(
        "--socket",
        type=Path,
        required=True,
        metavar="PATH",
        help="unix socket that Envoy connects to; each processor needs its own",
    )
    parser.add_argument("--ledger", required=True, metavar="URL", help=LEDGER_HELP)
    parser.add_argument(
        "--ledger-timeout-ms",
        type=number(1, MAX_TIMEOUT_MS),
        default=200,
        metavar="MS",
        help="how long one call may take (default: %(default)s)",
    )
    parser.add_argument(
        "--admin",
        type=_address,
        default=("127.0.0.1", 9090),
        metavar="HOST:PORT",
        help="/healthz, /readyz and /metrics (default: 127.0.0.1:9090)",
    )
    parser.add_argument(
        "--drain-seconds",
        type=number(1, MAX_DRAIN_SECONDS),
        default=25,
        metavar="S",
        help="how long open exchanges may take after SIGTERM (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal says otherwise; return the exit code."""
    from tokenweir.app import ServeSettings, serve  # noqa: PLC0415 - heavy

    try:
        url = ledger_url(args.ledger)
    except LedgerOptionError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    host, port = args.admin
    return serve(
        ServeSettings(
            policy_path=args.policy,
            socket_path=args.socket,
            ledger_url=url,
            ledger_timeout_seconds=args.ledger_timeout_ms / 1000,
            admin_host=host,
            admin_port=port,
            drain_seconds=float(args.drain_seconds),
        ),
        os.environ,
    )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError("must be HOST:PORT")
    return host.strip("[]"), int(port)
