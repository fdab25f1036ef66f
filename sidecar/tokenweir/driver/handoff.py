"""
Watches over the moment between the two filters.

The request side ends when its answer goes to Envoy; the response side begins
when Envoy opens its stream. If the client leaves just in between, nobody would
own the hold until it expires. So each hold that was forwarded has to be claimed
within `CLAIM_SECONDS`, or it is cancelled, and the exchange is told as one that
was abandoned. Nothing is owed for it: Envoy sends a request on only once the
response side has answered to its head.

A process that stood still longer than Envoy waits can't say that nobody came: Envoy
has gone on without it, and the answer may have passed unseen. Then the hold is left
to expire, and is charged as lost.

With several workers a hold may be claimed in another process. That process
extends it at once, and a cancel of unclaimed holds leaves it alone: then it is
that process that tells of the exchange.
"""

from __future__ import annotations

import asyncio

from tokenweir.core.hold import Hold
from tokenweir.driver.background import Background
from tokenweir.ledger.base import Ledger
from tokenweir.telemetry.hooks import ExchangeDetails, OnExchangeEnd

# Longer than Envoy ever takes between two filters, and than the first renewal.
CLAIM_SECONDS = 3.0
# As long as Envoy's response filter waits for an answer before it goes on without.
STILL_SECONDS = 2.0


class Handoff:
    """
    Holds that were forwarded and not yet claimed.

    Args:
        ledger: Whose cancel never raises.
        on_exchange_end: Told of exchanges that end here.
        background: For what nobody waits for.
    """

    def __init__(
        self, ledger: Ledger, on_exchange_end: OnExchangeEnd, background: Background
    ) -> None:
        self._ledger = ledger
        self._on_exchange_end = on_exchange_end
        self._background = background
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def offer(self, hold: Hold, details: ExchangeDetails) -> None:
        """Wait for *hold* to be claimed; *details* are told if nobody does."""
        loop = asyncio.get_running_loop()
        due = loop.time() + CLAIM_SECONDS
        self._waiting[hold.id] = loop.call_at(due, self._expire, hold, details, due)

    def claim(self, hold_id: str) -> bool:
        """
        Say that the response side has the hold.

        Returns:
            Whether it was waited for. If not, another process may be waiting: it has
            to see from the ledger that the hold is claimed.
        """
        timer = self._waiting.pop(hold_id, None)
        if timer is None:
            return False
        timer.cancel()
        return True

    @property
    def size(self) -> int:
        """How many are waiting."""
        return len(self._waiting)

    def _expire(self, hold: Hold, details: ExchangeDetails, due: float) -> None:
        del self._waiting[hold.id]
        if asyncio.get_running_loop().time() - due < STILL_SECONDS:
            self._background.spawn(self._give_back(hold, details))

    async def _give_back(self, hold: Hold, details: ExchangeDetails) -> None:
        if await self._ledger.cancel(hold, unclaimed_only=True):
            self._on_exchange_end(details)
