"""`tokenweir serve`: the processor that Envoy asks."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenweir.cli import EXIT_USAGE
from tokenweir.cli.envoy_options import add_envoy_options, envoy_settings
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.ledger_option import ledger_url
from tokenweir.cli.numbers import MAX_PORT, number
from tokenweir.cli.transport_option import add_transport_option
from tokenweir.core.errors import TokenweirError

if TYPE_CHECKING:
    from tokenweir.governance.source import SourceSettings

# What is not the name of a file here; ./ledger is.
FROM_LEDGER = "ledger"
MAX_TIMEOUT_MS = 60_000
MAX_DRAIN_SECONDS = 86_400

HELP = "run the processor that Envoy asks about every exchange"
DESCRIPTION = """\
Run the processor: Envoy hands it each exchange over a unix socket, and it reserves
and settles in the ledger. It prints one JSON line per exchange. SIGHUP has it read
the policy again (as does any change of it), SIGTERM drains and ends it.

The ledger is one Redis or Valkey, one that Sentinels name, or a Cluster, such as
  --ledger redis+sentinel://s1:26379,s2:26379,s3:26379/service
  --ledger redis+cluster://n1:6379,n2:6379
A URL with a password goes into a variable: --ledger env:LEDGER_URL.
"""


class GovernanceOptionError(TokenweirError):
    """Options that don't go together. The text says what is missing."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to *subparsers*."""
    parser = subparsers.add_parser(
        "serve",
        help=HELP,
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_policy(parser)
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
        help="serves /healthz, /readyz, /policy and /metrics (default: 127.0.0.1:9090)",
    )
    parser.add_argument(
        "--drain-seconds",
        type=number(1, MAX_DRAIN_SECONDS),
        default=25,
        metavar="S",
        help="how long open exchanges may take after SIGTERM (default: %(default)s)",
    )
    add_transport_option(parser)
    add_envoy_options(parser)
    parser.set_defaults(run=run)


def _add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        required=True,
        metavar="FILE",
        help='the policy, YAML; or the word "ledger": what is published there',
    )
    parser.add_argument(
        "--governance-key",
        metavar="WHERE",
        help="file:PATH or env:NAME of the public keys of those who may publish; API "
        "keys that are published count then, beside those of a policy FILE too",
    )
    parser.add_argument(
        "--last-good",
        type=Path,
        metavar="DIR",
        help="keeps what was published last, for a start without ledger "
        "(default: tokenweir-last-good beside the socket)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal says otherwise; return the exit code."""
    from tokenweir.app import serve  # noqa: PLC0415 - heavy
    from tokenweir.processor.settings import ServeSettings  # noqa: PLC0415 - heavy

    try:
        url = ledger_url(args.ledger)
        source = _source(args)
        envoy = envoy_settings(args)
    except (TokenweirError, ValueError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    host, port = args.admin
    return serve(
        ServeSettings(
            policy=source,
            socket_path=args.socket,
            ledger_url=url,
            ledger_timeout_seconds=args.ledger_timeout_ms / 1000,
            admin_host=host,
            admin_port=port,
            drain_seconds=float(args.drain_seconds),
            transport=args.transport,
            envoy=envoy,
            envoy_binary=args.envoy_binary,
        ),
        os.environ,
    )


def _source(args: argparse.Namespace) -> SourceSettings:
    """Return where the policy is. Raises: TokenweirError, saying what is missing."""
    from tokenweir.governance.source import SourceSettings  # noqa: PLC0415 - heavy

    path = None if args.policy == FROM_LEDGER else Path(args.policy)
    if args.governance_key is None:
        if path is None:
            raise GovernanceOptionError(
                "--policy ledger needs --governance-key, the public key of those who "
                "may publish; `tokenweir policy keygen` makes one"
            )
        return SourceSettings(path)
    from tokenweir.governance.key_files import public_keys  # noqa: PLC0415 - heavy

    keys = public_keys(args.governance_key, os.environ)
    kept = args.last_good or args.socket.absolute().parent / "tokenweir-last-good"
    return SourceSettings(path, keys, kept)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError("must be HOST:PORT")
    return host.strip("[]"), int(port)
