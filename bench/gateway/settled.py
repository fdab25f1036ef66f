"""What a ledger has settled in all, by its hourly sums."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import redis

from bench.gateway.checks import unsettled
from bench.gateway.stand import Stand
from tests.servers import Server

PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.1
_HOURS = "*:a:*"
_SEPARATOR = "\x1f"


def sums(server: Server) -> dict[str, int]:
    """Return the sums of all tenants and hours, by figure. Raises: RedisError."""
    found: Counter[str] = Counter()
    with redis.Redis(
        unix_socket_path=str(server.path), decode_responses=True
    ) as client:
        for key in client.scan_iter(match=_HOURS, count=1_000):
            for name, figure in client.hgetall(key).items():
                found[name.rpartition(_SEPARATOR)[2]] += int(figure)
    return dict(found)


def held(server: Server) -> int:
    """Return how many holds there are. Raises: RedisError."""
    with redis.Redis(
        unix_socket_path=str(server.path), decode_responses=True
    ) as client:
        return sum(
            client.zcard(key) for key in client.scan_iter(match="*:x", count=1_000)
        )


def until(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait for what *holds*; tell if it came to that."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def settled(stand: Stand, answered: int) -> list[str]:
    """
    Wait until *answered* exchanges are settled; return what is wrong, a line each.

    Their usage has to be what the provider reported, to the token.
    """
    server = stand.ledger
    if server is None:
        return []
    until(lambda: sums(server).get("exchanges", 0) >= answered)
    return unsettled(stand.variant.name, answered, sums(server))
