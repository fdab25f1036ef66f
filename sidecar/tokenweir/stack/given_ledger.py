"""
Whether a ledger that the user has named is there.

Without it every processor would wait for it, and the user for all of them.
"""

from __future__ import annotations

import asyncio

from redis.exceptions import (
    InvalidResponse,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from tokenweir.ledger.address import place
from tokenweir.ledger.faults import reason_of
from tokenweir.ledger.sentinel import PrimaryUnknownError
from tokenweir.ledger.servers import connect
from tokenweir.stack.failure import LedgerSilentError

PATIENCE_SECONDS = 5.0


async def require_ledger(url: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """
    Return once the ledger at *url* has answered.

    Raises: LedgerSilentError, saying why it did not within *patience_seconds*.
    """
    servers = connect(url)
    try:
        async with asyncio.timeout(patience_seconds):
            await servers.execute("PING")
    except (RedisError, OSError, TimeoutError) as error:
        raise LedgerSilentError(
            f"--ledger: {place(url)} {_reason(error)}. Mend that, or leave --ledger "
            "out: then a ledger in memory is started here."
        ) from None
    finally:
        await servers.close()


def _reason(error: Exception) -> str:
    """Return what *error* says, without its text: that may hold anything."""
    match error:
        case RedisError() if reason_of(error) == "SSLCertVerificationError":
            return "has a certificate that nobody here vouches for: see ssl_ca_certs"
        case RedisError() if reason_of(error) == "AuthenticationError":
            return "wants another user or password than the URL has"
        case NoPermissionError():
            return "does not let this user do what deploy/redis/tokenweir.acl lists"
        case InvalidResponse():
            return "answers, but is no Redis or Valkey"
        case _:
            return _state(error)


def _state(error: Exception) -> str:
    match error:
        case PrimaryUnknownError():
            return "knows no primary: no Sentinel answers, or none has this service"
        case ResponseError():
            return "answers, but not to this user or not now"
        case TimeoutError() | RedisTimeoutError():
            return "gives no answer"
        case _:
            return "can't be reached: no Redis or Valkey listens there"
