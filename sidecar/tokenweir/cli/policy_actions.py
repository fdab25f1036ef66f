"""What `tokenweir policy` does: see `tokenweir.cli.policy`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url
from tokenweir.cli.policy_text import as_object, difference, history_table
from tokenweir.cli.problems import tell
from tokenweir.config.advice import advise
from tokenweir.config.files import Files, UnreadableFileError
from tokenweir.core.errors import (
    LedgerUnavailableError,
    PolicyError,
    TokenweirError,
)
from tokenweir.governance.candidate import candidate_of, read_candidate
from tokenweir.governance.channel import Channel
from tokenweir.governance.envelope import MAX_STORED_BYTES, Envelope, decoded
from tokenweir.governance.key_files import (
    KeyFileError,
    fingerprint,
    private_key,
    public_keys,
    public_text,
    write_private_key,
)
from tokenweir.governance.policy_desk import Author, PolicyDesk, PolicyDeskError

_NS_PER_MS = 1_000_000
_EFFECT = "Sidecars that watch this ledger use it within 2 s; their /policy tells."
_UNVERIFIED = "Not verified: --governance-key was not given."
_NO_ANSWER = (
    "--ledger: no answer. Does it run, and do user and password fit? If something was "
    "being published, `tokenweir policy history` shows whether it was."
)
_NOT_ALLOWED = (
    "--ledger: its server does not allow this user to do that. Publishing needs a user "
    "such as tokenweir-admin in deploy/redis."
)

Work = Callable[[PolicyDesk], Awaitable[int]]


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for; say what keeps it from being done."""
    action: Callable[[argparse.Namespace], int] = _ACTIONS[arguments.action]
    try:
        return action(arguments)
    except (LedgerOptionError, KeyFileError, UnreadableFileError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except LedgerUnavailableError as error:
        forbidden = "NoPermission" in type(error.__cause__).__name__
        forbidden = forbidden or "NOPERM" in str(error.__cause__)
        text = _NOT_ALLOWED if forbidden else f"{_NO_ANSWER} {_advice(error)}".strip()
        print(text, file=sys.stderr)
        return EXIT_PROBLEMS
    except TokenweirError as error:
        print(error, file=sys.stderr)
        return EXIT_PROBLEMS


def _advice(error: LedgerUnavailableError) -> str:
    from tokenweir.ledger.advice import advice  # noqa: PLC0415 -- slow

    return advice(error)


def _keygen(arguments: argparse.Namespace) -> int:
    key = Ed25519PrivateKey.generate()
    try:
        write_private_key(arguments.out, key)
    except OSError as error:
        print(f"{arguments.out}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    print(public_text(key.public_key()))
    print(
        f"{arguments.out} has the private key {fingerprint(key.public_key())}: keep it "
        "where policies are published, and nowhere else. The line above is the public "
        "key, for every sidecar's --governance-key.",
        file=sys.stderr,
    )
    return EXIT_FINE


def _publish(arguments: argparse.Namespace) -> int:
    try:
        found = read_candidate(arguments.file, allow_files=arguments.allow_files)
    except PolicyError as error:
        tell(arguments.file, error, sys.stdout, sys.stderr)
        print("Nothing was published.", file=sys.stderr)
        return EXIT_PROBLEMS
    for warning in advise(found.policy, credentials=False):
        print(f"warning: {warning}", file=sys.stderr)
    author = _author(arguments)

    async def work(desk: PolicyDesk) -> int:
        before = await _newest_content(desk)
        published = await desk.publish(
            author, found.content, arguments.comment, above=arguments.above
        )
        return _told(arguments, published, before)

    return _at_desk(arguments, work, author.known)


def _rollback(arguments: argparse.Namespace) -> int:
    author = _author(arguments)

    async def work(desk: PolicyDesk) -> int:
        old = await desk.version(arguments.version)
        try:
            # What this release can't read any more, sidecars could not either.
            candidate_of(old.content.encode(), allow_files=True)
        except PolicyError as error:
            name = pathlib.Path(f"version {old.version}")
            tell(name, error, sys.stdout, sys.stderr)
            print("Nothing was published.", file=sys.stderr)
            return EXIT_PROBLEMS
        before = await _newest_content(desk)
        comment = arguments.comment or f"roll back to version {old.version}"
        published = await desk.publish(author, old.content, comment)
        return _told(arguments, published, before)

    return _at_desk(arguments, work, author.known)


def _history(arguments: argparse.Namespace) -> int:
    async def work(desk: PolicyDesk) -> int:
        entries = await desk.history(arguments.count)
        newest = await desk.newest_version()
        if arguments.json:
            objects = [
                as_object(entry.envelope, verified=entry.verified) for entry in entries
            ]
            print(json.dumps({"newest": newest, "versions": objects}, indent=2))
        elif entries:
            print(history_table(entries, bold=sys.stdout.isatty()))
        else:
            print("No policy is published.")
        if newest and (not entries or entries[0].envelope.version != newest):
            print(f"Version {newest} is there, and is none.", file=sys.stderr)
            return EXIT_PROBLEMS
        return EXIT_FINE

    return _at_desk(arguments, work, _known(arguments))


def _show(arguments: argparse.Namespace) -> int:
    known = _known(arguments)

    async def work(desk: PolicyDesk) -> int:
        envelope = await desk.version(arguments.version)
        if arguments.json:
            shown = as_object(envelope, verified=True if known else None)
            print(json.dumps({**shown, "content": envelope.content}, indent=2))
        else:
            print(envelope.content, end="")
        return EXIT_FINE

    return _at_desk(arguments, work, known)


def _diff(arguments: argparse.Namespace) -> int:
    if len(arguments.which) > 2:
        print("diff: at most two versions or files", file=sys.stderr)
        return EXIT_USAGE

    async def work(desk: PolicyDesk) -> int:
        (old_name, old), (new_name, new) = await _two(desk, arguments.which)
        text = difference(old, new, old_name, new_name)
        if arguments.json:
            print(json.dumps({"from": old_name, "to": new_name, "diff": text}))
        else:
            print(text, end="")
        return EXIT_FINE

    return _at_desk(arguments, work, _known(arguments))


def _restore(arguments: argparse.Namespace) -> int:
    known = public_keys(arguments.governance_key, os.environ)
    try:
        envelope = decoded(_read(arguments.file, MAX_STORED_BYTES))
    except TokenweirError as error:
        raise PolicyDeskError(f"{arguments.file} {error}.") from None

    async def work(desk: PolicyDesk) -> int:
        await desk.restore(envelope)
        print(f"Version {envelope.version} of {envelope.name} is published again.")
        return EXIT_FINE

    return _at_desk(arguments, work, known)


async def _two(
    desk: PolicyDesk, which: Sequence[str]
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return name and text of the old and the new policy."""
    if len(which) == 2:
        return await _named(desk, which[0]), await _named(desk, which[1])
    if which and which[0].isdecimal():
        return await _named(desk, which[0]), await _named(desk, None)
    if which:
        return await _named(desk, None), await _named(desk, which[0])
    kept = await desk.history(2)
    if len(kept) < 2:
        raise PolicyDeskError("There are no two versions yet.")
    return (
        await _named(desk, str(kept[1].envelope.version)),
        await _named(desk, str(kept[0].envelope.version)),
    )


async def _named(desk: PolicyDesk, which: str | None) -> tuple[str, str]:
    if which is None or which.isdecimal():
        envelope = await desk.version(int(which) if which else None)
        return f"version {envelope.version}", envelope.content
    content = await asyncio.to_thread(_read, pathlib.Path(which), MAX_STORED_BYTES)
    return which, content.decode("utf-8", "replace")


def _read(path: pathlib.Path, limit_bytes: int) -> bytes:
    try:
        return Files().read(path, limit_bytes)
    except UnreadableFileError as error:
        raise UnreadableFileError(f"{path} {error}") from None


async def _newest_content(desk: PolicyDesk) -> str:
    """Return what is replaced, for show only: a broken one is replaced too."""
    try:
        return (await desk.version()).content
    except PolicyDeskError:
        return ""


def _told(arguments: argparse.Namespace, published: Envelope, before: str) -> int:
    if arguments.json:
        print(json.dumps(as_object(published, verified=True), indent=2))
        return EXIT_FINE
    print(difference(before, published.content, "before", "after"), end="")
    print(f"Published as version {published.version}. {_EFFECT}", file=sys.stderr)
    return EXIT_FINE


def _author(arguments: argparse.Namespace) -> Author:
    return Author(
        private_key(arguments.signing_key, os.environ),
        arguments.by,
        time.time_ns() // _NS_PER_MS,
        _known(arguments),
    )


def _known(arguments: argparse.Namespace) -> tuple[Ed25519PublicKey, ...]:
    where = arguments.governance_key
    return public_keys(where, os.environ) if where else ()


def _at_desk(
    arguments: argparse.Namespace, work: Work, known: Sequence[Ed25519PublicKey]
) -> int:
    url = ledger_url(arguments.ledger)

    async def connected() -> int:
        async with Channel.open(url) as channel:
            return await work(PolicyDesk(channel, known))

    code = asyncio.run(connected())
    if not known:
        print(_UNVERIFIED, file=sys.stderr)
    return code


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "keygen": _keygen,
    "publish": _publish,
    "rollback": _rollback,
    "history": _history,
    "show": _show,
    "diff": _diff,
    "restore": _restore,
}
