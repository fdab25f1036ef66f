"""What a new key may do, as options: models, routes, expiry, quotas."""

from __future__ import annotations

import argparse
import re
import time

_SPAN = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>s|m|h|d)")
_SPAN_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# Longer than anybody plans; what is not to end is given no end.
_MAX_SPAN_MS = 100 * 366 * _SPAN_MS["d"]
_NS_PER_MS = 1_000_000


def add_scopes(parser: argparse.ArgumentParser) -> None:
    """Add the options to *parser*."""
    scopes = parser.add_argument_group("what the key may do (default: as its tenant)")
    scopes.add_argument(
        "--models",
        nargs="+",
        metavar="MODEL",
        help="call these only; 'gpt-*' is a family",
    )
    scopes.add_argument(
        "--routes",
        nargs="+",
        metavar="ROUTE",
        help="be used for these only, such as chat_completions, messages, models",
    )
    add_expires(scopes)
    scopes.add_argument(
        "--quota",
        action="append",
        default=[],
        type=quota,
        metavar="YAML",
        help="a limit of its own, as in a policy: '{tokens_per_minute: 1000}'; may be "
        "given more than once",
    )


def add_expires(parser: argparse._ActionsContainer, default: str = "never") -> None:
    """Add ``--expires`` to *parser*; *default* says what holds without it."""
    parser.add_argument(
        "--expires",
        type=expiry,
        metavar="WHEN",
        help="from when on it is refused: in 90d, 12h or 30m, or at a moment such as "
        f"2027-01-31T00:00:00Z (default: {default})",
    )


def scopes_of(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the fields that *arguments* say, of those that a key may have."""
    given = {
        "models": arguments.models,
        "routes": arguments.routes,
        "expires_at": arguments.expires,
        "quotas": arguments.quota,
    }
    return {name: value for name, value in given.items() if value}


def span_ms(text: str) -> int:
    """Return a time such as ``"90d"`` or ``"0"``. Raises: ArgumentTypeError."""
    match = _SPAN.fullmatch(text)
    if text == "0":
        return 0
    if match is None:
        raise argparse.ArgumentTypeError("must be a time such as 90d, 12h, 30m or 0")
    return min(int(match["number"]) * _SPAN_MS[match["unit"]], _MAX_SPAN_MS)


def expiry(text: str) -> str:
    """Return the moment that *text* says, as RFC 3339. Raises: ArgumentTypeError."""
    from tokenweir.config.moment import moment_text, parse_moment_ms  # noqa: PLC0415

    now_ms = time.time_ns() // _NS_PER_MS
    if _SPAN.fullmatch(text):
        at_ms = now_ms + span_ms(text)
    else:
        try:
            at_ms = parse_moment_ms(text)
        except ValueError as error:
            hint = f"{error}; or a time from now, such as 90d"
            raise argparse.ArgumentTypeError(hint) from None
    if at_ms <= now_ms:
        raise argparse.ArgumentTypeError("must be in the future")
    return moment_text(at_ms)


def quota(text: str) -> dict[str, object]:
    """Return the quota's fields that *text* (YAML) has. Raises: ArgumentTypeError."""
    from tokenweir.config.document import (  # noqa: PLC0415 -- slow
        UnreadableDocumentError,
        read_document,
    )

    wanted = "must be a mapping as in a policy, such as '{tokens_per_minute: 1000}'"
    try:
        document = read_document(text.encode("utf-8", "replace"))
    except UnreadableDocumentError:
        raise argparse.ArgumentTypeError(wanted) from None
    if document.problems:
        raise argparse.ArgumentTypeError(str(document.problems[0]))
    if not isinstance(document.value, dict):
        raise argparse.ArgumentTypeError(wanted)
    return dict(document.value)
