"""
Dialogues, and a walk over every path of the table.

The walk plays Envoy, a ledger and a tokenizer: in each state it tells an exchange
everything that it may be told there, in several variants, and follows each of the
ways on from there. Of the rows that lead back to their own state, one is taken in
each state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tests.examples import (
    FAILURE,
    FRUGAL_KEY,
    NOW_MS,
    OPEN_KEY,
    STATE,
    head,
    hold,
    policy,
    spent,
    ticket,
)
from tests.playbook import play
from tests.wire import (
    DONE,
    ERROR,
    JSON,
    STREAM,
    USAGE_EVENT,
    chat,
    delta,
)
from tokenweir.core.commands import (
    AwaitBody,
    Cancel,
    Command,
    CountPrompt,
    Extend,
    Forward,
    PassChunk,
    PassHead,
    Reject,
    Reserve,
    Settle,
)
from tokenweir.core.dialects import by_route
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
from tokenweir.core.exchange import Exchange
from tokenweir.core.hold import Denied, Granted, Outcome
from tokenweir.core.policy import Axis, Model, Policy, Quota, Tenant
from tokenweir.core.rejection import (
    Draining,
    InternalFault,
    QuotaExhausted,
    UnknownKey,
)
from tokenweir.core.request_side import RETRY_MS, Arrival
from tokenweir.core.step import State
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import Source, TokenUsage

ARRIVAL = Arrival(policy(), "0-19b7a0e1c00-abc")
GRANTED = Granted("1", (STATE,))
COUNTED = Counted(30, Source.COUNTED)

# === dialogues ====================================================================


def test_admitted() -> None:
    """A model call is read, counted, reserved, and goes on with its ticket."""
    exchange = Exchange(ARRIVAL)
    prompt = by_route("chat_completions").parse_request(chat()).prompt
    play(
        exchange,
        (head(), [AwaitBody()]),
        (RequestBody(chat()), [CountPrompt(prompt, "gpt-4o-mini", None)]),
    )
    [reserve] = exchange.handle(COUNTED, NOW_MS)
    assert isinstance(reserve, Reserve)
    [forward] = exchange.handle(Reserved(GRANTED), NOW_MS)

    assert isinstance(forward, Forward)
    assert forward.ticket.hold == reserve.hold
    assert exchange.state is State.FORWARDED


def test_unknown_caller() -> None:
    """An unknown caller is turned away before anything is read or reserved."""
    exchange = Exchange(ARRIVAL)
    [answer] = exchange.handle(head(key="sk-unknown"), NOW_MS)

    assert isinstance(answer, Reject)
    assert isinstance(answer.why, UnknownKey)
    play(exchange, (StreamClosed(), []))


def test_nothing_came() -> None:
    """A stream that closes before its first message was no exchange."""
    exchange = Exchange(ARRIVAL)

    play(exchange, (StreamClosed(), []))
    assert exchange.state is State.DONE
    assert exchange.request is None


def test_draining() -> None:
    """A processor that leaves tells where the trouble is, not whose key it is."""
    play(
        Exchange(replace(ARRIVAL, draining=True)),
        (head(key=None), [Reject(Draining(RETRY_MS), "chat_completions")]),
    )


def test_refused() -> None:
    """A refusal takes nothing, so nothing is given back."""
    exchange = reserving()

    play(
        exchange,
        (
            Refused(Denied("1", (FAILURE,))),
            [Reject(QuotaExhausted("acme", (FAILURE,)), "chat_completions")],
        ),
        (StreamClosed(), []),
    )


def test_client_leaves_while_reserving() -> None:
    """A hold that is granted after its client has left is given back."""
    exchange = reserving()
    assert exchange.request is not None
    assert exchange.request.hold is not None

    play(
        exchange,
        (StreamClosed(), []),
        (Reserved(GRANTED), [Cancel(exchange.request.hold)]),
        (StreamClosed(), []),
    )


def test_late_ledger_after_giving_up() -> None:
    """A hold that is granted after Envoy was answered is given back, once."""
    exchange = reserving()
    assert exchange.request is not None
    assert exchange.request.hold is not None

    play(
        exchange,
        (OutOfTime(), [Reject(InternalFault(RETRY_MS), "chat_completions")]),
        (StreamClosed(), []),
        (Reserved(GRANTED), [Cancel(exchange.request.hold)]),
        (OutOfTime(), []),
    )


def test_response() -> None:
    """A response is watched, renewed, and settled by its report."""
    exchange = Exchange.resume(ticket(dialect=""))
    extend = Extend(hold(), 0)
    play(exchange, (Tick(), [extend]))
    exchange.handle(ResponseHead(200, JSON), NOW_MS)
    play(exchange, (ResponseChunk(b"{"), [PassChunk()]), (Tick(), [extend]))
    commands = exchange.handle(ResponseChunk(b"}", ended=True), NOW_MS)

    assert exchange.response is not None
    settlement = exchange.response.settlement
    assert settlement is not None
    assert commands == [PassChunk(), Settle(ticket(dialect=""), settlement)]


def test_resumed_from_text() -> None:
    """A response side needs nothing but the ticket's text."""
    exchange = Exchange.resume(Ticket.from_text(ticket().to_text()))
    [settle] = exchange.handle(StreamClosed(), NOW_MS)

    assert isinstance(settle, Settle)
    assert settle.ticket == ticket()
    assert settle.settlement.usage == TokenUsage(input_tokens=30)
    assert settle.settlement.outcome is Outcome.CUT


@pytest.mark.parametrize(
    ("exchange", "event"),
    [
        (Exchange(ARRIVAL), RequestBody(b"")),
        (Exchange(ARRIVAL), ResponseHead(200, ())),
        (Exchange(ARRIVAL), Tick()),
        (Exchange.resume(ticket()), RequestBody(b"")),
        (Exchange.resume(ticket()), ResponseChunk(b"")),
        (Exchange.resume(ticket()), Reserved(GRANTED)),
    ],
)
def test_unexpected_event(exchange: Exchange, event: Event) -> None:
    """An event that a state does not list is a bug of the driver, and changes nothing."""
    before = exchange.state

    with pytest.raises(KeyError):
        exchange.handle(event, NOW_MS)
    assert exchange.state is before


def reserving() -> Exchange:
    """Return an exchange whose reserve is in flight."""
    exchange = Exchange(ARRIVAL)
    for event in (head(), RequestBody(chat()), COUNTED):
        exchange.handle(event, NOW_MS)
    assert exchange.state is State.RESERVING
    return exchange


# === the walk =====================================================================

# What an exchange may be told in each state; several variants where it matters.
TOLD: dict[State, tuple[Event, ...]] = {
    State.NEW: (
        head(),
        head(key=OPEN_KEY),
        head(key=FRUGAL_KEY),
        head(key="sk-unknown"),
        head("GET", "/v1/models"),
        head("GET", "/v1/models", ended=True),
        OutOfTime(),
        StreamClosed(),
    ),
    State.AWAITING_BODY: (
        RequestBody(chat()),
        RequestBody(b""),
        OutOfTime(),
        StreamClosed(),
    ),
    State.ESTIMATING: (
        COUNTED,
        Counted(10**6, Source.ESTIMATED),
        OutOfTime(),
        StreamClosed(),
    ),
    State.RESERVING: (
        Reserved(GRANTED),
        Refused(Denied("1", (FAILURE,))),
        Refused(Denied("1", (spent("frugal.cheaper"),))),
        Refused(Denied("1", (spent("frugal.slower"),))),
        WindowsTurned(NOW_MS + 5),
        LedgerFailed(),
        OutOfTime(),
        StreamClosed(),
    ),
    State.ABANDONED: (
        Reserved(GRANTED),
        Refused(Denied("1", (FAILURE,))),
        WindowsTurned(NOW_MS + 5),
        LedgerFailed(),
        StreamClosed(),
    ),
    State.FORWARDED: (
        ResponseHead(200, STREAM),
        ResponseHead(200, STREAM, ended=True),
        ResponseHead(429, JSON, details="via_upstream"),
        ResponseHead(504, (), details="response_timeout"),
        NothingSent(),
        Tick(),
        DrainDeadline(),
        StreamClosed(),
    ),
    State.RESPONDING: (
        ResponseChunk(delta("Hello")),
        ResponseChunk(USAGE_EVENT),
        ResponseChunk(DONE, ended=True),
        ResponseChunk(ERROR, ended=True),
        ResponseKept(USAGE_EVENT),
        ResponseMissed(1_000),
        ResponsePassed(1_000),
        ResponsePassed(1_000, ended=True),
        Tick(),
        DrainDeadline(),
        StreamClosed(),
    ),
    State.COUNTING: (
        COUNTED,
        OutOfTime(),
        ResponseChunk(b"late"),
        Tick(),
        DrainDeadline(),
        StreamClosed(),
    ),
    State.DONE: (
        ResponseHead(200, STREAM),
        ResponseChunk(b"late"),
        Tick(),
        DrainDeadline(),
        OutOfTime(),
        StreamClosed(),
    ),
}
# What is told of an answer that Envoy has read itself.
UNSEEN = (ResponseKept, ResponseMissed, ResponsePassed)
ANSWERS = (AwaitBody, Forward, Reject, PassHead, PassChunk)


@dataclass(frozen=True)
class Path:
    """
    A way through the table.

    Attributes:
        told: The events.
        asked: All commands that followed.
        states: Before each event, and after the last.
        joined: How many events came before the ticket changed hands; 0: it did not.
        messages: How many messages Envoy has sent.
    """

    told: tuple[Event, ...] = ()
    asked: tuple[Command, ...] = ()
    states: tuple[State, ...] = (State.NEW,)
    joined: int = 0
    messages: int = 0

    def on(self, event: Event, commands: list[Command], state: State) -> Path:
        """Return the path, one step longer."""
        return Path(
            (*self.told, event),
            (*self.asked, *commands),
            (*self.states, state),
            self.joined,
            self.messages + is_message(event, self.states[-1]),
        )

    def of(self, *kinds: type[Command]) -> list[Command]:
        """Return the commands of these kinds."""
        return [command for command in self.asked if isinstance(command, kinds)]

    @property
    def unanswered(self) -> int:
        """How many of Envoy's messages have no answer."""
        return self.messages - len(self.of(*ANSWERS))


def is_message(event: Event, state: State) -> bool:
    """Tell if *event* brings a message that Envoy waits for an answer to."""
    if isinstance(event, OutOfTime):
        # Where no task is waited for, only a message whose handling broke can run
        # out of time.
        return state in (State.NEW, State.AWAITING_BODY)
    return isinstance(event, RequestHead | RequestBody | ResponseHead | ResponseChunk)


def with_a_longer_chain() -> Policy:
    """Return the policy, in which a model that nothing fits into comes before "fast"."""
    given = policy()
    quotas = tuple(
        replace(each, budget=replace(each.budget, downgrade_to=("tiny", "fast")))
        if each.budget and each.budget.downgrade_to
        else each
        for each in given.tenants["frugal"].quotas
    )
    few = Quota("frugal.few", Axis.TOKENS, 1, 9, models=("tiny",))
    tenants = {**given.tenants, "frugal": Tenant("frugal", (*quotas, few))}
    models = {**given.models, "tiny": Model("tiny", "openai", None, 1_000, 400)}
    return replace(given, models=models, tenants=tenants)


class Walk:
    """
    Every path from the beginning, up to each step after its end.

    Attributes:
        paths: All of them, unfinished ones too.
        steps: Each as state, event and next state.
    """

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.steps: set[tuple[State, type[Event], State]] = set()
        arrival = replace(ARRIVAL, policy=with_a_longer_chain())
        self._go(lambda: Exchange(arrival), Path())

    @property
    def whole(self) -> list[Path]:
        """The paths that reached the end."""
        return [path for path in self.paths if path.states[-1] is State.DONE]

    def _go(self, begin: Callable[[], Exchange], path: Path) -> None:
        self.paths.append(path)
        state = path.states[-1]
        if state is State.FORWARDED and not path.joined:
            # The ticket goes through Envoy, and may meet another process.
            [forward] = path.of(Forward)
            assert isinstance(forward, Forward)
            text = forward.ticket.to_text()
            path = replace(path, joined=len(path.told))
            self._go(lambda: Exchange.resume(Ticket.from_text(text)), path)
            return
        for event in TOLD[state]:
            if can_happen(path, event):
                self._tell(begin, path, event)

    def _tell(self, begin: Callable[[], Exchange], path: Path, event: Event) -> None:
        if isinstance(event, OutOfTime) and path.states[-1] is State.NEW:
            begin = broken
        exchange = begin()
        for earlier in path.told[path.joined :]:
            exchange.handle(earlier, NOW_MS)
        commands = exchange.handle(event, NOW_MS)
        around = (*path.states[-2:], exchange.state)
        if len(around) == 3 and len(set(around)) == 1:
            return  # one turn in a state is enough
        self.steps.add((path.states[-1], type(event), exchange.state))
        self._go(begin, path.on(event, commands, exchange.state))


def broken() -> Exchange:
    """Return an exchange in whose first event something broke."""
    without_tenants = replace(policy(), tenants={})
    exchange = Exchange(replace(ARRIVAL, policy=without_tenants))
    with pytest.raises(KeyError):
        exchange.handle(head(), NOW_MS)
    return exchange


def can_happen(path: Path, event: Event) -> bool:
    """Tell if *event* may come now, if Envoy and driver do what they promise."""
    events = path.told[path.joined :]
    match event:
        case ResponseHead():
            return path.joined > 0 and not is_over(events) and not events_of(events)
        case ResponseChunk():
            is_native = any(isinstance(each, UNSEEN) for each in events)
            began = path.joined > 0 and bool(events_of(events))
            return began and not is_over(events) and not is_native
        case ResponseKept() | ResponseMissed() | ResponsePassed():
            # Of one exchange either the body is shown, or what is known of it is told.
            return len(events_of(events)) == 1 and not is_over(events)
        case Tick() | DrainDeadline():
            return path.joined > 0 and StreamClosed() not in events
        case StreamClosed():
            return event not in events
        case _:
            return True


def events_of(events: tuple[Event, ...]) -> list[ResponseHead | ResponseChunk]:
    """Return what Envoy has told of the response."""
    return [each for each in events if isinstance(each, ResponseHead | ResponseChunk)]


def is_over(events: tuple[Event, ...]) -> bool:
    """Tell if Envoy has nothing more to tell of the response."""
    ended = any(
        each.ended
        for each in events
        if isinstance(each, ResponseHead | ResponseChunk | ResponsePassed)
    )
    return ended or StreamClosed() in events or NothingSent() in events


@pytest.fixture(scope="module")
def walk() -> Walk:
    """Return the whole walk."""
    return Walk()


def test_walk_is_whole(walk: Walk) -> None:
    """Every row of the table was taken, to every state that it may lead to."""
    promised = {
        (state, event, target)
        for (state, event), (_, targets) in Exchange.TRANSITIONS.items()
        for target in targets
    }

    assert walk.steps == promised


def test_every_state_is_told_all_that_it_lists() -> None:
    """The walk tells a state no less, and no more, than the table says."""
    listed = {
        (state, type(event)) for state, events in TOLD.items() for event in events
    }

    assert listed == set(Exchange.TRANSITIONS)


def test_every_message_gets_one_answer(walk: Walk) -> None:
    """Envoy gets one answer to each message; only who leaves meanwhile gets none."""
    for path in walk.whole:
        left = StreamClosed() in path.told[: path.joined or None]

        assert 0 <= path.unanswered <= left, path.told


def test_no_answer_without_a_message(walk: Walk) -> None:
    """At no time have there been more answers than messages."""
    assert all(path.unanswered in (0, 1) for path in walk.paths)


def test_last_answer_comes_once(walk: Walk) -> None:
    """A request is forwarded or rejected once, and never both."""
    for path in walk.whole:
        assert len(path.of(Forward, Reject)) <= 1, path.told


def test_every_hold_ends_once(walk: Walk) -> None:
    """What was granted, or may have been, is settled or cancelled exactly once."""
    for path in walk.whole:
        taken = any(isinstance(event, Reserved | LedgerFailed) for event in path.told)

        assert len(path.of(Settle, Cancel)) == taken, path.told


def test_what_was_forwarded_is_settled(walk: Walk) -> None:
    """
    What was forwarded is settled and not cancelled, unless it was never sent; nothing
    else is settled.
    """
    for path in walk.whole:
        sent = len(path.of(Forward)) - (NothingSent() in path.told)
        assert len(path.of(Settle)) == sent, path.told


def test_unknown_reserve_is_cancelled(walk: Walk) -> None:
    """A reserve of unknown outcome is cancelled, unless it was admitted open."""
    unknown = [path for path in walk.whole if LedgerFailed() in path.told]
    ends = {
        (bool(path.of(Forward)), type(command))
        for path in unknown
        if NothingSent() not in path.told
        for command in path.of(Settle, Cancel)
    }

    assert ends == {(True, Settle), (False, Cancel)}


def test_what_ends_is_what_was_reserved(walk: Walk) -> None:
    """What is extended, settled or cancelled is what was reserved last."""
    for path in walk.whole:
        reserved = [c.hold for c in path.asked if isinstance(c, Reserve)]
        later = [c.hold for c in path.asked if isinstance(c, Cancel | Extend)]
        later += [c.ticket.hold for c in path.asked if isinstance(c, Settle)]

        assert all(held == reserved[-1] for held in later), path.told
        assert len({held.id for held in reserved}) == len(reserved), path.told


def test_end_is_the_end(walk: Walk) -> None:
    """No way leads out of DONE, and from there nothing is asked for but to pass."""
    for path in walk.whole:
        over = path.states.index(State.DONE)
        assert set(path.states[over:]) == {State.DONE}

    after = [path for path in walk.whole if path.states[-2:] == (State.DONE,) * 2]
    before = {(path.told, path.joined): path for path in walk.whole}
    for path in after:
        earlier = before[path.told[:-1], path.joined]
        added = path.asked[len(earlier.asked) :]
        assert all(isinstance(c, PassHead | PassChunk) for c in added), path.told
