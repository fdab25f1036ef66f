"""
Where a ledger is: a URL that people write, checked before anything is started.

No text from here holds what may be a password: of a URL only its place is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool
from redis.exceptions import RedisError

from tokenweir.core.errors import TokenweirError

SCHEMES = ("redis", "rediss", "unix")
DEFAULT_HOST, DEFAULT_PORT = "localhost", 6379
_WANTED = (
    "must be a redis://, rediss:// or unix:// URL, such as redis://127.0.0.1:6379 or "
    "unix:///run/redis.sock"
)
_UNREADABLE = "has a host, port or option that can't be read; it "


class LedgerUrlError(TokenweirError):
    """No ledger can be at such a URL. The text says what one looks like."""


def require_url(url: str) -> None:
    """Return if *url* can be connected to. Raises: LedgerUrlError."""
    scheme, separator, _ = url.partition("://")
    if scheme not in SCHEMES or not separator:
        raise LedgerUrlError(_WANTED)
    try:
        # Some options are read with the URL, others by the connection.
        make: Callable[[], Any] = ConnectionPool.from_url(url).make_connection
        connection = make()
    except (ValueError, TypeError, RedisError):
        raise LedgerUrlError(_UNREADABLE + _WANTED) from None
    if scheme == "unix" and not getattr(connection, "path", None):
        raise LedgerUrlError(_WANTED)


def place(url: str) -> str:
    """Return *url*, which `require_url` takes, without user, password and options."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    host = parts.hostname or DEFAULT_HOST
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{parts.port or DEFAULT_PORT}"
