"""
One HTTP exchange: a request, what was decided about it, and its response.

Theory of operation. An exchange takes events and returns commands; it never
waits. Whoever drives it performs the commands and brings their results back as
further events. Its life spans two of Envoy's filters, which may be served by
two processes: the request side ends in FORWARDED with a ticket, from which
`Exchange.resume` begins the response side.

Rule 1: everything that decides what happens next is a row of `TRANSITIONS`: in
this state, on this event, do this, and be in one of those states afterwards. An
event that a state does not list is a bug in the driver, not a client's error.

Rule 2: each of Envoy's messages gets exactly one answer.

Rule 3: every hold that was granted is settled or cancelled exactly once,
whichever way the exchange ends. A reserve whose outcome is unknown is cancelled,
or settled if the request was admitted without it.

    NEW ──▶ AWAITING_BODY ──▶ ESTIMATING ──▶ RESERVING ──▶ FORWARDED
     │                                        ▲  │             │
     └── no body, or one that nobody reads ───┘  ▼             ▼
                             (left meanwhile) ABANDONED    RESPONDING
                                                 │             │
                                                 ▼             ▼
                                               DONE ◀────── COUNTING
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tokenweir.core.commands import Command
from tokenweir.core.events import (
    Counted,
    DrainDeadline,
    Event,
    LedgerFailed,
    NothingSent,
    OutOfTime,
    Refused,
    RequestBody,
    RequestHead,
    Reserved,
    ResponseChunk,
    ResponseHead,
    ResponseKept,
    ResponseMissed,
    ResponsePassed,
    StreamClosed,
    Tick,
    WindowsTurned,
)
from tokenweir.core.pricing import NO_PRICING, Pricing
from tokenweir.core.request_side import Arrival, RequestSide
from tokenweir.core.response_side import ResponseSide
from tokenweir.core.step import State, Step
from tokenweir.core.ticket import Ticket


class Exchange:
    """
    Takes events in, gives commands out.

    Attributes:
        state: Where it stands.
        arrival: What it began with; None after `resume`.
        request: The request side, once a head came; None after `resume`.
        response: The response side after `resume`, else None.
    """

    def __init__(self, arrival: Arrival) -> None:
        self.state = State.NEW
        self.request: RequestSide | None = None
        self.response: ResponseSide | None = None
        self.arrival: Arrival | None = arrival

    @classmethod
    def resume(cls, ticket: Ticket, pricing: Pricing = NO_PRICING) -> Exchange:
        """Return the exchange that *ticket* is of, where its request side ended."""
        exchange = cls.__new__(cls)
        exchange.state = State.FORWARDED
        exchange.request = None
        exchange.response = ResponseSide(ticket, pricing)
        exchange.arrival = None
        return exchange

    def handle(self, event: Event, now_ms: int) -> list[Command]:
        """
        Move on by one *event* and return what is to be done about it, in order.

        *now_ms* is the time of day, for durations only.

        Raises:
            KeyError: The driver sent an event that the state doesn't expect.
        """
        action, targets = self.TRANSITIONS[self.state, type(event)]
        state, commands = action(self, event, now_ms)
        assert state in targets, f"{self.state}: {state} does not follow"
        self.state = state
        return commands

    # === the table =============================================================

    TRANSITIONS: ClassVar[dict[tuple[State, type[Event]], Row]]


Action = Callable[[Exchange, Event, int], Step]
Row = tuple[Action, set[State]]


def _begin(exchange: Exchange, event: Event, now_ms: int) -> Step:
    assert isinstance(event, RequestHead)
    assert exchange.arrival is not None
    exchange.request = RequestSide(exchange.arrival, event, now_ms)
    return exchange.request.identify(event)


def _stay(exchange: Exchange, _: Event, __: int) -> Step:
    return exchange.state, []


def _end(_: Exchange, __: Event, ___: int) -> Step:
    return State.DONE, []


def _abandon(_: Exchange, __: Event, ___: int) -> Step:
    return State.ABANDONED, []


def _ask(action: Callable[[RequestSide, Event], Step]) -> Action:
    def act(exchange: Exchange, event: Event, _: int) -> Step:
        assert exchange.request is not None
        return action(exchange.request, event)

    return act


def _answer(action: Callable[[ResponseSide, Event, int], Step]) -> Action:
    def act(exchange: Exchange, event: Event, now_ms: int) -> Step:
        assert exchange.response is not None
        return action(exchange.response, event, now_ms)

    return act


S, Q, A = State, RequestSide, ResponseSide
# fmt: off
Exchange.TRANSITIONS = {
    (S.NEW,           RequestHead):   (_begin,                   {S.AWAITING_BODY, S.RESERVING, S.DONE}),
    (S.NEW,           OutOfTime):     (_ask(Q.give_up),          {S.DONE}),
    (S.NEW,           StreamClosed):  (_end,                     {S.DONE}),
    (S.AWAITING_BODY, RequestBody):   (_ask(Q.read_body),        {S.ESTIMATING, S.RESERVING, S.DONE}),
    (S.AWAITING_BODY, OutOfTime):     (_ask(Q.give_up),          {S.DONE}),
    (S.AWAITING_BODY, StreamClosed):  (_end,                     {S.DONE}),
    (S.ESTIMATING,    Counted):       (_ask(Q.reserve),          {S.ESTIMATING, S.RESERVING, S.DONE}),
    (S.ESTIMATING,    OutOfTime):     (_ask(Q.give_up),          {S.DONE}),
    (S.ESTIMATING,    StreamClosed):  (_end,                     {S.DONE}),
    (S.RESERVING,     Reserved):      (_ask(Q.forward),          {S.FORWARDED}),
    (S.RESERVING,     Refused):       (_ask(Q.refuse),           {S.ESTIMATING, S.RESERVING, S.DONE}),
    (S.RESERVING,     WindowsTurned): (_ask(Q.reserve_anew),     {S.RESERVING, S.DONE}),
    (S.RESERVING,     LedgerFailed):  (_ask(Q.do_without_ledger), {S.FORWARDED, S.DONE}),
    (S.RESERVING,     OutOfTime):     (_ask(Q.give_up_reserving), {S.ABANDONED}),
    (S.RESERVING,     StreamClosed):  (_abandon,                 {S.ABANDONED}),
    (S.ABANDONED,     Reserved):      (_ask(Q.give_back),        {S.DONE}),
    (S.ABANDONED,     Refused):       (_end,                     {S.DONE}),
    (S.ABANDONED,     WindowsTurned): (_end,                     {S.DONE}),
    (S.ABANDONED,     LedgerFailed):  (_ask(Q.give_back),        {S.DONE}),
    (S.ABANDONED,     StreamClosed):  (_stay,                    {S.ABANDONED}),
    (S.FORWARDED,     ResponseHead):  (_answer(A.open),          {S.RESPONDING, S.COUNTING, S.DONE}),
    (S.FORWARDED,     NothingSent):   (_answer(A.give_back),     {S.DONE}),
    (S.FORWARDED,     Tick):          (_answer(A.renew),         {S.FORWARDED}),
    (S.FORWARDED,     DrainDeadline): (_answer(A.drain_unanswered), {S.DONE}),
    (S.FORWARDED,     StreamClosed):  (_answer(A.close_unanswered), {S.DONE}),
    (S.RESPONDING,    ResponseChunk): (_answer(A.read),          {S.RESPONDING, S.COUNTING, S.DONE}),
    (S.RESPONDING,    ResponseKept):  (_answer(A.keep),          {S.RESPONDING}),
    (S.RESPONDING,    ResponseMissed): (_answer(A.miss),         {S.RESPONDING}),
    (S.RESPONDING,    ResponsePassed): (_answer(A.hear),         {S.RESPONDING, S.COUNTING, S.DONE}),
    (S.RESPONDING,    Tick):          (_answer(A.renew_responding), {S.RESPONDING}),
    (S.RESPONDING,    DrainDeadline): (_answer(A.drain),         {S.COUNTING, S.DONE}),
    (S.RESPONDING,    StreamClosed):  (_answer(A.close),         {S.COUNTING, S.DONE}),
    (S.COUNTING,      Counted):       (_answer(A.settle_counted), {S.DONE}),
    (S.COUNTING,      OutOfTime):     (_answer(A.settle_uncounted), {S.DONE}),
    (S.COUNTING,      ResponseChunk): (_answer(A.pass_on),       {S.COUNTING}),
    (S.COUNTING,      Tick):          (_stay,                    {S.COUNTING}),
    (S.COUNTING,      DrainDeadline): (_stay,                    {S.COUNTING}),
    (S.COUNTING,      StreamClosed):  (_stay,                    {S.COUNTING}),
    (S.DONE,          ResponseHead):  (_answer(A.pass_by),       {S.DONE}),
    (S.DONE,          ResponseChunk): (_answer(A.pass_on),       {S.DONE}),
    (S.DONE,          Tick):          (_stay,                    {S.DONE}),
    (S.DONE,          DrainDeadline): (_stay,                    {S.DONE}),
    (S.DONE,          OutOfTime):     (_stay,                    {S.DONE}),
    (S.DONE,          StreamClosed):  (_stay,                    {S.DONE}),
}
# fmt: on
