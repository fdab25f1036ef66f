"""How to be refused by a limit that fills up again while one looks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

AT_ONCE = 4
# On a slow machine calls that are made at once come one after the other.
ROUNDS = 20


async def refusal(ask: Callable[[], Awaitable[object]]) -> BaseException:
    """Call, several times at once, until a call raises; return what it raises."""
    for _ in range(ROUNDS):
        asked = (ask() for _ in range(AT_ONCE))
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                return outcome
    raise AssertionError("nobody was refused")
