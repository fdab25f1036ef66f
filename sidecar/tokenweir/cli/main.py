"""The command `tokenweir`, put together from its subcommands."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tokenweir import __version__
from tokenweir.cli import EXIT_PROBLEMS, EXIT_USAGE

# In the order of the help text. Each is a module of this package.
SUBCOMMANDS = (
    "up",
    "tour",
    "serve",
    "check",
    "explain",
    "keys",
    "policy",
    "usage",
    "audit",
    "calibration",
    "export",
    "ledger",
    "prices",
    "render",
    "inject",
    "uninject",
    "webhook",
    "guard",
    "after",
    "schema",
)

# What shells say of a command that was ended by Ctrl-C.
_EXIT_INTERRUPTED = 130

_DESCRIPTION = """\
Limits, counts and prices LLM traffic by tokens, from beside Envoy, and says so in plain
words if a call does not fit.

Limits and API keys are in one YAML file, the policy. What is used of each limit is kept
in Redis or Valkey, the ledger, which all sidecars share. Policies and keys can be
published to a fleet through it as well.
"""

_EPILOG = """\
begin with:
  tokenweir up                            all of it on this machine, to try
  tokenweir tour                          what that does, step by step
  tokenweir keys new --id ID              a new API key, and its entry for the policy
  tokenweir check policy.yaml             what is wrong with a policy, all at once
  tokenweir explain --policy policy.yaml --key-id ID request.json
                                          what would become of a request

`tokenweir COMMAND --help` says more about each. Exit codes: 0 fine, 1 problems
found, 2 wrong usage.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (without the program's name); return the exit code."""
    arguments = _parsed(_parser(), argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        code = run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # Who read the output has seen enough. Python would flush once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PROBLEMS
    return code


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong and where help is, instead of the whole usage."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        """Say *message* and leave."""
        self.exit(
            EXIT_USAGE, f"{self.prog}: {message}\n`{self.prog} --help` says more.\n"
        )


class _Help(argparse.RawDescriptionHelpFormatter):
    """Leaves room for the indent of commands, which argparse forgets."""

    def add_argument(self, action: argparse.Action) -> None:
        """Add *action*, and see how long the names in it are."""
        super().add_argument(action)
        if action.nargs == argparse.PARSER:
            self._action_max_length += self._indent_increment


def _parsed(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> argparse.Namespace:
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        # argparse has only the outermost parser say this, whose help does not help.
        parser.prog = f"{parser.prog} {arguments.command}"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tokenweir",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=_Help,
    )
    parser.add_argument(
        "--version", action="version", version=f"tokenweir {__version__}"
    )
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for name in SUBCOMMANDS:
        importlib.import_module(f"tokenweir.cli.{name}").add_parser(subparsers)
    return parser
