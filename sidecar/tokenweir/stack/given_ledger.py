"""
Whether a ledger that the user has named is there.

Without it every processor would wait for it, and the user for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    InvalidResponse,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from tokenweir.ledger.address import place
from tokenweir.stack.failure import LedgerSilentError

PATIENCE_SECONDS = 5.0


async def require_ledger(url: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """
    Return once the ledger at *url* has answered.

    Raises: LedgerSilentError, saying why it did not within *patience_seconds*.
    """
    client = Redis.from_url(url, retry=Retry(NoBackoff(), 0))
    execute: Callable[..., Awaitable[Any]] = client.execute_command
    try:
        async with asyncio.timeout(patience_seconds):
            await execute("PING")
    except (RedisError, OSError, TimeoutError) as error:
        raise LedgerSilentError(
            f"--ledger: {place(url)} {_reason(error)}. Mend that, or leave --ledger "
            "out: then a ledger in memory is started here."
        ) from None
    finally:
        await client.aclose()


def _reason(error: Exception) -> str:
    """Return what *error* says, without its text: that may hold anything."""
    match error:
        case AuthenticationError():
            return "wants another user or password than the URL has"
        case NoPermissionError():
            return "does not let this user do what deploy/redis/tokenweir.acl lists"
        case InvalidResponse():
            return "answers, but is no Redis or Valkey"
        case ResponseError():
            return "answers, but not to this user or not now"
        case TimeoutError() | RedisTimeoutError():
            return "gives no answer"
        case _:
            return "can't be reached: no Redis or Valkey listens there"
