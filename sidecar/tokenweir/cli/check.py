"""`tokenweir check`: what is wrong with a policy, or what it says."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.check_ledger import (
    Found,
    document,
    is_forbidden,
    lines,
    look,
)
from tokenweir.cli.check_tokenizers import load_tokenizers
from tokenweir.cli.found_ledger import no_answer
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url
from tokenweir.cli.numbers import number
from tokenweir.cli.policy_summary import summary
from tokenweir.cli.problems import tell
from tokenweir.cli.usage_span import last_hours
from tokenweir.core.errors import (
    LedgerUnavailableError,
    PolicyError,
    TokenweirError,
)
from tokenweir.core.policy import Policy

_DESCRIPTION = """\
Check a policy file and print every problem, one a line, each beginning with its
path in the file. If there is none, print what the policy says, and what in it is
probably not meant: above all quotas that can never match, or never decide anything.
Nothing is changed, and no secret is printed.

With --ledger, keys that were issued there count too, and quotas that have applied to
nothing in the last hours are listed: those that are for a model, a route or a tenant
that nobody uses, or that is named wrongly.
"""
_EPILOG = """\
examples:
  tokenweir check policy.yaml
  tokenweir check policy.yaml --ledger redis://127.0.0.1:6379 --hours 168
  tokenweir policy show --ledger env:LEDGER > in-force.yaml
  tokenweir check in-force.yaml --ledger env:LEDGER --without-secrets --json

Exit codes: 0 fine, warnings or not; 1 problems, or a ledger without an answer; 2 wrong
usage.
"""

_NOT_ALLOWED = (
    "--ledger: its server does not allow this user to read what came. Use one such as "
    "tokenweir-reader in deploy/redis."
)

DEFAULT_HOURS = 24
MAX_HOURS = 10_000  # the ledger keeps them for 13 months
NS_PER_MS = 1_000_000
MS_PER_S = 1_000


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "check",
        help="check a policy file, and say what it means",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=pathlib.Path, metavar="FILE", help="the policy")
    parser.add_argument(
        "--without-secrets",
        action="store_true",
        help="do not look up credentials and certificates, as where a policy is "
        "reviewed but not used",
    )
    parser.add_argument("--json", action="store_true", help="for machines")
    group = parser.add_argument_group("what came, and which keys are issued")
    group.add_argument(
        "--ledger", metavar="URL", help=f"{LEDGER_HELP}; it is only read"
    )
    group.add_argument(
        "--hours",
        type=number(1, MAX_HOURS),
        metavar="N",
        help="how far to look back, this hour (UTC) included "
        f"(default: {DEFAULT_HOURS})",
    )
    group.add_argument(
        "--governance-key",
        metavar="WHERE",
        help="file:PATH or env:NAME of the public keys of those who issue keys; without "
        "it issued keys are not verified",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the file."""
    from tokenweir.config.load import load_policy  # noqa: PLC0415 -- slow

    file, credentials = arguments.file, not arguments.without_secrets
    try:
        url = _ledger(arguments)
    except LedgerOptionError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    try:
        policy = load_policy(file, os.environ, credentials=credentials)
        if credentials:
            load_tokenizers(policy)
    except PolicyError as error:
        return _tell_problems(error, arguments)
    found = None
    if url is not None:
        try:
            found = _look(policy, url, arguments)
        except _LookError as error:
            print(error, file=sys.stderr)
            return error.code
    _tell(found.policy if found else policy, found, arguments)
    return EXIT_FINE


class _LookError(TokenweirError):
    """The ledger can't be looked at. The text says why; *code* is for the shell."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def _ledger(arguments: argparse.Namespace) -> str | None:
    """Return the ledger's URL; None: none is asked. Raises: LedgerOptionError."""
    if arguments.ledger is not None:
        return ledger_url(arguments.ledger)
    for option in ("hours", "governance_key"):
        if getattr(arguments, option) is not None:
            name = option.replace("_", "-")
            raise LedgerOptionError(f"--{name}: goes with --ledger: say which")
    return None


def _look(policy: Policy, url: str, arguments: argparse.Namespace) -> Found:
    """Return what the ledger knows. Raises: _LookError."""
    from tokenweir.governance.key_files import KeyFileError  # noqa: PLC0415 -- slow

    now_ms = time.time_ns() // NS_PER_MS
    span = last_hours(now_ms / MS_PER_S, arguments.hours or DEFAULT_HOURS)
    try:
        return look(policy, url, span, arguments.governance_key, now_ms)
    except KeyFileError as error:
        raise _LookError(str(error), EXIT_USAGE) from None
    except LedgerUnavailableError as error:
        text = _NOT_ALLOWED if is_forbidden(error) else no_answer(url, error)
        raise _LookError(text, EXIT_PROBLEMS) from None
    except PolicyError as error:
        text = f"The keys that are issued can't be used: {error.problems[0]}"
        raise _LookError(text, EXIT_PROBLEMS) from None
    except TokenweirError as error:
        raise _LookError(str(error), EXIT_PROBLEMS) from None


def _tell_problems(error: PolicyError, arguments: argparse.Namespace) -> int:
    if arguments.json:
        told = {"file": str(arguments.file), "problems": list(error.problems)}
        print(json.dumps(told, indent=2))
    else:
        tell(arguments.file, error, sys.stdout, sys.stderr)
    return EXIT_PROBLEMS


def _tell(policy: Policy, found: Found | None, arguments: argparse.Namespace) -> None:
    from tokenweir.config.advice import advise  # noqa: PLC0415 -- slow
    from tokenweir.config.ineffective import ineffective  # noqa: PLC0415 -- slow
    from tokenweir.config.matching import without_ended_keys  # noqa: PLC0415 -- slow

    credentials = not arguments.without_secrets
    now_ms = time.time_ns() // NS_PER_MS
    warnings = [
        *advise(
            policy, credentials=credentials, issued=found is not None, now_ms=now_ms
        ),
        *(found.notes if found else ()),
    ]
    if arguments.json:
        working = without_ended_keys(policy, now_ms)
        told: dict[str, object] = {
            "file": str(arguments.file),
            "problems": [],
            "digest": policy.digest,
            "warnings": warnings,
            "ineffective_quotas": [
                {"quota": each.quota.id, "reason": each.why, "text": each.text}
                for each in ineffective(working, prices=credentials)
            ],
            "seen": document(found) if found else None,
        }
        print(json.dumps(told, indent=2))
        return
    print(f"{arguments.file}: fine (digest {policy.digest})")
    print("\n".join(summary(policy, credentials=credentials, now_ms=now_ms)))
    if warnings:
        print("\nwarnings")
        print("\n".join(f"  {warning}" for warning in warnings))
    if found:
        print()
        print("\n".join(lines(found, now_ms / MS_PER_S)))
