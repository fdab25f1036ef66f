"""
Sums on their way to the ledger: they gather in memory, and are written now and then.

What is written is written at most once: a batch that may have been applied is never
sent again, and is lost if it was not. As long as the ledger answers nothing no batch is
sent, and what waits goes on waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.ending import OnFault, end_tasks
from tokenweir.telemetry.hooks import LedgerEvents

INTERVAL_SECONDS = 5.0
# For what is written at the end.
LAST_SECONDS = 2.0


class Answering(Protocol):
    """A part of the ledger that can be asked whether it is there."""

    async def ping(self) -> None:
        """Ask for an answer. Raises: LedgerUnavailableError."""


StoreT = TypeVar("StoreT", bound=Answering)
BatchT = TypeVar("BatchT")


class Waiting(Protocol[BatchT]):
    """What waits. It bounds itself, and counts what is lost."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""

    def take(self) -> list[BatchT]:
        """Give away all that waits, each batch for one call."""

    def put_back(self, batch: BatchT) -> None:
        """Let *batch*, which was not sent, wait again."""

    def lose(self, batch: BatchT) -> None:
        """Count *batch* as lost."""


def _nothing() -> None:
    pass


class WriteBehind(Generic[StoreT, BatchT]):
    """
    Writes what waits, again and again.

    Args:
        name: What faults are told as.
        waiting: What is written.
        write: Writes one batch to the store, and raises what the ledger raises.
        interval_seconds: Between two writes.
        flushed: Called after each flush that wrote, or tried to. Must not raise.
    """

    def __init__(
        self,
        name: str,
        waiting: Waiting[BatchT],
        write: Callable[[StoreT, BatchT], Awaitable[None]],
        interval_seconds: float = INTERVAL_SECONDS,
        flushed: Callable[[], None] = _nothing,
    ) -> None:
        self._name = name
        self._waiting = waiting
        self._write = write
        self._interval_seconds = interval_seconds
        self._flushed = flushed
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._on_fault: OnFault | None = None

    def start(self, store: StoreT, events: LedgerEvents) -> None:
        """Write to *store* from now on, again and again; *events* are told of faults."""
        self._on_fault = events.fault
        self._task = asyncio.create_task(self._run(store, events))

    async def stop(self) -> None:
        """Write what waits, and end. What can't be written is lost."""
        self._stopping.set()
        task, self._task = self._task, None
        await end_tasks(
            task,
            where=self._name,
            on_fault=self._on_fault,
            patience_seconds=LAST_SECONDS,
        )
        for batch in self._waiting.take():
            self._waiting.lose(batch)

    async def flush(self, store: StoreT) -> None:
        """Write what waits to *store*, if it answers."""
        if self._waiting.is_empty:
            return
        try:
            await store.ping()
        except LedgerUnavailableError:
            return
        batches = self._waiting.take()
        try:
            while batches and await self._write_once(store, batches.pop()):
                pass
        finally:
            for batch in batches:
                self._waiting.put_back(batch)
            self._flushed()

    async def _run(self, store: StoreT, events: LedgerEvents) -> None:
        is_last = False
        while not is_last:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_seconds):
                    await self._stopping.wait()
            is_last = self._stopping.is_set()
            try:
                await self.flush(store)
            except Exception as error:  # noqa: BLE001, nobody would start it again
                events.fault(self._name, error)

    async def _write_once(self, store: StoreT, batch: BatchT) -> bool:
        """Write *batch*; return whether another may fare better."""
        is_written = False
        try:
            await self._write(store, batch)
            is_written = True
        except LedgerRefusedError:
            return True
        except LedgerUnavailableError:
            return False
        finally:
            if not is_written:
                self._waiting.lose(batch)
        return True
