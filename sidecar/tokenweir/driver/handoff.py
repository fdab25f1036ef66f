"""
Watches over the moment between the two filters.

The request side ends when its answer goes to Envoy; the response side begins
when Envoy opens its stream. If the client leaves just in between, nobody would
own the hold until it expires. So each hold that was forwarded has to be claimed
within `CLAIM_SECONDS`, or it is cancelled.

With several workers a hold may be claimed in another process. That process has
extended it by then, and a cancel of unclaimed holds leaves it alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tokenweir.core.hold import Hold

# Longer than Envoy ever takes between two filters, and than the first renewal.
CLAIM_SECONDS = 3.0


class Handoff:
    """Holds that were forwarded and not yet claimed."""

    def __init__(self, on_unclaimed: Callable[[Hold], None]) -> None:
        self._on_unclaimed = on_unclaimed
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def offer(self, hold: Hold) -> None:
        """Wait for *hold* to be claimed."""
        self._waiting[hold.id] = asyncio.get_running_loop().call_later(
            CLAIM_SECONDS, self._expire, hold
        )

    def claim(self, hold_id: str) -> None:
        """Say that the response side has the hold."""
        timer = self._waiting.pop(hold_id, None)
        if timer is not None:
            timer.cancel()

    @property
    def size(self) -> int:
        """How many are waiting."""
        return len(self._waiting)

    def _expire(self, hold: Hold) -> None:
        del self._waiting[hold.id]
        self._on_unclaimed(hold)
