"""`tokenweir explain`: what would be decided about a request, without sending it."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import pathlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.explain_source import (
    WITHOUT_SECRETS,
    add_options,
    is_about_secrets,
    look_of,
    notes,
    settings_of,
    why_ungoverned,
    why_untold,
)
from tokenweir.cli.key_option import HELP as KEY_HELP
from tokenweir.cli.key_option import KeyOptionError, api_key
from tokenweir.cli.ledger_option import ledger_url
from tokenweir.cli.problems import tell
from tokenweir.core.errors import PolicyError, TokenweirError

if TYPE_CHECKING:  # slow
    from tokenweir.core.policy import Policy
    from tokenweir.explain.explanation import Answers
    from tokenweir.explain.governed import Governed
    from tokenweir.explain.question import Question
    from tokenweir.governance.source import SourceSettings

# Above the largest `body_limit`, so that what is too large is told as what it is.
MAX_BODY_BYTES = 80 * 1024 * 1024

_DESCRIPTION = """\
Say what would be decided about a request, and why: who calls, which model and provider
answer and at what price, which quotas apply and what is left of them, what would be
reserved, what the app would be told if it is refused, and what of the body is changed.

Nothing is sent, and nothing is taken from any limit. With --ledger it is what would be
decided now, by what others have used, and in one line what would be if nothing had been
used yet. The request goes through the same code as one that Envoy brings.
"""
_EPILOG = """\
examples:
  tokenweir explain --policy policy.yaml --key-id acme-ci request.json
  tokenweir explain --policy policy.yaml --key-id acme-ci --path /v1/files

  what a fleet would do now, by the policy and the keys that are published:
  tokenweir explain --ledger env:LEDGER --governance-key file:governance.pub \\
      --key env:OPENAI_API_KEY --without-secrets request.json

Exit codes: 0 there is an answer, also if it is a refusal (--json tells); 1 a policy has
problems, or the ledger does not tell; 2 wrong usage. More: docs/explain.md
"""
_ISSUED = (
    "Keys that were issued through a ledger count with --ledger and --governance-key."
)


class _QuestionError(TokenweirError):
    """Something that was asked for can't be read. The text says what."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "explain",
        help="what would be decided about a request, and why",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "request",
        nargs="?",
        metavar="FILE",
        help="the request's body; - for standard input; without it: no body",
    )
    add_options(parser)
    _add_request(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def _add_request(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("who asks, and what for")
    who = group.add_mutually_exclusive_group()
    who.add_argument("--key", metavar="WHERE", help=KEY_HELP)
    who.add_argument(
        "--key-id",
        metavar="ID",
        help="the id of the app's key, for those who don't have the key",
    )
    group.add_argument(
        "--path",
        help="such as /v1/messages, with the query if there is one (default: that of "
        "the API that the model speaks)",
    )
    group.add_argument("--method", help="(default: POST with a body, else GET)")
    group.add_argument(
        "--header",
        action="append",
        default=[],
        type=_header,
        metavar="'NAME: VALUE'",
        help="one more header; can be given several times",
    )


def run(arguments: argparse.Namespace) -> int:
    """Explain the request."""
    from tokenweir.explain.question import UnknownKeyIdError  # noqa: PLC0415 -- slow

    try:
        task = _task(arguments)
    except TokenweirError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    try:
        policy = _file_policy(arguments, task.settings)
    except PolicyError as error:
        tell(pathlib.Path(arguments.policy), error, sys.stdout, sys.stderr)
        if not arguments.without_secrets and is_about_secrets(error.problems):
            print(WITHOUT_SECRETS, file=sys.stderr)
        return EXIT_PROBLEMS
    try:
        answers = asyncio.run(_ask(arguments, task, policy))
    except UnknownKeyIdError as error:
        hint = "" if arguments.governance_key else f" {_ISSUED}"
        print(f"--key-id: {error}.{hint}", file=sys.stderr)
        return EXIT_USAGE
    except TokenweirError as error:
        print(_what_to_do(error, task), file=sys.stderr)
        return EXIT_PROBLEMS
    _say(arguments, task, answers)
    return _print(answers, as_json=arguments.json)


@dataclass(frozen=True, slots=True)
class _Task:
    """What is asked, and where to look: *url* is the ledger's, *key* the app's."""

    settings: SourceSettings
    url: str | None
    key: str | None
    body: bytes


def _task(arguments: argparse.Namespace) -> _Task:
    """Return what *arguments* ask for. Raises: TokenweirError, wrong usage."""
    url = ledger_url(arguments.ledger) if arguments.ledger else None
    settings = settings_of(arguments)
    return _Task(settings, url, _key(arguments), _body(arguments.request))


def _file_policy(
    arguments: argparse.Namespace, settings: SourceSettings
) -> Policy | None:
    from tokenweir.config.load import load_policy  # noqa: PLC0415 -- slow

    if settings.path is None:
        return None
    return load_policy(settings.path, os.environ, look=look_of(arguments))


def _what_to_do(error: TokenweirError, task: _Task) -> str:
    from tokenweir.explain import governed  # noqa: PLC0415 -- slow
    from tokenweir.ledger.address import place  # noqa: PLC0415 -- slow

    assert task.url is not None, "a file and an empty ledger leave nothing to fail"
    if isinstance(error, governed.UngovernedError):
        return why_ungoverned(str(error))
    published = isinstance(error, governed.UntoldError)
    what = "what is published" if published else "how limits stand"
    return why_untold(place(task.url), what, str(error))


def _say(arguments: argparse.Namespace, task: _Task, answers: Answers) -> None:
    """Print what goes beside an answer."""
    key = task.key or ""
    digest = hashlib.sha256(key.encode()).hexdigest() if key else ""
    for line in notes(answers.governed, arguments.key_id, digest):
        print(line, file=sys.stderr)
    if answers.now.caller is None and key and not answers.governed.follows_keys:
        print(f"note: {_ISSUED}", file=sys.stderr)


def _question(arguments: argparse.Namespace, task: _Task, who: Governed) -> Question:
    from tokenweir.explain import question as asked  # noqa: PLC0415 -- slow
    from tokenweir.explain.governed import by_key_id  # noqa: PLC0415 -- slow

    question = asked.question_of(
        who.policy,
        task.body,
        method=arguments.method.upper() if arguments.method else None,
        path=arguments.path,
        headers=tuple(arguments.header),
    )
    if arguments.key_id is not None:
        return by_key_id(question, who, arguments.key_id)
    return question if task.key is None else asked.with_key(question, task.key)


async def _ask(
    arguments: argparse.Namespace, task: _Task, policy: Policy | None
) -> Answers:
    from tokenweir.explain.dry_ledger import NothingUsed  # noqa: PLC0415 -- slow
    from tokenweir.explain.explanation import Answers  # noqa: PLC0415 -- slow
    from tokenweir.explain.trial import explain, explain_each  # noqa: PLC0415 -- slow
    from tokenweir.ledger.address import place  # noqa: PLC0415 -- slow
    from tokenweir.ledger.levels_reader import LevelsReader  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    who = await _governed(task, policy)
    question = _question(arguments, task, who)
    if task.url is None:
        return Answers(await explain(question, NothingUsed()), who)
    reader = LevelsReader(task.url, Fanout(()))
    try:
        now, unused = await explain_each(question, reader, NothingUsed())
    finally:
        await reader.close()
    return Answers(now, who, place(task.url), unused)


async def _governed(task: _Task, policy: Policy | None) -> Governed:
    from tokenweir.explain import governed  # noqa: PLC0415 -- slow
    from tokenweir.ledger.link import Link  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    if policy is not None and not task.settings.public_keys:
        return governed.by_file(policy)
    assert task.url is not None, "what is published is in a ledger"
    link = Link(task.url, Fanout(()))
    try:
        return await governed.governed(task.settings, os.environ, link, policy)
    finally:
        await link.close()


def _print(answers: Answers, *, as_json: bool) -> int:
    from tokenweir.cli.explain_text import text_of  # noqa: PLC0415 -- slow
    from tokenweir.explain.document import document_of  # noqa: PLC0415 -- slow

    told = (answers.now, answers.unused) if answers.unused else (answers.now,)
    faults = dict.fromkeys(fault for each in told for fault in each.faults)
    if faults:
        broken = ", ".join(faults)
        print(
            f"Something of ours broke, so this is no answer: {broken}", file=sys.stderr
        )
        return EXIT_PROBLEMS
    if as_json:
        print(json.dumps(document_of(answers), indent=2))
    else:
        print(text_of(answers))
    return EXIT_FINE


def _key(arguments: argparse.Namespace) -> str | None:
    if arguments.key == "-" and arguments.request == "-":
        raise KeyOptionError("--key -: standard input is the request already")
    return None if arguments.key is None else api_key(arguments.key)


def _body(given: str | None) -> bytes:
    if given is None:
        return b""
    try:
        if given == "-":
            return sys.stdin.buffer.read(MAX_BODY_BYTES)
        with pathlib.Path(given).open("rb") as file:
            return file.read(MAX_BODY_BYTES)
    except OSError as error:
        why = error.strerror or "it can't be read"
        raise _QuestionError(f"{given}: {why.lower()}") from None


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError("must look like 'x-request-id: abc'")
    return name.strip().lower(), value.strip()
