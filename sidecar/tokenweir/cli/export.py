"""`tokenweir export`: usage records, to files or to a database."""

from __future__ import annotations

import argparse
import sys

from tokenweir.cli import EXIT_USAGE, Subparsers
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.numbers import MAX_PORT, number

LEDGER_VARIABLE = "TOKENWEIR_LEDGER_URL"
TABLE = "tokenweir_usage"
# How long a record waits for others. A batch of Parquet is a file: few and large.
INTERVAL_SECONDS = 1
PARQUET_INTERVAL_SECONDS = 300
BATCH_ROWS = 2_000
PARQUET_BATCH_ROWS = 20_000
MAX_BATCH_ROWS = 50_000
MAX_INTERVAL_SECONDS = 3_600

_HELP = "export usage records to JSON lines, Parquet or PostgreSQL"
_DESCRIPTION = """\
Export the usage record of every exchange from the ledger, which keeps them for
seven days. SINK is one of:

  jsonl:DIR          a file of JSON lines for each day
  parquet:DIR        Parquet files      (pip install 'tokenweir[parquet]')
  postgresql://…     a table            (pip install 'tokenweir[postgres]')
  env:NAME           a variable with one of these, for URLs with a password

Every record arrives, if need be twice; a table has each once. Runs until SIGTERM;
it may be killed and started again at any time. Several may run for one PostgreSQL.
"""
_EPILOG = """\
`tokenweir export --lag` prints how far behind each exporter is. More: docs/export.md
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "export",
        help=_HELP,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sink", nargs="?", metavar="SINK", help="where to, see above")
    parser.add_argument(
        "--ledger",
        metavar="URL",
        help=f"{LEDGER_HELP} (default: env:{LEDGER_VARIABLE})",
    )
    parser.add_argument(
        "--name",
        help="of the consumer group: each name gets every record once (default: "
        "made from SINK)",
    )
    parser.add_argument(
        "--once", action="store_true", help="export what is there, and end: for cron"
    )
    parser.add_argument(
        "--from-start",
        action="store_true",
        help="begin with the oldest record that the ledger still has, exported or not",
    )
    _add_tuning(parser)
    parser.add_argument(
        "--lag", action="store_true", help="print how far behind exporters are, and end"
    )
    parser.add_argument("--json", action="store_true", help="print that as JSON")
    parser.set_defaults(run=run)


def _add_tuning(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--consumer",
        metavar="NAME",
        help="of this process in its group; one that is killed and started again under "
        "the same name goes on at once (default: one that is new each time)",
    )
    parser.add_argument(
        "--table",
        default=TABLE,
        help="in PostgreSQL; SCHEMA.TABLE is possible (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-rows",
        type=number(2, MAX_BATCH_ROWS),
        metavar="N",
        help=f"the most records in hand (default: {BATCH_ROWS:,}; Parquet "
        f"{PARQUET_BATCH_ROWS:,})",
    )
    parser.add_argument(
        "--interval",
        type=number(1, MAX_INTERVAL_SECONDS),
        metavar="S",
        help="how long a record may wait for others to be written with it (default: "
        f"{INTERVAL_SECONDS}; Parquet {PARQUET_INTERVAL_SECONDS})",
    )
    parser.add_argument(
        "--admin",
        type=_address,
        metavar="HOST:PORT",
        help="serve /metrics and /healthz there (default: nowhere)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export, or print the lag; return the exit code."""
    from tokenweir.cli.export_run import export, print_lag  # noqa: PLC0415 -- slow

    if arguments.lag:
        return print_lag(arguments)
    if arguments.json or arguments.sink is None:
        problem = "--json goes with --lag" if arguments.json else "SINK is missing"
        print(f"{problem}. `tokenweir export --help` says more.", file=sys.stderr)
        return EXIT_USAGE
    return export(arguments)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError("must be HOST:PORT")
    return host.strip("[]"), int(port)
