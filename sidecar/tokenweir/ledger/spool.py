"""
Settles and cancels that the ledger did not take wait here until it does.

They are kept in memory, in order, and repeated by one task with growing pauses. The
verbs are idempotent by hold id, so that what was applied although no answer came
changes nothing the second time. As long as anything waits, whatever comes behind it
waits too: it would fail as well, and its exchange would wait for that.

An extend is not kept: the next one says all that it said.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Denied, Granted, Hold, Settlement
from tokenweir.ledger.base import Ledger
from tokenweir.telemetry.hooks import LedgerEvents

# About 20 MB of holds and settlements: ten minutes of twenty exchanges a second.
MAX_WAITING = 10_000

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

Call = Callable[[], Awaitable[None]]


class SpoolOverflowError(Exception):
    """The oldest entry was dropped: one exchange will be charged as lost."""


class SpooledLedger:
    """
    A `tokenweir.ledger.base.Ledger` whose settle, cancel and extend never raise.

    Args:
        ledger: What is asked.
        events: Told how many entries wait, and of those that are dropped.
        max_waiting: Entries; beyond that the oldest is dropped.
    """

    def __init__(
        self, ledger: Ledger, events: LedgerEvents, *, max_waiting: int = MAX_WAITING
    ) -> None:
        self._ledger = ledger
        self._events = events
        self._max_waiting = max_waiting
        self._waiting: deque[Call] = deque()
        self._replay: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._longest_pause_seconds = LONGEST_PAUSE_SECONDS

    async def reserve(self, hold: Hold) -> Granted | Denied:
        """See `tokenweir.ledger.base.Ledger.reserve`; this one may raise."""
        return await self._ledger.reserve(hold)

    async def extend(self, hold: Hold, output_tokens: int) -> None:
        """See `tokenweir.ledger.base.Ledger.extend`; it never raises."""
        await self._attempt(lambda: self._ledger.extend(hold, output_tokens))

    async def settle(self, hold: Hold, settlement: Settlement) -> None:
        """See `tokenweir.ledger.base.Ledger.settle`; it never raises."""
        await self._deliver(lambda: self._ledger.settle(hold, settlement))

    async def cancel(self, hold: Hold, *, unclaimed_only: bool = False) -> bool:
        """
        See `tokenweir.ledger.base.Ledger.cancel`; it never raises.

        False also if nobody knows yet, since the cancel waits for the ledger.
        """
        was_nobodys = False

        async def call() -> None:
            nonlocal was_nobodys
            was_nobodys = await self._ledger.cancel(hold, unclaimed_only=unclaimed_only)

        await self._deliver(call)
        return was_nobodys

    async def epoch(self) -> str:
        """See `tokenweir.ledger.base.Ledger.epoch`."""
        return await self._ledger.epoch()

    async def ping(self) -> None:
        """See `tokenweir.ledger.base.Ledger.ping`."""
        await self._ledger.ping()

    async def flush(self, deadline_seconds: float) -> int:
        """
        Try to get rid of what waits; return how many entries are left.

        From then on pauses are short: this is the end of a processor's life.
        """
        self._longest_pause_seconds = FIRST_PAUSE_SECONDS
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline_seconds):
                while self._replay is not None:
                    await asyncio.shield(self._replay)
        return len(self._waiting)

    async def close(self) -> None:
        """Stop repeating and close the ledger: `flush` first."""
        if self._replay is not None:
            self._replay.cancel()
            with suppress(asyncio.CancelledError):
                await self._replay
        await self._ledger.close()

    async def _deliver(self, call: Call) -> None:
        try:
            is_done = not self._waiting and await self._attempt(call)
        except asyncio.CancelledError:
            # The exchange's task was ended in the middle of it. The debt remains.
            self._keep(call)
            raise
        if not is_done:
            self._keep(call)

    async def _attempt(self, call: Call) -> bool:
        """Return False if *call* is worth repeating."""
        try:
            await call()
        except LedgerUnavailableError:
            return False
        except Exception as error:  # noqa: BLE001, no exchange fails for its accounting
            self._events.fault("ledger", error)
        return True

    def _keep(self, call: Call) -> None:
        if len(self._waiting) >= self._max_waiting:
            self._waiting.popleft()
            self._events.fault(
                "spool", SpoolOverflowError("the oldest entry was dropped")
            )
        self._waiting.append(call)
        self._events.spool_size(len(self._waiting))
        if self._replay is None:
            self._replay = asyncio.create_task(self._repeat())

    async def _repeat(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        try:
            while self._waiting:
                call = self._waiting[0]
                if await self._attempt(call):
                    self._drop(call)
                    pause = FIRST_PAUSE_SECONDS
                else:
                    await self._rest(pause)
                    pause = min(2 * pause, self._longest_pause_seconds)
        finally:
            self._replay = None

    async def _rest(self, pause_seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), pause_seconds)
        self._wake.clear()

    def _drop(self, call: Call) -> None:
        # It may have been dropped already, as the oldest of too many.
        if self._waiting and self._waiting[0] is call:
            self._waiting.popleft()
            self._events.spool_size(len(self._waiting))
