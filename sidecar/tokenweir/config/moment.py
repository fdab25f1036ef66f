"""Moments, as RFC 3339 writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

# As JSON Schema's "date-time", but with no finer parts than are ever written.
MOMENT_FORM: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
_EXAMPLE = "`2027-01-31T00:00:00Z` or `2027-01-31T00:00:00+09:00`"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def parse_moment_ms(value: object) -> int:
    """
    Return the moment that *value* is, since 1970, rounded down.

    Raises:
        ValueError: Says what is wrong, without a part of *value*.
    """
    if not isinstance(value, str) or not re.fullmatch(MOMENT_FORM, value):
        raise ValueError(
            f"must be a moment with an offset from UTC, such as {_EXAMPLE}"
        )
    try:
        at = datetime.fromisoformat(value.upper())
        moment_ms = (at - _EPOCH) // _MS
    except (ValueError, OverflowError):
        raise ValueError("must be a day and a time that there are") from None
    if moment_ms < 0:
        raise ValueError("must be after 1970")
    return moment_ms


def moment_text(moment_ms: int) -> str:
    """Return the second of *moment_ms* in UTC: ``"2027-01-31T00:00:00Z"``."""
    at = datetime.fromtimestamp(moment_ms // 1_000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
