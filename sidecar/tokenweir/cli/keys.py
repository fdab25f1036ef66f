"""`tokenweir keys`: API keys, and the hashes that a policy knows them by."""

from __future__ import annotations

import argparse
import getpass
import json
import re
import sys

from tokenweir.cli import EXIT_FINE, EXIT_USAGE, Subparsers
from tokenweir.cli.issued_keys import add_actions, add_ledger, add_signer, run_issue
from tokenweir.cli.key_scopes import add_scopes, scopes_of
from tokenweir.cli.secret import new_secret, sha256_of

# What people make up is shorter, and can be found by trying.
_GUESSABLE_CHARS = 32

# More than any header takes.
_MAX_KEY_CHARS = 8192

_VISIBLE_ASCII = re.compile(r"[!-~]+")

_HELP = "make API keys, issue them to a fleet, or hash those that you have"
_TENANT = "TENANT"
_DESCRIPTION = """\
An API key proves which tenant an app is. A policy does not hold keys, but their
hashes: `new` makes a key and prints its entry for the policy file, `hash` hashes a key
that you have.

With --ledger, `new` issues the key to a whole fleet instead: its hash is published
through the ledger, signed, and every sidecar that follows it (`tokenweir serve
--governance-key`) knows the key within 2 s. `list`, `rotate`, `revoke` and `restore` are
for those keys. docs/keys.md tells more.
"""
_NEW_DESCRIPTION = """\
Make a new API key. It is shown once and kept nowhere: the policy gets its SHA-256.

  tokenweir keys new --id ci --tenant acme           prints an entry for the policy file
  tokenweir keys new --id ci --tenant acme --expires 90d \\
    --ledger env:LEDGER --signing-key file:key.pem   issues it to every sidecar
"""

_HASH_DESCRIPTION = """\
Read a key that you already have, from the terminal (it is not shown) or from a
pipe, and print the SHA-256 that the policy wants:

  tokenweir keys hash < key.txt
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "keys",
        help=_HELP,
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    new = actions.add_parser(
        "new",
        help="make a new key",
        description=_NEW_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    new.add_argument(
        "--id", required=True, help="what the key is called in logs and reports"
    )
    new.add_argument(
        "--tenant", default=_TENANT, help="who pays; has to be said with --ledger"
    )
    add_scopes(new)
    add_ledger(new, required=False)
    add_signer(new, required=False)
    new.set_defaults(run=run_new)
    hashing = actions.add_parser(
        "hash",
        help="print the SHA-256 of a key",
        description=_HASH_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    hashing.set_defaults(run=run_hash)
    add_actions(actions)


def run_new(arguments: argparse.Namespace) -> int:
    """Make a key, and print it and its entry, or issue it."""
    from tokenweir.config.scalar import NAME_PATTERN  # noqa: PLC0415 -- slow

    for name in (arguments.id, arguments.tenant):
        if not re.fullmatch(NAME_PATTERN, name):
            return _refuse(
                "An id or tenant begins with a letter or digit, and has no other "
                "characters than those and ._- (at most 63)."
            )
    if arguments.ledger is not None:
        return _issue(arguments)
    key = new_secret()
    print(f"The key, shown this once; the app sends it as its API key:\n\n  {key}\n")
    print(f"Its entry for the policy, under tenants.{arguments.tenant}.keys:\n")
    # JSON is YAML too.
    scopes = "".join(
        f", {name}: {json.dumps(value)}" for name, value in scopes_of(arguments).items()
    )
    print(f'  - {{id: {arguments.id}, sha256: "{sha256_of(key)}"{scopes}}}')
    return EXIT_FINE


def _issue(arguments: argparse.Namespace) -> int:
    if arguments.tenant == _TENANT:
        return _refuse("--tenant: say whose key it is to be.")
    if arguments.signing_key is None:
        return _refuse(
            "--signing-key: is needed with --ledger, since sidecars use only what is "
            "signed (`tokenweir policy keygen` makes one)."
        )
    return run_issue(arguments)


def run_hash(arguments: argparse.Namespace) -> int:
    """Read a key and print its hash."""
    del arguments  # it takes none
    key = _read_key().removesuffix("\n").removesuffix("\r")
    if not key:
        return _refuse("No key was given: type it, or pipe it in.")
    if not _VISIBLE_ASCII.fullmatch(key) or len(key) > _MAX_KEY_CHARS:
        return _refuse("That can't be a key: a key is one word in visible ASCII.")
    if len(key) < _GUESSABLE_CHARS:
        print(
            "Note: a key this short may be guessed from its hash; "
            "`tokenweir keys new` makes one that can't be.",
            file=sys.stderr,
        )
    print(sha256_of(key))
    return EXIT_FINE


def _read_key() -> str:
    if sys.stdin.isatty():
        return getpass.getpass("Key (not shown): ")
    # Only as much as shows that it is too much.
    return sys.stdin.read(_MAX_KEY_CHARS + 3)


def _refuse(text: str) -> int:
    print(text, file=sys.stderr)
    return EXIT_USAGE
