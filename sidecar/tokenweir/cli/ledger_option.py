"""`--ledger`, which several commands have: a URL, or where one is."""

from __future__ import annotations

import os

from tokenweir.core.errors import TokenweirError

HELP = (
    "the ledger, Redis or Valkey: a redis://, rediss:// (TLS), unix://, "
    "redis+sentinel://HOST,HOST/SERVICE or redis+cluster://HOST,HOST URL (see "
    "docs/redis.md), or env:NAME of a variable with one"
)
_VARIABLE = "env:"


class LedgerOptionError(TokenweirError):
    """What was given names no ledger. The text says what would."""


def ledger_url(given: str) -> str:
    """
    Return the URL that *given* is, or that it names.

    Raises: LedgerOptionError. No URL is repeated: it may hold a password.
    """
    from tokenweir.ledger.address import LedgerUrlError, require_url  # noqa: PLC0415

    url, what = given, "--ledger"
    if given.startswith(_VARIABLE):
        name = given.removeprefix(_VARIABLE)
        url, what = os.environ.get(name, ""), f"--ledger: the variable {name}"
        if not url:
            raise LedgerOptionError(f"{what} is empty or not set: put a URL into it")
    try:
        require_url(url)
    except LedgerUrlError as error:
        separator = ":" if url is given else ""
        raise LedgerOptionError(f"{what}{separator} {error}") from None
    return url
