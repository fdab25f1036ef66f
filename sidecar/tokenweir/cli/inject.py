"""`tokenweir inject`: manifests with sidecars in their pods."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from tokenweir.cli import EXIT_USAGE, Subparsers
from tokenweir.cli.inject_options import add_inject_options, inject_settings
from tokenweir.cli.manifest_files import HELP, rewrite
from tokenweir.core.errors import TokenweirError

_DESCRIPTION = """\
Print manifests with Tokenweir's sidecars in each pod: processor and Envoy. Apps are told
by variables such as OPENAI_BASE_URL to call those, and stay as they are. What has
sidecars already is left alone; what has no pod is passed on.

  kubectl get deployment web -o yaml | tokenweir inject - | kubectl apply -f -

Each resource is told of on standard error, a line each: injected, skipped or failed, and
why. If one fails, nothing is printed. docs/kubernetes/injection.md has all that pods can
say by label and annotation.

Exit codes: 0 fine, skipped or not; 1 one of them can't have sidecars, or that is no
manifest; 2 wrong usage.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "inject",
        help="put sidecars into Kubernetes manifests",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="FILE|DIR|-", help=HELP)
    add_inject_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print them."""
    from tokenweir.inject.manifest import inject_manifest  # noqa: PLC0415 -- slow

    try:
        settings = inject_settings(args)
    except TokenweirError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    return rewrite(args.source, partial(inject_manifest, settings=settings), "injected")
