"""`tokenweir schema`: the policy file's JSON Schema."""

from __future__ import annotations

import argparse
import json

from tokenweir.cli import EXIT_FINE, Subparsers

_DESCRIPTION = """\
Print the JSON Schema of the policy file (draft 2020-12).

With it, editors complete and check a policy while it is written. For those that
use yaml-language-server, write it to a file once and put this line into the policy:

  # yaml-language-server: $schema=policy.schema.json
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "schema",
        help="print the policy file's JSON Schema, for editors",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    del arguments  # it takes none
    from tokenweir.config.json_schema import json_schema  # noqa: PLC0415 -- slow

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return EXIT_FINE
