"""
Drives exchanges whose answers Envoy reads itself: from what its access log tells.

Each passage is everything that is known of its exchange. So it is read anew each time, by
the machinery that reads answers in line, and nothing of it is kept: any worker can be
told the next one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Final

from tokenweir.core.events import (
    DrainDeadline,
    Event,
    NothingSent,
    ResponseKept,
    ResponseMissed,
    ResponsePassed,
    StreamClosed,
    Tick,
)
from tokenweir.core.excerpt import Unit
from tokenweir.core.passage import Passage
from tokenweir.core.step import State
from tokenweir.driver.native_watch import Offer
from tokenweir.driver.performing import Performer
from tokenweir.driver.services import Services

_SCRIPT = "watch"


class _ScriptError(Exception):
    """What Envoy's script noted is not all that it should have noted."""


class NativeDriver:
    """Takes what Envoy tells, in whatever order. It never raises."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def take(self, passage: Passage) -> None:
        """Settle the exchange of *passage* if it is over, else keep its hold alive."""
        if not self._services.natives.hear(passage):
            return
        if not passage.over:
            self._read(passage, Tick())
        elif passage.head is None and not passage.sent:
            self._read(passage, NothingSent())
        else:
            if passage.excerpt is not None and passage.excerpt.fault:
                self._services.events.fault(_SCRIPT, _ScriptError("watch.lua failed"))
            self._read(passage, StreamClosed())

    def never_left(self, request_id: str) -> None:
        """
        Give back what a request holds whose app has left while Envoy took our answer.

        No passage tells of it: what would have told whose it is was not taken.
        """
        offer = self._services.natives.take_back(request_id)
        if offer is not None:
            self._services.background.spawn(self._give_back(offer))

    async def _give_back(self, offer: Offer) -> None:
        if await self._services.ledger.cancel(offer.hold, unclaimed_only=True):
            self._services.on_exchange_end(offer.details)

    def drain(self) -> None:
        """Settle what has passed of those that are not over: the processor leaves."""
        for passage in self._services.natives.newest():
            self._read(passage, DrainDeadline())

    def _read(self, passage: Passage, last: Event) -> None:
        try:
            reading = _Reading(
                passage, last, self._services, short=_may_be_short(passage)
            )
            reading.begin()
            if reading.needs_more:
                reading = _Reading(passage, last, self._services, short=False)
                reading.begin()
            if reading.behind:
                self._services.background.spawn(self._read_on(reading))
            else:
                reading.finish()
        except Exception as error:  # noqa: BLE001 - others are told of in the same message
            self._services.events.fault("access_log", error)

    async def _read_on(self, reading: _Reading) -> None:
        """Read what is much step by step, so that others are served meanwhile."""
        while reading.behind:
            await self._services.turns.next()
            reading.go_on()
        reading.finish()


class _Reading:
    """
    One passage on its way through the exchange; *last* is what it ends with.

    *short*: of units that differ in their texts only, few are read.
    """

    def __init__(
        self, passage: Passage, last: Event, services: Services, *, short: bool
    ) -> None:
        self._passage = passage
        self._last = last
        self._is_short = short
        self._units = _telling(passage) if short else _units(passage)
        self._todo: Iterator[tuple[Event, int]] = iter(())
        self._at_ms = passage.at_ms
        hold_id = passage.ticket.hold.id
        self._performer = Performer(
            passage.ticket, services, lambda: services.natives.settled(hold_id)
        )

    @property
    def behind(self) -> bool:
        """Whether some of what was kept is yet to be read."""
        return self._performer.behind

    def begin(self) -> None:
        """Take the head, and begin with what was kept."""
        if self._passage.head is not None:
            self._tell(self._passage.head)
        if self._performer.state is State.RESPONDING:
            self._todo = iter(_events_of(self._passage, self._units))
            self.go_on()

    @property
    def needs_more(self) -> bool:
        """Whether all that was kept must be read: what tells of it does not do."""
        responding = self._performer.state is State.RESPONDING
        if not self._is_short or not responding:
            return False
        return self._performer.needs_texts(self._passage.body_bytes)

    def go_on(self) -> None:
        """Read until there is much to be read at once, a step of it, or all."""
        if self._performer.behind:
            self._keep(ResponseKept(b""), self._at_ms)
        while not self._performer.behind:
            event, at_ms = next(self._todo, _NO_MORE)
            if event is None:
                return
            self._keep(event, at_ms)

    def finish(self) -> None:
        """Take what was counted, and what follows."""
        if self._performer.state is State.RESPONDING:
            self._tell(_passed(self._passage))
        if self._performer.state in (State.FORWARDED, State.RESPONDING):
            self._tell(self._last)

    def _keep(self, event: Event, at_ms: int) -> None:
        self._at_ms = at_ms
        # What can't be read by a bug of ours is charged by its size: see the reader.
        self._performer.handle_safely(event, at_ms)

    def _tell(self, event: Event) -> None:
        self._performer.handle(event, self._passage.at_ms)


_NO_MORE: Final = (None, 0)
# So many are read at once, whatever they tell.
_FEW: Final = 32
# Of longer answers, one in so many.
_TAUGHT_BY: Final = 8


def _may_be_short(passage: Passage) -> bool:
    """
    Tell if few units may tell enough: of a long answer that is all there.

    Of some, all are read: their texts teach how far estimates are off.
    """
    excerpt = passage.excerpt
    if excerpt is None or not passage.over or excerpt.fault or not excerpt.whole:
        return False
    if len(excerpt.units) <= _FEW or excerpt.gap_at is not None:
        return False
    return zlib.crc32(passage.ticket.hold.id.encode()) % _TAUGHT_BY != 0


def _units(passage: Passage) -> Sequence[Unit]:
    return passage.excerpt.units if passage.excerpt else ()


def _telling(passage: Passage) -> Sequence[Unit]:
    """Return the units that tell what was used; what is left out counts as text."""
    assert passage.excerpt is not None
    units = passage.excerpt.decisive()
    if not units:
        return ()
    left_out = passage.excerpt.seen_bytes - sum(len(unit.data) for unit in units)
    return (units[0]._replace(elided_bytes=max(0, left_out)), *units[1:])


def _events_of(passage: Passage, units: Sequence[Unit]) -> Iterator[tuple[Event, int]]:
    """Yield what was kept of the body, and what is missing, with the time of each."""
    excerpt = passage.excerpt
    if excerpt is None or not units:
        if passage.body_bytes:
            yield ResponseMissed(passage.body_bytes), passage.at_ms
        return
    for number, unit in enumerate(units):
        at_ms = unit.at_us // 1000
        if number == excerpt.gap_at:
            yield ResponseMissed(excerpt.gap_bytes), at_ms
        yield ResponseKept(unit.data, unit.elided_bytes), at_ms
    # The script does not write down each piece at once: what came since then is missing.
    missing_bytes = passage.body_bytes - excerpt.seen_bytes
    if missing_bytes > 0 and not excerpt.whole:
        yield ResponseMissed(missing_bytes), passage.at_ms


def _passed(passage: Passage) -> ResponsePassed:
    excerpt = passage.excerpt
    if excerpt is None:
        return ResponsePassed(passage.body_bytes, passage.ended)
    # Envoy counts what went to the app: without what was taken out.
    size_bytes = max(passage.body_bytes, excerpt.seen_bytes)
    ended = passage.ended or excerpt.whole
    lost = excerpt.fault or excerpt.left_out > 0
    return ResponsePassed(size_bytes, ended, lost)
