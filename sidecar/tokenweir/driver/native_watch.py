"""
The exchanges of which this process expects to hear from Envoy's access log.

Nothing that is charged depends on it, and it may be lost with the process: every entry
of the log tells all that is needed. It is there so that a process which leaves knows what
it may wait for, and so that what is told twice counts once.

An exchange of which nothing is heard for a while is forgotten: its entries go to another
worker, or are lost, and then the reaper sees to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokenweir.core.hold import Hold
from tokenweir.core.passage import Passage
from tokenweir.telemetry.hooks import ExchangeDetails

# Longer than from one entry of an exchange to the next.
UNHEARD_SECONDS = 15.0
# After that an exchange that has been heard of is taken for dead: as the ledger does.
SILENT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Offer:
    """A *hold* that was forwarded; *details* are told if its request never left."""

    hold: Hold
    details: ExchangeDetails


@dataclass(slots=True)
class _Known:
    until: float
    offer: Offer | None = None
    newest: Passage | None = None
    settled: bool = False


class NativeWatch:
    """What is known of them. *clock*: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # Those that were heard of last stand last.
        self._known: dict[str, _Known] = {}
        # Those that nothing was heard of, by the request's id: apps may choose it, so
        # one that several have stands for none.
        self._unheard: dict[str, str | None] = {}

    def expect(self, offer: Offer) -> None:
        """An exchange was forwarded: Envoy will tell of it."""
        self._forget_old()
        hold_id, request_id = offer.hold.id, offer.hold.subject.request_id
        self._known[hold_id] = _Known(self._clock() + UNHEARD_SECONDS, offer)
        if request_id:
            is_new = request_id not in self._unheard
            self._unheard[request_id] = hold_id if is_new else None

    def take_back(self, request_id: str) -> Offer | None:
        """
        Forget the exchange of *request_id*, whose request never left Envoy.

        Returns:
            It, if it was forwarded by this process, is the only one of that id, and
            nothing else was heard of it.
        """
        self._forget_old()
        hold_id = self._unheard.get(request_id)
        known = self._known.pop(hold_id, None) if hold_id else None
        if known is None or known.offer is None:
            return None
        del self._unheard[request_id]
        return known.offer

    def hear(self, passage: Passage) -> bool:
        """
        Take note of *passage*, by whichever process it was forwarded.

        Returns:
            Whether it is news: False if the exchange has been settled from an earlier
            one.
        """
        self._forget_old()
        hold_id = passage.ticket.hold.id
        known = self._known.pop(hold_id, None)
        self._was_heard(known)
        if known is not None and known.settled:
            if not passage.over:
                known.until = self._clock() + SILENT_SECONDS
                self._known[hold_id] = known
            return False
        until = self._clock() + SILENT_SECONDS
        self._known[hold_id] = _Known(until, newest=passage)
        return True

    def settled(self, hold_id: str) -> None:
        """Nothing more is to be done for it; what is still told of it is no news."""
        known = self._known.get(hold_id)
        if known is None:
            return
        if known.newest is not None and known.newest.over:
            del self._known[hold_id]
        else:  # its end is still to be told
            known.settled, known.newest = True, None

    @property
    def size(self) -> int:
        """How many are not settled."""
        return len(self._open())

    def newest(self) -> list[Passage]:
        """Return what was heard last of each that goes on and is not settled."""
        heard = [known.newest for known in self._open() if known.newest is not None]
        return [passage for passage in heard if not passage.over]

    def _open(self) -> list[_Known]:
        self._forget_old()
        now = self._clock()
        known = self._known.values()
        return [each for each in known if not each.settled and each.until > now]

    def _was_heard(self, known: _Known | None) -> None:
        if known is not None and known.offer is not None:
            self._unheard.pop(known.offer.hold.subject.request_id, None)

    def _forget_old(self) -> None:
        now = self._clock()
        while self._known:
            hold_id = next(iter(self._known))
            if self._known[hold_id].until > now:
                return
            self._was_heard(self._known.pop(hold_id))
