"""
Performs what the response side of an exchange asks for.

No answer waits for the ledger: what is to be done there is done meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tokenweir.core.commands import (
    Answer,
    Cancel,
    CountTexts,
    Extend,
    PassChunk,
    PassHead,
    Settle,
)
from tokenweir.core.events import Counted, Event, OutOfTime
from tokenweir.core.exchange import Exchange
from tokenweir.core.hold import Settlement, quotas_in
from tokenweir.core.step import State
from tokenweir.core.ticket import Ticket
from tokenweir.driver.services import Services
from tokenweir.telemetry.hooks import ExchangeDetails


class Performer:
    """
    The response side of the exchange of *ticket*.

    *on_over* is called as soon as nobody need keep its hold alive any more.

    Attributes:
        ticket: From the request side.
    """

    def __init__(
        self, ticket: Ticket, services: Services, on_over: Callable[[], None]
    ) -> None:
        self._exchange = Exchange.resume(ticket, services.pricing())
        self.ticket = ticket
        self._services = services
        self._on_over = on_over

    @property
    def behind(self) -> bool:
        """Whether some of what passed is yet to be read: by empty chunks, in steps."""
        response = self._exchange.response
        return response is not None and response.behind

    def needs_texts(self, size_bytes: int) -> bool:
        """See `tokenweir.core.response_side.ResponseSide.needs_texts`."""
        response = self._exchange.response
        return response is not None and response.needs_texts(size_bytes)

    @property
    def state(self) -> State:
        """Where the exchange stands."""
        return self._exchange.state

    def handle(self, event: Event, now_ms: int | None = None) -> Answer | None:
        """
        Take *event*, do what follows, and return the answer to Envoy, if there is one.

        *now_ms* is the time of day, by default the present. It may raise whatever a bug
        of ours raises.
        """
        if now_ms is None:
            now_ms = self._services.now_ms()
        answer: Answer | None = None
        for command in self._exchange.handle(event, now_ms):
            match command:
                case PassHead() | PassChunk():
                    answer = command
                case Extend(hold, output_tokens):
                    self._spawn(self._services.ledger.extend(hold, output_tokens))
                case CountTexts():
                    self._spawn(self._count(command))
                case Settle():
                    self._settle(command)
                case Cancel():
                    self._cancel(command)
                case other:
                    raise AssertionError(f"no task of this side: {type(other)}")
        return answer

    def end(self, event: Event) -> None:
        """Take the last *event*; whatever goes wrong, nobody keeps the hold alive."""
        if not self.handle_safely(event):
            # Nobody will settle it any more. So it must not be kept alive either:
            # the reaper charges what is known.
            self._on_over()

    def handle_safely(self, event: Event, now_ms: int | None = None) -> bool:
        """Take *event*, and tell of what goes wrong. Returns: if nothing did."""
        try:
            self.handle(event, now_ms)
        except Exception as error:  # noqa: BLE001 - called where nobody can answer
            self._services.events.fault("response", error)
            return False
        return True

    async def _count(self, command: CountTexts) -> None:
        event: Event
        try:
            count = await self._services.counter.count_texts(
                command.texts,
                command.model,
                command.tokenizer,
                dropped_bytes=command.dropped_bytes,
                place=command.place,
            )
            event = Counted(count.tokens, count.source)
        except Exception as error:  # noqa: BLE001 - what passed is charged all the same
            self._services.events.fault("response", error)
            event = OutOfTime()
        self.end(event)

    def _settle(self, command: Settle) -> None:
        self._on_over()
        ticket, settlement = command.ticket, command.settlement
        settling = self._services.settling
        task = self._spawn(self._services.ledger.settle(ticket.hold, settlement))
        settling.add(task)
        task.add_done_callback(settling.discard)
        if self._services.prompts is not None and command.prompt:
            self._services.prompts.add(ticket.hold.subject, command.prompt)
        if self._services.lessons is not None and command.lesson is not None:
            self._services.lessons.learn(command.lesson)
        self._tell(settlement)

    def _cancel(self, command: Cancel) -> None:
        self._on_over()
        self._spawn(self._services.ledger.cancel(command.hold))
        self._tell(None)

    def _tell(self, settlement: Settlement | None) -> None:
        ticket = self.ticket
        self._services.on_exchange_end(
            ExchangeDetails(
                subject=ticket.hold.subject,
                method=ticket.method,
                hold_id=ticket.hold.id,
                rejection=None,
                settlement=settlement,
                shadowed=ticket.shadowed,
                governor_ms=ticket.governor_ms,
                ledger_ms=ticket.ledger_ms,
                quotas=quotas_in(ticket.hold.parts),
            )
        )

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._services.background.spawn(work)
