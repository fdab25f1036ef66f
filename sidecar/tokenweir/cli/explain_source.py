"""What decides, for `tokenweir explain`: a policy file, or what is published."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.core.errors import TokenweirError

if TYPE_CHECKING:  # slow
    from tokenweir.config.outside import LookUp
    from tokenweir.explain.governed import Governed
    from tokenweir.governance.source import SourceSettings

# As for `serve`: not the name of a file here; ./ledger is.
FROM_LEDGER = "ledger"
_RIGHTS = "Its user needs the rights of tokenweir-reader in deploy/redis."
_NOTHING = (
    "--policy: say which one decides: a FILE; or, with --ledger and --governance-key, "
    f'the word "{FROM_LEDGER}" for the one that is published'
)


# What `config.outside` says of a reference that leads nowhere.
_SECRET = re.compile(
    r"\.(credential|secret|ca_file|cert_file|key_file): (environment|env:|file:|can't|is )"
)
_FORGED = (
    "Is --governance-key the file that sidecars have? If it is, somebody else has "
    "written to the ledger. "
)
_NEW_POLICY = (
    "`tokenweir policy history` shows what there is, and `rollback` or `publish` puts a "
    "good policy in its place."
)
_NEW_KEYS = "docs/keys.md tells how to bring keys back."
WITHOUT_SECRETS = (
    "Where secrets are not at hand, --without-secrets explains it without them."
)


class SourceOptionError(TokenweirError):
    """Options that don't go together. The text says what is missing."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says where policy, issued keys and levels are."""
    group = parser.add_argument_group("what decides")
    group.add_argument(
        "--policy",
        metavar="FILE",
        help=f'the policy, YAML; or the word "{FROM_LEDGER}": the one that is published '
        "there (the default if --governance-key is given)",
    )
    group.add_argument(
        "--ledger",
        metavar="URL",
        help=f"{LEDGER_HELP}. It is read, to see how limits stand. Without it: as if "
        "nothing were used yet",
    )
    group.add_argument(
        "--governance-key",
        metavar="WHERE",
        help="file:PATH or env:NAME of the public keys that sidecars have, by which "
        "they know who may publish; API keys that were issued through the ledger count "
        "then",
    )
    group.add_argument(
        "--without-secrets",
        action="store_true",
        help="do not look up the providers' credentials and certificates, for they are "
        "in pods only; the decision is the same",
    )


def settings_of(arguments: argparse.Namespace) -> SourceSettings:
    """
    Return where *arguments* say that the policy is, and who may publish.

    Raises: SourceOptionError; KeyFileError.
    """
    from tokenweir.governance.source import SourceSettings  # noqa: PLC0415 -- slow

    given, reference = arguments.policy, arguments.governance_key
    if given is None and reference is None:
        raise SourceOptionError(_NOTHING)
    path = None if given in (None, FROM_LEDGER) else pathlib.Path(given)
    if path is None and reference is None:
        raise SourceOptionError(
            "--policy ledger needs --governance-key, the public keys that sidecars have: "
            "`tokenweir policy keygen` prints one"
        )
    if reference is None:
        return SourceSettings(path, last_good=None)
    if arguments.ledger is None:
        raise SourceOptionError(
            "--ledger: where is it? Policies and keys are published there"
        )
    from tokenweir.governance.key_files import public_keys  # noqa: PLC0415 -- slow

    keys, look = public_keys(reference, os.environ), look_of(arguments)
    return SourceSettings(path, keys, last_good=None, look=look)


def look_of(arguments: argparse.Namespace) -> LookUp:
    """Return how what the policy refers to is looked up."""
    from tokenweir.config import outside  # noqa: PLC0415 -- slow

    return outside.look_up_prices if arguments.without_secrets else outside.look_up


def is_about_secrets(problems: Iterable[str]) -> bool:
    """Tell if what a policy refers to is not at hand here."""
    return any(_SECRET.search(each) for each in problems)


def why_untold(place: str, what: str, why: str) -> str:
    """Return what to say if the ledger at *place* does not tell *what*: *why* it said."""
    text = f"--ledger: {place} does not tell {what}: {why}. "
    if "NoPermission" in why:
        return text + _RIGHTS
    return f"{text}Does it run, and do user and password fit?"


def why_ungoverned(why: str) -> str:
    """Return what to say if no policy is in force."""
    return f"No policy is in force: {why}{_help(why)}"


def notes(who: Governed, key_id: str | None, digest: str) -> Iterator[str]:
    """Yield what else there is to say of what governs; *digest* is of the key, if any."""
    for line in who.refused:
        yield (
            "warning: what was published last can't be used, so what was good before "
            f"it decides, as in sidecars. {line}{_help(line)}"
        )
    ignored = who.why_ignored(key_id=key_id or "", digest=digest)
    if ignored:
        yield f"note: {ignored}"


def _help(problem: str) -> str:
    """Return what to do about a *problem* with what is published."""
    if "none is published" in problem:
        return "."
    if is_about_secrets([problem]):
        return f". {WITHOUT_SECRETS}"
    remedy = _NEW_KEYS if problem.startswith("keys ") else _NEW_POLICY
    return f". {_FORGED if 'is not signed by' in problem else ''}{remedy}"
