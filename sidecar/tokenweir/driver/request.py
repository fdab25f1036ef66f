"""Drives the request side of one exchange."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from tokenweir.core.commands import (
    Answer,
    AwaitBody,
    Cancel,
    Command,
    CountPrompt,
    Forward,
    Reject,
    Reserve,
)
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.events import (
    Counted,
    Event,
    LedgerFailed,
    OutOfTime,
    Refused,
    RequestBody,
    RequestHead,
    Reserved,
    StreamClosed,
    WindowsTurned,
)
from tokenweir.core.exchange import Exchange
from tokenweir.core.hold import Denied, Granted, Hold, Stale
from tokenweir.core.rejection import Rejection
from tokenweir.core.request_side import Arrival
from tokenweir.core.response_path import ResponsePath
from tokenweir.core.step import State
from tokenweir.driver.handoff import Handoff
from tokenweir.driver.native_watch import Offer
from tokenweir.driver.services import Services
from tokenweir.telemetry.hooks import ExchangeDetails

# Larger bodies are read in a thread, and encoded ones, which may become large. To read
# one of this size takes a tenth of a millisecond, and so does to ask a thread.
INLINE_BYTES = 64 * 1024
# What takes time is values, not bytes: with so many of them it is 3 ms if made to. They
# are told by what stands before or between them, commas in texts included.
INLINE_VALUES = 1_000
_VALUES = (b"{", b"[", b",")


class RequestDriver:
    """Turns each event from Envoy into the one answer to it."""

    def __init__(self, arrival: Arrival, services: Services, handoff: Handoff) -> None:
        self._exchange = Exchange(arrival)
        self._services = services
        self._handoff = handoff
        self._reserving: asyncio.Task[Event] | None = None
        self._answered = False
        self._governor_seconds = 0.0
        self._ledger_seconds = 0.0
        if not arrival.draining:
            services.admitting.add(self)

    async def advance(self, event: RequestHead | RequestBody) -> Answer:
        """Return the answer to *event*, within the deadline whatever happens."""
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._services.admission_seconds):
                answer = await self._perform(self._handle(await self._read(event)))
        except Exception as error:  # noqa: BLE001 - any answer is better than none
            self._services.events.fault("request", error)
            answer = self._give_up()
        self._governor_seconds += time.perf_counter() - began
        return self._finish(answer)

    def closed(self) -> None:
        """Envoy closed the stream; before a last answer, the client has left."""
        # Not before: by now whatever was admitted has been handed off.
        self._services.admitting.discard(self)
        if self._answered:
            return
        self._handle(StreamClosed())
        self._watch_reserve()
        if self._exchange.request is not None:
            self._services.on_exchange_end(self._details(None))

    # === commands ==============================================================

    def _handle(self, event: Event) -> list[Command]:
        return self._exchange.handle(event, self._services.now_ms())

    async def _read(self, event: RequestHead | RequestBody) -> Event:
        request = self._exchange.request
        if request is None or isinstance(event, RequestHead):
            return event
        if _is_short(event.body) and not request.encoding:
            return event
        return await self._services.bodies.read(
            request.subject.tenant, partial(request.read_ahead, event)
        )

    async def _perform(self, commands: Iterable[Command]) -> Answer:
        answer: Answer | None = None
        todo = deque(commands)
        while todo:
            match todo.popleft():
                case AwaitBody() | Forward() | Reject() as answer:
                    pass
                case CountPrompt(prompt, model, tokenizer, hints):
                    count = await self._services.counter.count_prompt(
                        prompt, model, tokenizer, hints
                    )
                    told = (count.source, count.text_tokens, count.uncorrected)
                    todo += self._handle(Counted(count.tokens, *told))
                case Reserve(hold):
                    todo += self._handle(await self._reserve(hold))
                case Cancel(hold):
                    self._cancel(hold)
                case other:
                    raise AssertionError(f"no task of this side: {type(other)}")
        assert answer is not None
        return answer

    async def _reserve(self, hold: Hold) -> Event:
        began = time.perf_counter()
        # In a task of its own: if the client leaves, the call may have been applied
        # all the same, so its outcome must be seen.
        self._reserving = self._services.background.spawn(self._call(hold))
        try:
            return await asyncio.shield(self._reserving)
        finally:
            self._ledger_seconds += time.perf_counter() - began

    async def _call(self, hold: Hold) -> Event:
        try:
            outcome = await self._services.ledger.reserve(hold)
        except LedgerUnavailableError:
            return LedgerFailed()
        match outcome:
            case Granted():
                return Reserved(outcome)
            case Denied():
                return Refused(outcome)
            case Stale(now_ms=now_ms):
                return WindowsTurned(now_ms)

    def _cancel(self, hold: Hold) -> None:
        self._services.background.spawn(self._services.ledger.cancel(hold))

    # === ends ==================================================================

    def _give_up(self) -> Reject:
        [answer] = self._handle(OutOfTime())
        assert isinstance(answer, Reject)
        self._watch_reserve()
        return answer

    def _watch_reserve(self) -> None:
        if self._exchange.state is State.ABANDONED:
            self._services.background.spawn(self._see_reserve())

    async def _see_reserve(self) -> None:
        assert self._reserving is not None
        try:
            outcome = await self._reserving
        except Exception:  # noqa: BLE001 - reported where it was raised
            outcome = LedgerFailed()  # it may have been applied all the same
        for command in self._handle(outcome):
            assert isinstance(command, Cancel)
            self._cancel(command.hold)

    def _finish(self, answer: Answer) -> Answer:
        self._answered = not isinstance(answer, AwaitBody)
        if isinstance(answer, Reject):
            self._services.on_exchange_end(self._details(answer.why))
        elif isinstance(answer, Forward):
            self._hand_over(answer.ticket.hold)
            if self._services.prompts is not None and answer.kept_texts:
                self._services.prompts.keep(answer.kept_texts)
            ticket = replace(
                answer.ticket,
                governor_ms=self._governor_seconds * 1000,
                ledger_ms=self._ledger_seconds * 1000,
            )
            return replace(answer, ticket=ticket)
        return answer

    def _hand_over(self, hold: Hold) -> None:
        if hold.subject.path == ResponsePath.NATIVE:
            # Nobody need claim it: its end is told however it ends.
            self._services.natives.expect(Offer(hold, self._details(None)))
        else:
            self._handoff.offer(hold, self._details(None))

    def _details(self, rejection: Rejection | None) -> ExchangeDetails:
        request = self._exchange.request
        assert request is not None
        return ExchangeDetails(
            subject=request.subject,
            method=request.head.method,
            hold_id=request.hold.id if request.hold else "",
            rejection=rejection,
            settlement=None,
            shadowed=request.shadowed,
            governor_ms=self._governor_seconds * 1000,
            ledger_ms=self._ledger_seconds * 1000,
            quotas=request.quotas,
        )


def _is_short(body: bytes) -> bool:
    """Tell if *body* can be read at once."""
    return len(body) <= INLINE_BYTES and sum(map(body.count, _VALUES)) <= INLINE_VALUES
