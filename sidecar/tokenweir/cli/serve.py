"""`tokenweir serve`: the processor that Envoy asks."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

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
    parser.add_argument(
        "--ledger",
        required=True,
        metavar="URL",
        help="redis://, rediss:// or unix:// URL, or env:NAME of a variable with one",
    )
    parser.add_argument(
        "--ledger-timeout-ms",
        type=_positive,
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
        type=_positive,
        default=25,
        metavar="S",
        help="how long open exchanges may take after SIGTERM (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal says otherwise; return the exit code."""
    from tokenweir.app import ServeSettings, serve  # noqa: PLC0415 - heavy

    url = args.ledger
    if url.startswith("env:"):
        url = os.environ.get(url.removeprefix("env:"), "")
        if not url:
            print(f"--ledger: the variable {args.ledger.removeprefix('env:')} is empty")
            return 2
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


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError("must be HOST:PORT")
    return host.strip("[]"), int(port)
