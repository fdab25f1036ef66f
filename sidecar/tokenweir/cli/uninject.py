"""`tokenweir uninject`: manifests without sidecars of ours."""

from __future__ import annotations

import argparse

from tokenweir.cli import Subparsers
from tokenweir.cli.manifest_files import HELP, rewrite

_DESCRIPTION = """\
Print manifests as they were before `tokenweir inject`, or the webhook: without sidecars,
their volumes, and the variables that were set. Inject again for other settings or a newer
version.

  kubectl get deployment web -o yaml | tokenweir uninject - | kubectl apply -f -

Exit codes: 0 fine; 1 that is no manifest; 2 wrong usage.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "uninject",
        help="take sidecars out of Kubernetes manifests",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="FILE|DIR|-", help=HELP)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print them."""
    from tokenweir.inject.manifest import uninject_manifest  # noqa: PLC0415 -- slow

    return rewrite(args.source, uninject_manifest, "uninjected")
