"""Drives the response side of one exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from tokenweir.core.commands import (
    Answer,
    Command,
    CountTexts,
    Extend,
    PassChunk,
    PassHead,
    Settle,
)
from tokenweir.core.events import (
    Counted,
    DrainDeadline,
    Event,
    OutOfTime,
    ResponseChunk,
    ResponseHead,
    StreamClosed,
    Tick,
)
from tokenweir.core.exchange import Exchange
from tokenweir.core.hold import quotas_in
from tokenweir.core.step import State
from tokenweir.core.ticket import Ticket
from tokenweir.driver.services import Services
from tokenweir.telemetry.hooks import ExchangeDetails

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
        self._exchange = Exchange.resume(ticket, services.pricing())
        self._ticket = ticket
        self._services = services
        self._timer = self._renew_in(FIRST_RENEWAL_SECONDS)
        services.responding.add(self)
        if not made_here:
            self._perform_safely(Tick())

    def advance(self, event: ResponseHead | ResponseChunk) -> Answer:
        """Return the answer to *event*."""
        try:
            answer = self._perform(self._handle(event))
            assert answer is not None
        except Exception as error:  # noqa: BLE001 - the app's answer must go on
            self._services.events.fault("response", error)
            return _pass(event)
        return answer

    def closed(self) -> None:
        """Envoy closed the stream: settle what is not settled yet."""
        self._end(StreamClosed())

    def drain(self) -> None:
        """Settle what passed so far: the processor leaves."""
        self._end(DrainDeadline())

    @property
    def behind(self) -> bool:
        """Whether some of what passed is yet to be read: by empty chunks, in steps."""
        response = self._exchange.response
        return response is not None and response.behind

    @property
    def over(self) -> bool:
        """Whether nothing that Envoy could send matters any more."""
        return self._exchange.state is State.DONE

    # === commands ==============================================================

    def _handle(self, event: Event) -> list[Command]:
        return self._exchange.handle(event, self._services.now_ms())

    def _end(self, event: Event) -> None:
        if not self._perform_safely(event):
            # Nobody will settle it any more. So it must not be kept alive either:
            # the reaper charges what is known.
            self._let_go()

    def _perform_safely(self, event: Event) -> bool:
        try:
            self._perform(self._handle(event))
        except Exception as error:  # noqa: BLE001 - called where nobody can answer
            self._services.events.fault("response", error)
            return False
        return True

    def _perform(self, commands: Iterable[Command]) -> Answer | None:
        answer: Answer | None = None
        for command in commands:
            match command:
                case PassHead() | PassChunk():
                    answer = command
                case Extend(hold, output_tokens):
                    self._spawn(self._services.ledger.extend(hold, output_tokens))
                case CountTexts():
                    self._spawn(self._count(command))
                case Settle():
                    self._settle(command)
                case other:
                    raise AssertionError(f"no task of this side: {type(other)}")
        return answer

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
        self._end(event)

    def _settle(self, command: Settle) -> None:
        self._let_go()
        ticket, settlement = command.ticket, command.settlement
        settling = self._services.settling
        task = self._spawn(self._services.ledger.settle(ticket.hold, settlement))
        settling.add(task)
        task.add_done_callback(settling.discard)
        if self._services.prompts is not None and command.prompt:
            self._services.prompts.add(ticket.hold.subject, command.prompt)
        if self._services.lessons is not None and command.lesson is not None:
            self._services.lessons.learn(command.lesson)
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

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._services.background.spawn(work)

    # === renewal ===============================================================

    def _renew_in(self, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self._renew)

    def _renew(self) -> None:
        self._timer = self._renew_in(RENEWAL_SECONDS)
        self._perform_safely(Tick())

    def _let_go(self) -> None:
        self._timer.cancel()
        self._services.responding.discard(self)


def _pass(event: ResponseHead | ResponseChunk) -> Answer:
    # Without a head nothing can be made of the body.
    if isinstance(event, ResponseHead):
        return PassHead(watch_body=False)
    return PassChunk()
