"""`tokenweir after`: a program that starts once a file is there."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from tokenweir.cli import EXIT_PROBLEMS, Subparsers

_POLL_SECONDS = 0.1
# What shells say of a program that SIGTERM has ended.
_EXIT_TERMINATED = 143
_DESCRIPTION = """\
Wait until FILE is there, then become PROGRAM. Plain sidecars start all at once, and Envoy
can't without what the processor writes first:

  tokenweir after /run/tokenweir/xds/bootstrap.json envoy -c /run/tokenweir/xds/bootstrap.json
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "after",
        help="start a program once a file is there",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="what to wait for")
    parser.add_argument("program", metavar="PROGRAM", help="what to start then")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="…", help="its arguments"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Wait, and become the program; returns only if there is none."""
    # The first process of a container is ended by no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_EXIT_TERMINATED))
    while not args.file.exists():
        time.sleep(_POLL_SECONDS)
    try:
        os.execvp(args.program, [args.program, *args.arguments])  # noqa: S606
    except OSError as error:
        why = (error.strerror or "can't be run").lower()
        print(f"{args.program}: {why}. Is it in this image?", file=sys.stderr)
    return EXIT_PROBLEMS
