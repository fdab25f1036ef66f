"""
What estimates learn, on its way to the ledger, and what of it is in force here.

Samples of a few seconds are summed by place and written together, at most once, see
`tokenweir.driver.write_behind`. What the ledger has learned from all processors comes
back with that, and is read now and then of the tenants that are served here; so no
exchange waits for it. While the ledger is away what was last known stays in force.

Of generated text only some answers are counted, and beside the exchanges: the texts of
whole answers are counted for this reason alone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from tokenweir.core.calibration import (
    Batch,
    Learned,
    Place,
    Side,
    ratio_of,
    sample_of,
)
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.lesson import Lesson
from tokenweir.core.policy import Policy
from tokenweir.driver.background import Background
from tokenweir.driver.services import Counter
from tokenweir.driver.write_behind import INTERVAL_SECONDS, WriteBehind
from tokenweir.ending import OnFault, end_tasks
from tokenweir.ledger.calibration import CalibrationStore, Spot
from tokenweir.telemetry.hooks import LedgerEvents

# What faults are told as.
NAME = "calibration"
# Between two reads of what others have learned.
READ_SECONDS = 15.0
# Tenants whose corrections are known here; those that come back are read again.
MAX_TENANTS = 1_000
# Places and sides that wait to be written: some hundred kilobytes.
MAX_WAITING = 2_000
# Answers whose text is counted, of each place and between two writes; and at once.
OUTPUTS_PER_WRITE = 4
MAX_COUNTING = 4

Sums = tuple[str, dict[Spot, Batch]]


class OnCompared(Protocol):
    """Told of each estimate that a report can be compared with. Must not raise."""

    def __call__(self, place: Place, side: Side, ratio: float) -> None:
        """*ratio* is reported by estimated tokens, corrections included."""


OnLearned = Callable[[Mapping[Spot, Learned]], None]


class Calibration:
    """
    Collects samples, and knows what was learned. It does not raise.

    Args:
        counter: Counts generated texts.
        background: For counts that nobody waits for.
        on_compared: Told how far estimates were off.
        on_learned: Told all that is in force when it has changed, once for each flush
            and each read: it may be long.
        interval_seconds: Between two writes.
        read_seconds: Between two reads.
    """

    def __init__(
        self,
        counter: Counter,
        background: Background,
        on_compared: OnCompared,
        on_learned: OnLearned,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._counter = counter
        self._background = background
        self._on_compared = on_compared
        self._on_learned = on_learned
        self._read_seconds = read_seconds
        self._waiting: dict[Spot, Batch] = {}
        self._counted: dict[Place, int] = {}
        self._counting = 0
        self._learned: dict[Spot, Learned] = {}
        self._is_news = False
        self._tenants: OrderedDict[str, None] = OrderedDict()
        self._wanted = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._on_fault: OnFault | None = None
        self._writer = WriteBehind(
            NAME, self, self._write, interval_seconds, self._tell
        )

    def use_policy(self, policy: Policy) -> None:
        """Know *policy*'s tenants from the beginning, if there are not too many."""
        single = policy.single_tenant
        names = [single] if single is not None else list(policy.tenants)
        for name in names[:MAX_TENANTS]:
            self._want(name)

    def recall(self, place: Place, side: Side) -> Learned | None:
        """Return what is known of *place*; see `TokenCounter.recall`."""
        self._want(place.tenant)
        return self._learned.get((place, side))

    def learn(self, lesson: Lesson) -> None:
        """Take what an exchange teaches."""
        place = lesson.place
        if lesson.estimated_input:
            reported = lesson.reported_input
            self._compare(place, Side.INPUT, lesson.reserved_input, reported)
            self._add(place, Side.INPUT, lesson.estimated_input, reported)
        if lesson.texts and self._may_count(place):
            self._counting += 1
            self._background.spawn(self._count(lesson))

    def start(self, store: CalibrationStore, events: LedgerEvents) -> None:
        """Write to *store* and read from it, from now on; *events* hear of faults."""
        self._on_fault = events.fault
        self._writer.start(store, events)
        self._reading = asyncio.create_task(self._read_on(store, events))

    async def stop(self) -> None:
        """Write what waits, and end. What can't be written is lost."""
        reading, self._reading = self._reading, None
        if reading is not None:
            # A call that is answered at this moment may swallow the cancellation.
            self._wanted.set()
            await end_tasks(reading, where=NAME, on_fault=self._on_fault)
        await self._writer.stop()

    async def flush(self, store: CalibrationStore) -> None:
        """Write what waits to *store*, if it answers."""
        await self._writer.flush(store)

    async def read(self, store: CalibrationStore) -> None:
        """Read what *store* knows. Raises: LedgerUnavailableError."""
        tenants = tuple(self._tenants)
        learned = await store.read(tenants)
        # Of tenants that came meanwhile something may have been learned here.
        later = self._tenants.keys() - tenants
        known = {k: v for k, v in self._learned.items() if k[0].tenant in later}
        known.update(learned)
        self._is_news = self._is_news or known != self._learned
        self._learned = known
        self._tell()

    # === what waits, for the writer ============================================

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def take(self) -> list[Sums]:
        """Give away all that waits, each batch for one call."""
        taken, self._waiting, self._counted = self._waiting, {}, {}
        by_tenant: dict[str, dict[Spot, Batch]] = {}
        for spot, batch in taken.items():
            by_tenant.setdefault(spot[0].tenant, {})[spot] = batch
        return list(by_tenant.items())

    def put_back(self, batch: Sums) -> None:
        """Let *batch*, which was not sent, wait again."""
        for spot, samples in batch[1].items():
            self._wait(spot, samples)

    def lose(self, batch: Sums) -> None:
        """Do without *batch*: other samples will come."""

    # === parts =================================================================

    def _may_count(self, place: Place) -> bool:
        counted = self._counted.get(place, 0)
        if counted >= OUTPUTS_PER_WRITE or self._counting >= MAX_COUNTING:
            return False
        if counted or len(self._counted) < MAX_WAITING:
            self._counted[place] = counted + 1
            return True
        return False

    async def _count(self, lesson: Lesson) -> None:
        place, reported = lesson.place, lesson.reported_output
        try:
            # Without a place: as it is counted before any correction.
            count = await self._counter.count_texts(
                lesson.texts, place.model, lesson.tokenizer
            )
        finally:
            self._counting -= 1
        learned = self._learned.get((place, Side.OUTPUT))
        corrected = count.tokens
        if learned is not None and learned.is_ready:
            corrected = round(corrected * learned.factor)
        self._compare(place, Side.OUTPUT, corrected, reported)
        self._add(place, Side.OUTPUT, count.tokens, reported)

    def _compare(self, place: Place, side: Side, estimated: int, reported: int) -> None:
        ratio = ratio_of(estimated, reported)
        if ratio is not None:
            self._on_compared(place, side, ratio)

    def _add(self, place: Place, side: Side, estimated: int, reported: int) -> None:
        sample = sample_of(estimated, reported)
        if sample is not None:
            self._wait((place, side), sample)

    def _wait(self, spot: Spot, batch: Batch) -> None:
        if spot in self._waiting:
            self._waiting[spot] += batch
        elif len(self._waiting) < MAX_WAITING:
            self._waiting[spot] = batch

    def _want(self, tenant: str) -> None:
        if tenant in self._tenants:
            self._tenants.move_to_end(tenant)
            return
        self._tenants[tenant] = None
        self._wanted.set()
        if len(self._tenants) > MAX_TENANTS:
            self._tenants.popitem(last=False)

    def _tell(self) -> None:
        if self._is_news:
            self._is_news = False
            self._on_learned(self._learned)

    async def _write(self, store: CalibrationStore, batch: Sums) -> None:
        # In place: there is a batch of each tenant, and what is known is of all of them.
        learned = await store.learn(*batch)
        self._is_news = self._is_news or bool(learned)
        self._learned.update(learned)

    async def _read_on(self, store: CalibrationStore, events: LedgerEvents) -> None:
        reading = asyncio.current_task()
        while self._reading is reading:
            self._wanted.clear()
            try:
                await self.read(store)
            except LedgerUnavailableError:
                pass  # what was last known stays
            except Exception as error:  # noqa: BLE001, nobody would start it again
                events.fault(NAME, error)
            if self._reading is reading:
                await self._pause()

    async def _pause(self) -> None:
        # New tenants are read soon, but all those of a second together.
        await asyncio.sleep(min(1.0, self._read_seconds))
        with suppress(TimeoutError):
            # `wait_for` could swallow a cancellation.
            async with asyncio.timeout(self._read_seconds):
                await self._wanted.wait()
