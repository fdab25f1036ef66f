"""
`tokenweir keys` with a ledger: keys that every sidecar knows within two seconds.

A secret is printed when it is published, on stdout, once. It is never logged, and
nothing but its SHA-256 leaves this process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import json
import os
import pathlib
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.key_scopes import add_expires, scopes_of, span_ms
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url
from tokenweir.cli.secret import new_secret, sha256_of
from tokenweir.core.errors import (
    LedgerUnavailableError,
    PolicyError,
    TokenweirError,
)

if TYPE_CHECKING:
    from tokenweir.governance.envelope import Envelope
    from tokenweir.governance.key_desk import Signer

_NS_PER_MS = 1_000_000
_EFFECT = "Every sidecar that watches this ledger knows it within 2 s."
_NO_ANSWER = (
    "--ledger: no answer. Does it run, and do user and password fit? Whether anything "
    "was changed is not known: `tokenweir keys list` shows it."
)
_NOT_ALLOWED = (
    "--ledger: its server does not allow this user to do that. Sidecars may only read "
    "what is published: changes need a user such as tokenweir-admin in deploy/redis."
)


_LIST = (
    "show the keys that were issued: how each stands and what it may do, and no more of "
    "a hash than its first eight digits"
)
_ROTATE = (
    "give an issued key a new secret: it is printed once; limits and records go on "
    "under the key's id"
)
_REVOKE = (
    "refuse an issued key for good: with all secrets that it has had; its id does not "
    "come back"
)
_RESTORE = (
    "bring back the last good keys, from a sidecar's disk: for a ledger to which somebody "
    "has written who should not; after one that was lost, `policy restore` is enough"
)
_WHO_MAY = (
    "file:PATH or env:NAME of the public keys of those who may publish, as sidecars have "
    "it; without it signatures are not checked"
)
_OTHERS = (
    "file:PATH or env:NAME of the public keys of others who publish: what they signed "
    "counts too"
)


class Change(Protocol):
    """What makes the next document of keys."""

    def __call__(self, document: str | None, *, now_ms: int) -> str:
        """Return what follows on *document* (None: there is none) at *now_ms*."""


def add_ledger(
    parser: argparse.ArgumentParser, *, required: bool, signers: str = _OTHERS
) -> None:
    """Add ``--ledger``, and ``--governance-key`` with the help *signers*."""
    parser.add_argument("--ledger", required=required, metavar="URL", help=LEDGER_HELP)
    parser.add_argument("--governance-key", metavar="WHERE", help=signers)


def add_signer(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add who signs."""
    parser.add_argument(
        "--signing-key",
        required=required,
        metavar="WHERE",
        help="file:PATH or env:NAME of the private key that the change is signed with "
        "(`tokenweir policy keygen` makes one)",
    )
    parser.add_argument(
        "--by", metavar="NAME", help="who makes the change (default: USER@HOST)"
    )


def add_actions(actions: Subparsers) -> None:
    """Add ``list``, ``rotate``, ``revoke`` and ``restore``."""
    listing = _action(actions, "list", _LIST)
    add_ledger(listing, required=True, signers=_WHO_MAY)
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=run_list)

    rotating = _action(actions, "rotate", _ROTATE)
    rotating.add_argument("id", metavar="ID", help="of the key, as `list` shows it")
    add_ledger(rotating, required=True)
    add_signer(rotating, required=True)
    rotating.add_argument(
        "--grace",
        type=span_ms,
        default=span_ms("24h"),
        metavar="TIME",
        help="how long the old secret still works: 24h, 30m, 7d, 0 (default: 24h)",
    )
    add_expires(rotating, "as the old secret would be")
    rotating.set_defaults(run=run_rotate)

    revoking = _action(actions, "revoke", _REVOKE)
    revoking.add_argument("id", metavar="ID", help="of the key, as `list` shows it")
    add_ledger(revoking, required=True)
    add_signer(revoking, required=True)
    revoking.set_defaults(run=run_revoke)

    restoring = _action(actions, "restore", _RESTORE)
    restoring.add_argument(
        "file",
        type=pathlib.Path,
        metavar="FILE",
        help="keys.json, from the folder of `tokenweir serve --last-good`",
    )
    add_ledger(restoring, required=True)
    add_signer(restoring, required=True)
    restoring.set_defaults(run=run_restore)


def _action(actions: Subparsers, name: str, text: str) -> argparse.ArgumentParser:
    first, _, rest = text.partition(": ")
    description = f"{first.capitalize()}{f': {rest}' if rest else ''}."
    return actions.add_parser(name, help=first, description=description)


def run_issue(arguments: argparse.Namespace) -> int:
    """Make a key, publish it, and print its secret."""
    from tokenweir.config import key_changes  # noqa: PLC0415 -- slow

    secret = new_secret()
    key = {"id": arguments.id, "tenant": arguments.tenant, "sha256": sha256_of(secret)}
    key |= scopes_of(arguments)

    def make(document: str | None, *, now_ms: int) -> str:
        return key_changes.issue(document, key, now_ms)

    code = _change(arguments, make, f"issue {arguments.id}")
    if code == EXIT_FINE:
        _show(secret, f"Key {arguments.id} of tenant {arguments.tenant} is issued.")
        _advise(arguments)
    return code


def _advise(arguments: argparse.Namespace) -> None:
    """Say what keeps the new key from working, as far as that can be seen from here."""
    from tokenweir.config.key_advice import key_advice  # noqa: PLC0415 -- slow
    from tokenweir.governance.key_desk import published_policy_at  # noqa: PLC0415

    # The key is issued: a ledger that falls silent now is no reason to say otherwise.
    with contextlib.suppress(LedgerUnavailableError):
        policy = asyncio.run(published_policy_at(ledger_url(arguments.ledger)))
        for line in (
            key_advice(policy, arguments.tenant, arguments.id) if policy else ()
        ):
            print(f"Note: {line}", file=sys.stderr)


def run_rotate(arguments: argparse.Namespace) -> int:
    """Make a new secret for a key, publish it, and print it."""
    from tokenweir.config import key_changes  # noqa: PLC0415 -- slow
    from tokenweir.config.moment import moment_text  # noqa: PLC0415 -- slow

    secret = new_secret()

    def make(document: str | None, *, now_ms: int) -> str:
        return key_changes.rotate(
            document,
            arguments.id,
            sha256_of(secret),
            now_ms,
            grace_ms=arguments.grace,
            expires_at=arguments.expires,
        )

    code = _change(arguments, make, f"rotate {arguments.id}")
    if code == EXIT_FINE:
        until = moment_text(_now_ms() + arguments.grace)
        old = f"works until {until} at most" if arguments.grace else "is refused"
        _show(secret, f"Key {arguments.id} has a new secret; the old one {old}.")
    return code


def run_revoke(arguments: argparse.Namespace) -> int:
    """Refuse a key from now on."""
    from tokenweir.config import key_changes  # noqa: PLC0415 -- slow

    def make(document: str | None, *, now_ms: int) -> str:
        return key_changes.revoke(document, arguments.id, now_ms)

    code = _change(arguments, make, f"revoke {arguments.id}")
    if code == EXIT_FINE:
        print(f"Key {arguments.id} is revoked. {_EFFECT}")
        print("Answers that had begun by then come to their end, and are charged.")
    return code


def run_restore(arguments: argparse.Namespace) -> int:
    """Publish anew what a sidecar has kept."""
    from tokenweir.config.files import Files, UnreadableFileError  # noqa: PLC0415
    from tokenweir.governance.envelope import MAX_STORED_BYTES, decoded  # noqa: PLC0415
    from tokenweir.governance.key_desk import (  # noqa: PLC0415 -- slow
        KeyDeskError,
        restore_at,
    )

    def publish() -> None:
        url, signer = ledger_url(arguments.ledger), _signer(arguments)
        try:
            kept = decoded(Files().read(arguments.file, MAX_STORED_BYTES))
        except (UnreadableFileError, TokenweirError) as error:
            raise KeyDeskError(f"{arguments.file} {error}.") from None
        made = asyncio.run(restore_at(url, signer, kept, _now_ms()))
        print(f"Version {kept.version} is in force again, as {made.version}. {_EFFECT}")

    return _attempt(publish)


def run_list(arguments: argparse.Namespace) -> int:
    """Show the keys."""
    from tokenweir.cli.key_list import as_json, as_table  # noqa: PLC0415 -- slow
    from tokenweir.config.issued_keys import parse_issued_keys  # noqa: PLC0415
    from tokenweir.config.key_states import key_states  # noqa: PLC0415 -- slow
    from tokenweir.governance.key_desk import newest_at  # noqa: PLC0415 -- slow
    from tokenweir.governance.key_files import public_keys  # noqa: PLC0415 -- slow

    found: list[Envelope | None] = []

    def read() -> None:
        where = arguments.governance_key
        known = public_keys(where, os.environ) if where else ()
        url = ledger_url(arguments.ledger)
        found.append(asyncio.run(newest_at(url, known)))

    code = _attempt(read)
    if code != EXIT_FINE:
        return code
    envelope = found[0]
    document = envelope.content if envelope else None
    try:
        entries = parse_issued_keys(document) if document else ()
    except PolicyError as error:
        return _problems(error)
    states = list(key_states(entries, _now_ms()))
    if arguments.json:
        version = envelope.version if envelope else 0
        keys = as_json(states, document)
        print(json.dumps({"version": version, "keys": keys}, indent=2))
    elif states:
        print(as_table(states, bold=sys.stdout.isatty()))
    else:
        print("No key is issued.")
    if envelope and not arguments.governance_key:
        print("Not verified: --governance-key was not given.", file=sys.stderr)
    return EXIT_FINE


def _change(arguments: argparse.Namespace, make: Change, comment: str) -> int:
    """Publish what *make* makes of the keys; return the exit code."""
    from tokenweir.governance.key_desk import change_at  # noqa: PLC0415 -- slow

    def publish() -> None:
        now_ms = _now_ms()
        url = ledger_url(arguments.ledger)
        change = partial(make, now_ms=now_ms)
        asyncio.run(change_at(url, _signer(arguments), change, now_ms, comment))

    return _attempt(publish)


def _signer(arguments: argparse.Namespace) -> Signer:
    """Return who signs. Raises: KeyFileError."""
    from tokenweir.governance.key_desk import Signer  # noqa: PLC0415 -- slow
    from tokenweir.governance.key_files import (  # noqa: PLC0415 -- slow
        private_key,
        public_keys,
    )

    where = arguments.governance_key
    return Signer(
        private_key(arguments.signing_key, os.environ),
        public_keys(where, os.environ) if where else (),
        arguments.by or f"{getpass.getuser()}@{socket.gethostname()}",
    )


def _attempt(action: Callable[[], None]) -> int:
    """Do *action*; say what keeps it from being done, and return the exit code."""
    from tokenweir.governance.key_files import KeyFileError  # noqa: PLC0415 -- slow

    try:
        action()
    except PolicyError as error:
        return _problems(error)
    except (LedgerOptionError, KeyFileError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except LedgerUnavailableError as error:
        from tokenweir.ledger.advice import advice  # noqa: PLC0415 -- slow

        silent = f"{_NO_ANSWER} {advice(error)}".strip()
        print(_NOT_ALLOWED if _is_forbidden(error) else silent, file=sys.stderr)
        return EXIT_PROBLEMS
    except TokenweirError as error:
        print(error, file=sys.stderr)
        return EXIT_PROBLEMS
    return EXIT_FINE


def _is_forbidden(error: LedgerUnavailableError) -> bool:
    # The one state of a server that does not pass by itself.
    cause = error.__cause__
    return "NOPERM" in str(cause) or type(cause).__name__ == "NoPermissionError"


def _problems(error: PolicyError) -> int:
    for problem in error.problems:
        print(problem, file=sys.stderr)
    print("Nothing was changed. docs/keys.md has every field.", file=sys.stderr)
    return EXIT_PROBLEMS


def _show(secret: str, text: str) -> None:
    print(f"The key, shown this once; the app sends it as its API key:\n\n  {secret}\n")
    print(f"{text} {_EFFECT}")


def _now_ms() -> int:
    return time.time_ns() // _NS_PER_MS
