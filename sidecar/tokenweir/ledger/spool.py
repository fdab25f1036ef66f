"""
Settles and cancels that the ledger did not take wait here until it does.

They are kept in memory, in order, and repeated by one task with growing pauses. The
verbs are idempotent by hold id, so that what was applied although no answer came
changes nothing the second time. As long as anything waits, whatever comes behind it
waits too: it would fail as well, and its exchange would wait for that.

What the ledger refuses while it answers others (there is garbage in a key of its limit)
is set apart, so that it keeps nobody waiting, and is repeated when nothing else is to
do: keys expire, and people repair them.

What the ledger has taken is repeated too, if it may have forgotten it: when all else is
done, and nobody waits for it. See `tokenweir.ledger.remembered`.

An extend is not kept: the next one says all that it said.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.core.hold import Denied, Granted, Hold, Settlement, Stale
from tokenweir.ending import end_tasks
from tokenweir.ledger.base import Ledger
from tokenweir.ledger.remembered import Remembered
from tokenweir.telemetry.hooks import LedgerEvents

# About 20 MB of holds and settlements: ten minutes of twenty exchanges a second.
MAX_WAITING = 10_000

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0

Call = Callable[[], Awaitable[None]]


class Lineage(Protocol):
    """Tells if a ledger is what it was: see `tokenweir.ledger.redis.RedisStore`."""

    def epochs(self, tags: Iterable[str]) -> Mapping[str, str]:
        """Return what stands for what each of *tags* is now."""

    async def stands(self, epochs: Mapping[str, str]) -> bool:
        """Tell if they are that still. Raises: LedgerUnavailableError."""


class _Outcome(enum.Enum):
    DONE = enum.auto()  # or not worth repeating
    AWAY = enum.auto()  # it would be the same for any call
    REFUSED = enum.auto()  # it is about this call


class SpoolOverflowError(Exception):
    """The oldest entry was dropped: one exchange will be charged as lost."""


class SpooledLedger:
    """
    A `tokenweir.ledger.base.Ledger` whose settle, cancel and extend never raise.

    Args:
        ledger: What is asked.
        events: Told how many entries wait, and of those that are dropped.
        lineage: Of the ledger; without it nothing is repeated that it has taken.
        max_waiting: Entries; beyond that the oldest is dropped.
    """

    def __init__(
        self,
        ledger: Ledger,
        events: LedgerEvents,
        *,
        lineage: Lineage | None = None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._ledger = ledger
        self._lineage = lineage
        self._events = events
        self._max_waiting = max_waiting
        self._waiting: deque[Call] = deque()
        self._refused: deque[Call] = deque()
        self._again: deque[Call] = deque()
        self._taken: Remembered[Call] = Remembered()
        self._repeats = 0
        self._replay: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._longest_pause_seconds = LONGEST_PAUSE_SECONDS

    async def reserve(self, hold: Hold) -> Granted | Denied | Stale:
        """See `tokenweir.ledger.base.Ledger.reserve`; this one may raise."""
        return await self._ledger.reserve(hold)

    async def extend(self, hold: Hold, output_tokens: int) -> None:
        """See `tokenweir.ledger.base.Ledger.extend`; it never raises."""
        await self._attempt(lambda: self._ledger.extend(hold, output_tokens))

    async def settle(self, hold: Hold, settlement: Settlement) -> None:
        """See `tokenweir.ledger.base.Ledger.settle`; it never raises."""
        await self._deliver(hold, lambda: self._ledger.settle(hold, settlement))

    async def cancel(self, hold: Hold, *, unclaimed_only: bool = False) -> bool:
        """
        See `tokenweir.ledger.base.Ledger.cancel`; it never raises.

        False also if nobody knows yet, since the cancel waits for the ledger.
        """
        was_nobodys = False

        async def call() -> None:
            nonlocal was_nobodys
            was_nobodys = await self._ledger.cancel(hold, unclaimed_only=unclaimed_only)

        await self._deliver(hold, call)
        return was_nobodys

    async def epoch(self) -> str:
        """See `tokenweir.ledger.base.Ledger.epoch`."""
        return await self._ledger.epoch()

    async def ping(self) -> None:
        """See `tokenweir.ledger.base.Ledger.ping`."""
        await self._ledger.ping()

    def repeat(self) -> None:
        """
        Say again what the ledger has taken last: it may have forgotten that.

        Idempotent, as all calls are; returns at once. A tag that has begun anew since,
        as in a ledger that was emptied, is told nothing: it has forgotten all. What is
        being taken at this moment is said again too, once it is: whoever takes it may be
        a server that is none any more.
        """
        self._repeats += 1
        calls = dict.fromkeys((*self._again, *self._taken.take()))
        self._again.clear()
        if calls:
            self._say_again(calls)

    async def flush(self, deadline_seconds: float) -> int:
        """
        Try to get rid of what waits; return how many entries are left.

        What is only repeated is none of them.

        From then on pauses are short: this is the end of a processor's life.
        """
        self._longest_pause_seconds = FIRST_PAUSE_SECONDS
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline_seconds):
                while self._replay is not None:
                    await asyncio.shield(self._replay)
        return self._size

    async def close(self) -> None:
        """Stop repeating and close the ledger: `flush` first."""
        await end_tasks(self._replay, where="spool", on_fault=self._events.fault)
        await self._ledger.close()

    @property
    def _size(self) -> int:
        return len(self._waiting) + len(self._refused)

    async def _deliver(self, hold: Hold, deliver: Call) -> None:
        async def call() -> None:
            repeats = self._repeats
            await deliver()
            self._remember(hold, deliver, repeats)

        outcome = _Outcome.AWAY
        try:
            if not self._waiting:
                outcome = await self._attempt(call)
        except asyncio.CancelledError:
            # The exchange's task was ended in the middle of it. The debt remains.
            self._keep(call, self._waiting)
            raise
        if outcome is not _Outcome.DONE:
            is_refused = outcome is _Outcome.REFUSED
            self._keep(call, self._refused if is_refused else self._waiting)

    def _remember(self, hold: Hold, call: Call, repeats: int) -> None:
        """Keep *call*, which began when there had been so many *repeats*."""
        if self._lineage is not None:
            epochs = self._lineage.epochs(part.tag for part in hold.parts)
            again = partial(_unless_anew, self._lineage, epochs, call)
            self._taken.add(again)
            if repeats != self._repeats:
                self._say_again([again])

    def _say_again(self, calls: Iterable[Call]) -> None:
        self._again.extend(calls)
        self._begin()
        self._wake.set()  # it may be resting between refusals

    async def _attempt(self, call: Call) -> _Outcome:
        try:
            await call()
        except LedgerRefusedError:
            return _Outcome.REFUSED
        except LedgerUnavailableError:
            return _Outcome.AWAY
        except Exception as error:  # noqa: BLE001, no exchange fails for its accounting
            self._events.fault("ledger", error)
        return _Outcome.DONE

    def _keep(self, call: Call, queue: deque[Call]) -> None:
        if self._size >= self._max_waiting:
            (self._refused or self._waiting).popleft()
            self._events.fault(
                "spool", SpoolOverflowError("the oldest entry was dropped")
            )
        if queue is self._waiting and not queue and self._refused:
            self._wake.set()  # it may be resting between refusals
        queue.append(call)
        self._events.spool_size(self._size)
        self._begin()

    def _begin(self) -> None:
        if self._replay is None:
            self._replay = asyncio.create_task(self._replay_all())

    async def _replay_all(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        try:
            while queue := self._waiting or self._again or self._refused:
                call, repeats = queue[0], self._repeats
                outcome = await self._attempt(call)
                # Whoever was told it again may be none any more as well.
                is_void = queue is self._again and repeats != self._repeats
                # It may have been dropped meanwhile, as the oldest of too many.
                if queue and queue[0] is call and not is_void:
                    self._put_away(queue, outcome)
                if outcome is _Outcome.DONE:
                    pause = FIRST_PAUSE_SECONDS
                elif outcome is _Outcome.AWAY or queue is self._refused:
                    await self._rest(pause)
                    pause = min(2 * pause, self._longest_pause_seconds)
        finally:
            self._replay = None

    async def _rest(self, pause_seconds: float) -> None:
        with suppress(TimeoutError):
            # `wait_for` could swallow a cancellation.
            async with asyncio.timeout(pause_seconds):
                await self._wake.wait()
        self._wake.clear()

    def _put_away(self, queue: deque[Call], outcome: _Outcome) -> None:
        """Put the first of *queue* where it belongs after its attempt."""
        if queue is self._again:
            if outcome is not _Outcome.AWAY:
                # Who has heard it now may forget it as well.
                self._taken.add(queue.popleft())
        elif outcome is _Outcome.DONE:
            queue.popleft()
            self._events.spool_size(self._size)
        elif outcome is _Outcome.REFUSED:
            self._refused.append(queue.popleft())


async def _unless_anew(lineage: Lineage, epochs: Mapping[str, str], call: Call) -> None:
    if await lineage.stands(epochs):
        await call()
