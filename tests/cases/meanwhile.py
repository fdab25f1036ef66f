"""
How long small requests take, alone and beside something large.

A machine that tests share may be busy with others, so a bound is a bound on top of
what the same requests took alone, just before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

Ask = Callable[[], Awaitable[Any]]

ALONE = 30
PAUSE_SECONDS = 0.01
SLOWER = 10


async def alone(ask: Ask) -> list[float]:
    """Return the seconds that each of some requests takes when nothing else is on."""
    return [await _timed(ask) for _ in range(ALONE)]


async def beside(large: asyncio.Future[Any], ask: Ask) -> list[float]:
    """Return the seconds that each request takes that is made before *large* is over."""
    waits = []
    while not large.done():
        waits.append(await _timed(ask))
        await asyncio.sleep(PAUSE_SECONDS)
    return waits


def most_of(waits: list[float]) -> float:
    """Return the seconds within which nine in ten are answered."""
    return sorted(waits)[len(waits) * 9 // 10]


def bound_seconds(control: list[float], bound: float) -> float:
    """Return *bound* for a machine on which requests alone take as long as *control*."""
    return bound + SLOWER * most_of(control)


async def _timed(ask: Ask) -> float:
    began = time.monotonic()
    await ask()
    return time.monotonic() - began
