"""
The command line: parsing arguments and printing, nothing else.

`main` puts it together from one module a subcommand. Each has `add_parser`, which
must be quick, and sets `run` as the parser's default: it gets the parsed arguments
and returns the exit code. What takes time to import is imported in `run`.

Exit codes: 0 fine, 1 problems were found, 2 the command was used wrongly.
"""

from __future__ import annotations

import argparse
from typing import Any, Protocol

EXIT_FINE = 0
EXIT_PROBLEMS = 1
EXIT_USAGE = 2


class Subparsers(Protocol):
    """What `argparse.ArgumentParser.add_subparsers` returns."""

    def add_parser(self, name: str, **kwargs: Any) -> argparse.ArgumentParser:
        """Return the parser of a new subcommand."""
