"""Shares the event loop out, where one exchange has much to do at once."""

from __future__ import annotations

import asyncio


class Turns:
    """
    Gives long work the loop piece by piece.

    Whoever waits gets one turn each time the loop has gone round, and all of them
    together no more than that: so what is short waits for one piece at the most,
    however much long work there is.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Return when it is the caller's turn to do one piece."""
        async with self._lock:
            await asyncio.sleep(0)
