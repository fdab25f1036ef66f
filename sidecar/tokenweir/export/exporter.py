"""
From the ledger's streams to a sink, whatever of the two is away.

Theory of operation. All that is known of the work lies in the ledger: what was
delivered to us and not acknowledged. So there is one way to begin, after a start as
after any failure: drop what is in hand, take what is ours already, take over what
others have left, then read on. An entry is acknowledged once the sink has made it
durable, and not before.

While something is away the exporter waits, longer each time, and spins never. Its
entries may be taken over by others of its group meanwhile, whose sink may be well.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.export.batch import Batch
from tokenweir.export.report import Report
from tokenweir.export.sink import Sink, SinkUnavailableError
from tokenweir.export.streams import START, Delivery, Streams

# Streams that are read at once. Most of them are empty.
STREAMS_AT_ONCE = 32
# Entries of one stream that are read at once: Redis does nothing else meanwhile, and
# exchanges wait. So many take it about a millisecond.
MOST_AT_ONCE = 500
# Rounds over streams that had more than fitted, before all others get their turn.
HOT_ROUNDS = 10
# Between two looks at all streams, if there was nothing new.
POLL_SECONDS = 1.0
# On top of the longest time that a batch waits in memory: what is in hand for longer
# than that has been left by somebody who was killed.
ABANDONED_SECONDS = 60.0
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
# How often one that has to come to an end (`once`) tries again.
TRIES = 4


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """
    Attributes:
        batch_rows: The most records in hand.
        interval_seconds: The longest that a record waits for others to be written
            with it.
        once: Export what is there, and end.
        from_start: Export all that the streams still have, also what was before.
        abandoned_seconds: When what another one has in hand is taken over.
        leaves: Nobody will read under this consumer's name again.
    """

    batch_rows: int = 2_000
    interval_seconds: float = 1.0
    once: bool = False
    from_start: bool = False
    abandoned_seconds: float | None = None
    leaves: bool = True

    @property
    def abandoned_ms(self) -> int:
        """The same in ms."""
        if self.abandoned_seconds is not None:
            return round(self.abandoned_seconds * 1_000)
        return round((ABANDONED_SECONDS + 2 * self.interval_seconds) * 1_000)


class Exporter:
    """
    Exports from *streams* to *sink*, and tells *report*.

    WARNING: it is for one run. A second one needs a second exporter.
    """

    def __init__(
        self, streams: Streams, sink: Sink, report: Report, settings: ExportSettings
    ) -> None:
        self._streams = streams
        self._sink = sink
        self._report = report
        self._settings = settings
        self._batch = Batch()
        self._stopping = asyncio.Event()
        self._rewinding = settings.from_start
        self._abandoned_due = 0.0
        self._is_well = False

    def stop(self) -> None:
        """Export what is in hand, and end."""
        self._stopping.set()

    async def run(self) -> bool:
        """
        Export until there is a reason to end.

        Returns:
            Whether nothing was left in hand. What is left is not lost: the group
            gets it again.

        Raises:
            SinkUnusableError: Somebody has to mend the sink.
            LedgerUnavailableError: The ledger stayed away (if it is to run once).
            SinkUnavailableError: The sink did.
        """
        failures = 0
        try:
            while not self._stopping.is_set():
                try:
                    return await self._session()
                except (LedgerUnavailableError, SinkUnavailableError) as error:
                    failures = 1 if self._is_well else failures + 1
                    if self._settings.once and failures >= TRIES:
                        raise
                    await self._wait_out(error, failures)
            return False
        finally:
            await asyncio.to_thread(self._sink.close)

    async def _session(self) -> bool:
        """Export until it is time to end; return whether nothing was left in hand."""
        self._batch, self._is_well = Batch(), False
        await asyncio.to_thread(self._sink.open)
        await self._streams.join()
        self._report.expired(await self._streams.skipped())
        await self._streams.tidy()
        if not await self._recover():
            return False
        if self._rewinding:
            await self._streams.rewind()
            self._rewinding = False
        while not self._stopping.is_set():
            if not await self._look() and self._settings.once:
                break
        await self._flush()
        self._note_well()
        if self._settings.leaves:
            # Whoever leaves loses what it has in hand: nothing, once all was flushed.
            await self._streams.leave()
        return True

    async def _look(self) -> bool:
        """Export what there is; return whether there is more, else rest a while."""
        await self._streams.join()
        await self._take_over()
        has_more = await self._read_new()
        if self._is_due():
            await self._flush()
        self._note_well()
        if not has_more and not self._settings.once:
            await self._rest(min(POLL_SECONDS, self._settings.interval_seconds))
        return has_more

    async def _recover(self) -> bool:
        """Export what was delivered to us before; return whether that is all done."""
        for tags in _chunks(self._streams.joined):
            left: Sequence[str] = tags
            while left:
                found = await self._streams.mine(left, self._count(left))
                if found and self._stopping.is_set():
                    return False
                await self._take(found)
                await self._flush()
                left = _tags_of(found)
        return True

    async def _take_over(self) -> None:
        """Export what others were killed with, now and then."""
        idle_ms = self._settings.abandoned_ms
        now = time.monotonic()
        if now < self._abandoned_due:
            return
        for tags in _chunks(self._streams.joined):
            cursors = dict.fromkeys(tags, START)
            while cursors and not self._stopping.is_set():
                found, cursors = await self._streams.abandoned(
                    cursors, self._count(tuple(cursors)), idle_ms
                )
                await self._take(found)
        self._abandoned_due = now + idle_ms / 2_000

    async def _read_new(self) -> bool:
        """Read what nobody has read, and return whether there is more."""
        hot: Sequence[str] = self._streams.joined
        for _ in range(HOT_ROUNDS):
            full: list[str] = []
            for tags in _chunks(hot):
                if self._stopping.is_set():
                    return False
                count = self._count(tags)
                found = await self._streams.new(tags, count)
                await self._take(found)
                counts = Counter(delivery.tag for delivery in found)
                full += [tag for tag in tags if counts[tag] >= count]
            hot = full
            if not hot:
                return False
        return True

    async def _take(self, deliveries: Sequence[Delivery]) -> None:
        self._batch.add(deliveries, time.monotonic())
        if len(self._batch) >= self._settings.batch_rows // 2:
            await self._flush()

    async def _flush(self) -> None:
        """Have the sink keep what is in hand, and acknowledge it."""
        batch, self._batch = self._batch, Batch()
        if not batch:
            return
        refused = 0
        if batch.rows or batch.bad:
            refused = await asyncio.to_thread(self._sink.write, batch.rows, batch.bad)
        await self._streams.acknowledge(batch.taken)
        self._report.exported(len(batch.rows) - refused)
        self._report.dead_letters(batch.bad, refused)
        self._report.expired(batch.expired)

    def _is_due(self) -> bool:
        waited = time.monotonic() - self._batch.since
        return bool(self._batch) and waited >= self._settings.interval_seconds

    def _count(self, tags: Sequence[str]) -> int:
        """Return how much of each tag to read: half a batch from all of them."""
        share = self._settings.batch_rows // 2 // max(1, len(tags))
        return max(1, min(MOST_AT_ONCE, share))

    def _note_well(self) -> None:
        if not self._batch:
            self._is_well = True
            self._report.well()

    async def _wait_out(self, error: Exception, failures: int) -> None:
        wait_s = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** (failures - 1))
        if isinstance(error, SinkUnavailableError):
            self._report.away("sink", str(error), wait_s)
        else:
            self._report.away("ledger", str(error), wait_s)
            await self._streams.disconnect()
        await self._rest(wait_s)

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


def _chunks(tags: Sequence[str]) -> list[Sequence[str]]:
    return [
        tags[start : start + STREAMS_AT_ONCE]
        for start in range(0, len(tags), STREAMS_AT_ONCE)
    ]


def _tags_of(deliveries: Sequence[Delivery]) -> list[str]:
    return list(dict.fromkeys(delivery.tag for delivery in deliveries))
