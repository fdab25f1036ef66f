"""`tokenweir policy`: one policy for a fleet, published through its ledger."""

from __future__ import annotations

import argparse
import getpass
import pathlib
import socket

from tokenweir.cli import Subparsers
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.numbers import number

MAX_VERSION = 2**53 - 1
MAX_COUNT = 100
DEFAULT_KEY = "tokenweir-signing-key.pem"

_HELP = "publish one policy for a fleet, and see who changed what"
_DESCRIPTION = """\
Sidecars that run with `serve --policy ledger` follow the policy that is published in
their ledger. Versions are signed: sidecars hold the public key only, so none of them
can change what the others obey. A policy with problems is not published.

  tokenweir policy keygen > governance.pub
  tokenweir policy publish policy.yaml --ledger env:ADMIN_LEDGER \\
    --signing-key file:tokenweir-signing-key.pem --comment "double acme's budget"

docs/governance.md tells how it all goes together.
"""
_KEY_HELP = (
    "file:PATH or env:NAME of the private key that versions are signed with (`tokenweir "
    "policy keygen` makes one)"
)
_PUBLIC_HELP = (
    "file:PATH or env:NAME of the public keys of those who may publish, as sidecars have "
    "it"
)
_VERIFY_HELP = f"{_PUBLIC_HELP}; without it signatures are not checked"


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "policy",
        help=_HELP,
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_keygen(actions)
    _add_publish(actions)
    _add_history(actions)
    _add_diff(actions)
    _add_rollback(actions)
    _add_show(actions)
    _add_restore(actions)


def _action(actions: Subparsers, name: str, text: str) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
    parser.set_defaults(run=_run, action=name)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from tokenweir.cli import policy_actions  # noqa: PLC0415 -- slow

    return policy_actions.run(arguments)


def _add_keygen(actions: Subparsers) -> None:
    parser = _action(
        actions,
        "keygen",
        "make a key pair: print the public key, write the private one",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path(DEFAULT_KEY),
        metavar="FILE",
        help="where the private key goes, readable by its owner only; no file is "
        "overwritten (default: %(default)s)",
    )


def _add_publish(actions: Subparsers) -> None:
    parser = _action(actions, "publish", "check a policy file, and publish it")
    parser.add_argument("file", type=pathlib.Path, metavar="FILE", help="the policy")
    _add_author(parser, comment_required=True)
    parser.add_argument(
        "--above",
        type=number(0, MAX_VERSION - 1),
        default=0,
        metavar="VERSION",
        help="after the ledger was lost: the version that sidecars still have, for they "
        "take none but higher ones",
    )
    parser.add_argument(
        "--allow-files",
        action="store_true",
        help="publish it though it refers to files of prices: each sidecar has them",
    )


def _add_history(actions: Subparsers) -> None:
    parser = _action(actions, "history", "list versions, the newest first")
    parser.add_argument(
        "--count",
        type=number(1, MAX_COUNT),
        default=20,
        metavar="N",
        help="how many at most (default: %(default)s)",
    )
    _add_reader(parser)


def _add_diff(actions: Subparsers) -> None:
    parser = _action(actions, "diff", "show what changed between two policies")
    parser.add_argument(
        "which",
        nargs="*",
        metavar="A [B]",
        help="versions or files to compare. One FILE: how it differs from the newest "
        "version. One VERSION: what has changed since. None: what the newest version "
        "has changed",
    )
    _add_reader(parser)


def _add_rollback(actions: Subparsers) -> None:
    parser = _action(actions, "rollback", "publish an old version as a new one")
    parser.add_argument(
        "version",
        type=number(1, MAX_VERSION),
        metavar="VERSION",
        help="the one whose policy comes back, under a new number",
    )
    _add_author(parser, comment_required=False)


def _add_show(actions: Subparsers) -> None:
    parser = _action(actions, "show", "print a published policy, as it was written")
    parser.add_argument(
        "version",
        type=number(1, MAX_VERSION),
        nargs="?",
        metavar="VERSION",
        help="which (default: the newest)",
    )
    _add_reader(parser)


def _add_restore(actions: Subparsers) -> None:
    parser = _action(
        actions, "restore", "bring back what a ledger has lost, from a sidecar's disk"
    )
    parser.add_argument(
        "file",
        type=pathlib.Path,
        metavar="FILE",
        help="policy.json or keys.json from the folder --last-good of a sidecar",
    )
    _add_ledger(parser)
    parser.add_argument(
        "--governance-key", required=True, metavar="WHERE", help=_PUBLIC_HELP
    )


def _add_ledger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ledger", required=True, metavar="URL", help=LEDGER_HELP)


def _add_reader(parser: argparse.ArgumentParser) -> None:
    _add_ledger(parser)
    parser.add_argument("--governance-key", metavar="WHERE", help=_VERIFY_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_author(parser: argparse.ArgumentParser, *, comment_required: bool) -> None:
    _add_ledger(parser)
    parser.add_argument("--signing-key", required=True, metavar="WHERE", help=_KEY_HELP)
    parser.add_argument(
        "--governance-key",
        metavar="WHERE",
        help="file:PATH or env:NAME of the public keys of others who publish: what they "
        "signed counts too",
    )
    parser.add_argument(
        "--comment",
        required=comment_required,
        metavar="TEXT",
        help="why, for those who read the history",
    )
    parser.add_argument(
        "--by",
        default=_user(),
        metavar="NAME",
        help="who publishes (default: USER@HOST)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _user() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        name = "unknown"
    return f"{name}@{socket.gethostname()}"
