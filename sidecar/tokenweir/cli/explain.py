"""`tokenweir explain`: what would be decided about a request, without sending it."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import sys
from typing import TYPE_CHECKING

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.key_option import HELP as KEY_HELP
from tokenweir.cli.key_option import KeyOptionError, api_key
from tokenweir.cli.ledger_option import HELP as LEDGER_HELP
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url
from tokenweir.cli.problems import tell
from tokenweir.core.errors import (
    LedgerUnavailableError,
    PolicyError,
    TokenweirError,
)

if TYPE_CHECKING:  # slow
    from tokenweir.core.policy import Policy
    from tokenweir.explain.explanation import Explanation
    from tokenweir.explain.question import Question

# Above the largest `body_limit`, so that what is too large is told as what it is.
MAX_BODY_BYTES = 80 * 1024 * 1024

_DESCRIPTION = """\
Say what would be decided about a request, and why: who calls, which model and provider
answer, what they cost, which quotas apply and how they stand, what would be reserved,
what the client would be told if it is refused, and what of the body would be changed.

Nothing is sent, and nothing is taken: with --ledger its levels are only read. The
request goes through the same code as one that Envoy brings.
"""
_EPILOG = """\
examples:
  tokenweir explain --policy policy.yaml --key-id acme-ci request.json
  tokenweir explain --policy policy.yaml --key env:OPENAI_API_KEY \\
      --ledger redis://127.0.0.1:6379 request.json
  tokenweir explain --policy policy.yaml --key-id acme-ci --path /v1/files

The exit code is 0 also if the request would be refused: --json tells.
"""


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
    parser.add_argument(
        "--policy",
        type=pathlib.Path,
        metavar="FILE",
        required=True,
        help="the policy that decides",
    )
    parser.add_argument(
        "--ledger",
        metavar="URL",
        help=f"{LEDGER_HELP}; it is only read. Without it: as if nothing were used yet",
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--key", metavar="WHERE", help=KEY_HELP)
    who.add_argument("--key-id", metavar="ID", help="the id of a key of the policy")
    parser.add_argument(
        "--path", help="with the query (default: of the API that the model speaks)"
    )
    parser.add_argument("--method", help="(default: POST with a body, else GET)")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        type=_header,
        metavar="'NAME: VALUE'",
        help="one more header; can be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Explain the request."""
    from tokenweir.config.load import load_policy  # noqa: PLC0415 -- slow

    try:
        url = ledger_url(arguments.ledger) if arguments.ledger else None
        key = _key(arguments)
        body = _body(arguments.request)
    except (KeyOptionError, LedgerOptionError, _QuestionError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    try:
        policy = load_policy(arguments.policy, os.environ)
    except PolicyError as error:
        tell(arguments.policy, error, sys.stdout, sys.stderr)
        return EXIT_PROBLEMS
    return _explain(arguments, policy, body, key, url)


def _explain(
    arguments: argparse.Namespace,
    policy: Policy,
    body: bytes,
    key: str | None,
    url: str | None,
) -> int:
    from tokenweir.explain.question import UnknownKeyIdError  # noqa: PLC0415 -- slow
    from tokenweir.ledger.address import place  # noqa: PLC0415 -- slow

    try:
        question = _question(arguments, policy, body, key)
        told = asyncio.run(_ask(question, url))
    except UnknownKeyIdError as error:
        print(f"--key-id: {error}", file=sys.stderr)
        return EXIT_USAGE
    except LedgerUnavailableError:
        assert url is not None
        print(
            f"--ledger: no answer from {place(url)}. Does it run, and do user and "
            "password fit?",
            file=sys.stderr,
        )
        return EXIT_PROBLEMS
    where = None if url is None else place(url)
    return _print(told, where, as_json=arguments.json)


def _question(
    arguments: argparse.Namespace, policy: Policy, body: bytes, key: str | None
) -> Question:
    from tokenweir.explain import question as asked  # noqa: PLC0415 -- slow

    question = asked.question_of(
        policy,
        body,
        method=arguments.method.upper() if arguments.method else None,
        path=arguments.path,
        headers=tuple(arguments.header),
    )
    if arguments.key_id is not None:
        return asked.with_key_id(question, arguments.key_id)
    return question if key is None else asked.with_key(question, key)


async def _ask(question: Question, url: str | None) -> Explanation:
    from tokenweir.explain.dry_ledger import NothingUsed  # noqa: PLC0415 -- slow
    from tokenweir.explain.trial import explain  # noqa: PLC0415 -- slow
    from tokenweir.ledger.levels_reader import LevelsReader  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    if url is None:
        return await explain(question, NothingUsed())
    reader = LevelsReader(url, Fanout(()))
    try:
        return await explain(question, reader)
    finally:
        await reader.close()


def _print(told: Explanation, ledger: str | None, *, as_json: bool) -> int:
    from tokenweir.cli.explain_text import text_of  # noqa: PLC0415 -- slow
    from tokenweir.explain.document import document_of  # noqa: PLC0415 -- slow

    if told.faults:
        broken = ", ".join(told.faults)
        print(
            f"Something of ours broke, so this is no answer: {broken}", file=sys.stderr
        )
        return EXIT_PROBLEMS
    if as_json:
        print(json.dumps(document_of(told, ledger), indent=2))
    else:
        print(text_of(told, ledger))
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
