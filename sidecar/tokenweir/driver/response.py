"""Drives the response side of one exchange whose answer the processor reads."""

from __future__ import annotations

import asyncio

from tokenweir.core.commands import Answer, PassChunk, PassHead
from tokenweir.core.events import (
    DrainDeadline,
    ResponseChunk,
    ResponseHead,
    StreamClosed,
    Tick,
)
from tokenweir.core.step import State
from tokenweir.core.ticket import Ticket
from tokenweir.driver.performing import Performer
from tokenweir.driver.services import Services

# The first renewal comes soon: it claims the hold for this process. The others
# come well within the expiry of a hold, so that two of them may fail.
FIRST_RENEWAL_SECONDS = 1.0
RENEWAL_SECONDS = 10.0


class ResponseDriver:
    """
    Turns each event from Envoy into the one answer to it.

    A ticket that was not *made_here* is another process's: it must see soon that its
    hold is claimed, or it would give it back.

    No answer waits for the ledger: what is to be done there is done meanwhile.
    """

    def __init__(
        self, ticket: Ticket, services: Services, *, made_here: bool = True
    ) -> None:
        self._performer = Performer(ticket, services, self._let_go)
        self._services = services
        self._timer = self._renew_in(FIRST_RENEWAL_SECONDS)
        services.responding.add(self)
        if not made_here:
            self._performer.handle_safely(Tick())

    def advance(self, event: ResponseHead | ResponseChunk) -> Answer:
        """Return the answer to *event*."""
        try:
            answer = self._performer.handle(event)
            assert answer is not None
        except Exception as error:  # noqa: BLE001 - the app's answer must go on
            self._services.events.fault("response", error)
            return _pass(event)
        return answer

    def closed(self) -> None:
        """Envoy closed the stream: settle what is not settled yet."""
        self._performer.end(StreamClosed())

    def drain(self) -> None:
        """Settle what passed so far: the processor leaves."""
        self._performer.end(DrainDeadline())

    @property
    def behind(self) -> bool:
        """Whether some of what passed is yet to be read: by empty chunks, in steps."""
        return self._performer.behind

    @property
    def over(self) -> bool:
        """Whether nothing that Envoy could send matters any more."""
        return self._performer.state is State.DONE

    # === renewal ===============================================================

    def _renew_in(self, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self._renew)

    def _renew(self) -> None:
        self._timer = self._renew_in(RENEWAL_SECONDS)
        self._performer.handle_safely(Tick())

    def _let_go(self) -> None:
        self._timer.cancel()
        self._services.responding.discard(self)


def _pass(event: ResponseHead | ResponseChunk) -> Answer:
    # Without a head nothing can be made of the body.
    if isinstance(event, ResponseHead):
        return PassHead(watch_body=False)
    return PassChunk()
