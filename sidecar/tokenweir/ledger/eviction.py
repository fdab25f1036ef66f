"""
Looks whether the ledger's server would drop keys when its memory is full.

A server that evicts drops levels (a limit that is used up is full again) and holds (an
exchange in flight is not counted), and says so nowhere. That is for whoever runs the
server to change: see docs/runbook.md. Here it is only told.

It is asked again and again, for a server may be configured anew, or replaced by one
that is configured otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ending import end_tasks
from tokenweir.telemetry.hooks import LedgerEvents

INTERVAL_SECONDS = 300.0
# Until the first answer.
FIRST_INTERVAL_SECONDS = 5.0


class EvictionWatch:
    """
    Args:
        ask: As `tokenweir.ledger.redis.RedisStore.eviction`.
        events: Told of each answer, and of faults.
        interval_seconds: Between two questions, and the longest wait for a first
            answer.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[str | None]],
        events: LedgerEvents,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._ask = ask
        self._events = events
        self._interval_seconds = interval_seconds
        self._pause_seconds = min(FIRST_INTERVAL_SECONDS, interval_seconds)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Ask from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ask no more. May be called without `start`."""
        task, self._task = self._task, None
        await end_tasks(task, where="eviction", on_fault=self._events.fault)

    async def look(self) -> None:
        """Ask once, and tell. A server that gives no answer is reported elsewhere."""
        try:
            policy = await self._ask()
        except LedgerUnavailableError:
            return
        except Exception as error:  # noqa: BLE001, nobody would start it again
            self._events.fault("eviction", error)
            return
        self._pause_seconds = self._interval_seconds
        if policy is not None:
            self._events.ledger_evicts(policy)

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._pause_seconds)
