"""
Charges the expired holds that nobody else would clear away.

A call on a tag reaps what has expired there; a tag that nobody calls has nobody to do
it. So there is a sweeper in every processor, of which one at a time, by a lease in
the ledger, goes through all tags.

After a processor is killed its holds expire within `core.holding.HOLD_MS` (30 s) of
their last extend. If it was the one who swept, its lease ends sooner. So every hold
is gone within 30 s, one interval and the time of a sweep, as long as any processor
runs.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.partition import all_tags
from tokenweir.ending import end_tasks
from tokenweir.ledger.store import Sweepable
from tokenweir.telemetry.hooks import LedgerEvents

INTERVAL_SECONDS = 5.0

# Two rounds: a leader that misses one, because the ledger or the machine was busy,
# stays; one that is gone is replaced long before its own holds expire.
LEASE_INTERVALS = 2

# For the round that is under way at the end.
LAST_ROUND_SECONDS = 3.0


class Sweeper:
    """
    The sweeper of one processor.

    Args:
        store: What is swept.
        events: Told of faults.
        tags: Where holds can be.
        interval_seconds: Between two rounds.
    """

    def __init__(
        self,
        store: Sweepable,
        events: LedgerEvents,
        *,
        tags: Sequence[str] | None = None,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._store = store
        self._events = events
        self._tags = all_tags() if tags is None else tags
        self._interval_seconds = interval_seconds
        self._owner = secrets.token_hex(8)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Sweep from now on."""
        self._stopping.clear()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End after the round that is under way, and let another processor lead."""
        self._stopping.set()
        task, self._task = self._task, None
        await end_tasks(
            task,
            where="sweeper",
            on_fault=self._events.fault,
            patience_seconds=LAST_ROUND_SECONDS,
        )

    async def sweep_once(self) -> int | None:
        """
        Sweep once, if this processor leads; return how many holds were charged.

        None: another leads. Raises: LedgerUnavailableError.
        """
        lease_ms = round(1_000 * LEASE_INTERVALS * self._interval_seconds)
        if not await self._store.lead(self._owner, lease_ms):
            return None
        return await self._store.sweep(self._tags)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.sweep_once()
            except LedgerUnavailableError:
                pass  # reported where it happened; the next round may do better
            except Exception as error:  # noqa: BLE001, nobody would start it again
                self._events.fault("sweeper", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_seconds):
                    await self._stopping.wait()
        with suppress(LedgerUnavailableError):
            await self._store.lead(self._owner, 0)
