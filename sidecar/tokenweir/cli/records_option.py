"""Options that say where exported records are, and reading what they say."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tokenweir.cli.ledger_option import LedgerOptionError

T = TypeVar("T")


def add_records_options(parser: argparse.ArgumentParser) -> None:
    """Add `--records` and `--table`."""
    parser.add_argument(
        "--records",
        action="append",
        default=[],
        metavar="WHERE",
        help="exported records: a file or folder of JSON lines, a postgresql:// URL, or "
        "env:NAME of a variable with one; can be given several times",
    )
    parser.add_argument(
        "--table",
        metavar="NAME",
        help="of the PostgreSQL that records are in (default: tokenweir_usage)",
    )


def records_source(given: str) -> str:
    """Return where the records are. Raises: LedgerOptionError, if nothing is said."""
    variable = given.removeprefix("env:")
    if variable == given:
        return given
    value = os.environ.get(variable, "")
    if not value:
        raise LedgerOptionError(
            f"--records: the variable {variable} is empty or not set: put a URL into it"
        )
    return value


def read_all(
    sources: Iterable[str],
    table: str | None,
    reading: Callable[[str, str], Iterator[T]],
) -> Iterator[T]:
    """Return what *reading* returns of each of *sources*; *table*: None: as usual."""
    from tokenweir.export.open_sink import DEFAULT_TABLE  # noqa: PLC0415 -- slow

    for source in sources:
        yield from reading(source, table or DEFAULT_TABLE)
