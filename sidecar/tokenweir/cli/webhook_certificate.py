"""`tokenweir webhook certificate`: a pair for the webhook, where nobody else makes one."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.numbers import number
from tokenweir.core.errors import TokenweirError

if TYPE_CHECKING:
    from tokenweir.inject.webhook.authority import Pair

MAX_DAYS = 3_600
_STDIN = "-"
_DESCRIPTION = """\
Print two Secrets: NAME-tls, which the webhook mounts, with a certificate for its Service;
and NAME-ca, the authority that vouches for it, for renewals. Mount that nowhere.

  tokenweir webhook certificate | kubectl apply -f -
  kubectl -n tokenweir-system get secret tokenweir-webhook-ca -o yaml \\
    | tokenweir webhook certificate --renew - | kubectl apply -f -

A renewed certificate is of the same authority, so the cluster need not be told; the
webhook takes it without a restart. It prints private keys: keep them out of files.
"""


def add_certificate(actions: Subparsers) -> None:
    """Add the action."""
    parser = actions.add_parser(
        "certificate",
        help="make or renew a certificate for the webhook",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--namespace",
        default="tokenweir-system",
        metavar="NAME",
        help="of the webhook (default: %(default)s)",
    )
    parser.add_argument(
        "--service",
        default="tokenweir-webhook",
        metavar="NAME",
        help="of the webhook, and first part of the Secrets' names (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--days",
        type=number(1, MAX_DAYS),
        default=90,
        metavar="N",
        help="how long the certificate is good; renew it in half of that (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--renew",
        metavar="FILE|-",
        help="the Secret NAME-ca, YAML or JSON; without it there is a new authority",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from tokenweir.inject.webhook import authority as ca  # noqa: PLC0415 -- slow
    from tokenweir.inject.yaml_text import written  # noqa: PLC0415 -- slow

    now = datetime.now(UTC)
    try:
        authority = _authority(args.renew, now)
        hosts = ca.hosts_of(args.service, args.namespace)
        pair = ca.issue(authority, hosts, now, args.days)
    except TokenweirError as error:
        print(f"--renew: {error}.", file=sys.stderr)
        return EXIT_PROBLEMS
    except OSError as error:
        why = (error.strerror or "can't be read").lower()
        print(f"--renew: {args.renew}: {why}. Give a file, or -.", file=sys.stderr)
        return EXIT_USAGE
    secrets = [
        ca.authority_secret(args.service, args.namespace, authority),
        ca.pair_secret(args.service, args.namespace, pair, authority),
    ]
    print(written(secrets), end="")
    return EXIT_FINE


def _authority(source: str | None, now: datetime) -> Pair:
    """Return that of *source*, or a new one. Raises: TokenweirError, OSError."""
    from tokenweir.inject.webhook import authority as ca  # noqa: PLC0415 -- slow
    from tokenweir.inject.yaml_text import YamlError, read  # noqa: PLC0415 -- slow

    if source is None:
        return ca.new_authority(now)
    content = sys.stdin.buffer.read() if source == _STDIN else Path(source).read_bytes()
    try:
        documents: list[Any] = list(read(content.decode()))
    except UnicodeDecodeError:
        raise YamlError("is no text in UTF-8") from None
    for document in documents:
        if isinstance(document, dict) and _is_authority(document):
            return ca.read_authority(document)
    raise ca.AuthorityError(f"there is no Secret *{ca.AUTHORITY_SUFFIX} in it")


def _is_authority(document: dict[str, Any]) -> bool:
    from tokenweir.inject.webhook.authority import AUTHORITY_SUFFIX  # noqa: PLC0415

    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return isinstance(name, str) and name.endswith(AUTHORITY_SUFFIX)
