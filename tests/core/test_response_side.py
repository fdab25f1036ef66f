"""The response side in detail: whole, cut and unreadable answers."""

import gzip
import zlib
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.core.codings.encoders import zstandard
from tests.examples import NOW_MS, STATE, ticket
from tests.playbook import play
from tests.prices import price, pricing
from tests.wire import (
    DONE,
    ERROR,
    FINISH,
    JSON,
    MESSAGE_DELTA,
    OVERLOADED,
    REPLY,
    START,
    STOP,
    STREAM,
    TEXT,
    USAGE_EVENT,
    chunk,
    delta,
    encoded,
    sse,
)
from tokenweir.core.commands import (
    Cancel,
    CountTexts,
    Extend,
    PassChunk,
    PassHead,
    Settle,
)
from tokenweir.core.content_coding import MAX_DECODED_BYTES
from tokenweir.core.events import (
    Counted,
    DrainDeadline,
    Event,
    Headers,
    NothingSent,
    OutOfTime,
    ResponseChunk,
    ResponseHead,
    ResponseKept,
    ResponseMissed,
    ResponsePassed,
    StreamClosed,
    Tick,
)
from tokenweir.core.exchange import Exchange
from tokenweir.core.headers import (
    DOWNGRADED_HEADER,
    OUTPUT_CAP_HEADER,
    response_changes,
)
from tokenweir.core.hold import CAP_REACHED, Outcome, Settlement
from tokenweir.core.plausible import IMPLAUSIBLE_REPORT
from tokenweir.core.price import ModelPrice
from tokenweir.core.pricing import UNPRICED
from tokenweir.core.prompt_part import Kind, PromptCost, PromptPart, PromptParts
from tokenweir.core.response import ResponseReader
from tokenweir.core.step import State
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import Source, TokenUsage

TICKET = ticket()
MESSAGES_TICKET = ticket(dialect="messages")
UNREAD_TICKET = ticket(dialect="", input_tokens=0, output_tokens=0)
REPORTED = TokenUsage(input_tokens=11, output_tokens=7)
SEEN = ResponseHead(200, STREAM)


def responding(head: ResponseHead = SEEN, of: Ticket = TICKET) -> Exchange:
    """Return an exchange whose response has begun."""
    exchange = Exchange.resume(of)
    exchange.handle(head, NOW_MS + 100)
    assert exchange.state is State.RESPONDING
    return exchange


def after(pieces: Iterable[bytes], of: Ticket = TICKET) -> Exchange:
    """Return an exchange in whose response *pieces* have passed."""
    exchange = responding(of=of)
    for piece in pieces:
        assert exchange.handle(ResponseChunk(piece), NOW_MS + 200) == [PassChunk()]
    return exchange


def settlement_of(exchange: Exchange) -> Settlement:
    """Return what was charged."""
    assert exchange.state is State.DONE
    assert exchange.response is not None
    assert exchange.response.settlement is not None
    return exchange.response.settlement


def settled(exchange: Exchange, event: Event, tokens: int = 0) -> Settlement:
    """Feed *event*, and *tokens* if a count is asked for; return what was charged."""
    commands = exchange.handle(event, NOW_MS + 300)
    if exchange.state is State.COUNTING:
        assert isinstance(commands[-1], CountTexts)
        commands = exchange.handle(Counted(tokens, Source.COUNTED), NOW_MS + 400)
    settlement = settlement_of(exchange)
    assert exchange.response is not None
    assert commands[-1] == Settle(exchange.response.ticket, settlement)
    return settlement


def visible(head: ResponseHead, of: Ticket = TICKET, *, watch_body: bool) -> PassHead:
    """Return the answer to a head: our limits, and the provider's out of the way."""
    at_ms = NOW_MS + 100 if of.dialect == "messages" else None
    changes, removals = response_changes(head.headers, of.states, at_ms)
    return PassHead(changes, removals, watch_body=watch_body)


# === the head =====================================================================


def test_envoys_own_headers_stay() -> None:
    """What Envoy says of itself is not taken for a provider's; a provider can't say it."""
    refusal = (("x-tokenweir-refusal", "upstream_unavailable"),)
    own = ResponseHead(503, refusal, details="no_healthy_upstream")
    forged = ResponseHead(503, refusal, details="via_upstream")

    [kept, _] = Exchange.resume(TICKET).handle(own, NOW_MS)
    [moved, _] = Exchange.resume(TICKET).handle(forged, NOW_MS)

    assert isinstance(kept, PassHead)
    assert isinstance(moved, PassHead)
    assert kept.remove_headers == ()
    assert moved.remove_headers == ("x-tokenweir-refusal",)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503, 529])
def test_provider_refused(status: int) -> None:
    """A provider's refusal costs no tokens, but the attempts."""
    head = ResponseHead(status, JSON, attempts=3, details="via_upstream")
    exchange = Exchange.resume(TICKET)
    commands = exchange.handle(head, NOW_MS + 100)

    settlement = settlement_of(exchange)
    assert commands == [visible(head, watch_body=False), Settle(TICKET, settlement)]
    assert settlement == Settlement(
        TokenUsage(),
        Source.REPORTED,
        Outcome.UPSTREAM_FAILED,
        requests=3,
        status=status,
        duration_ms=100,
    )


@pytest.mark.parametrize(
    ("details", "input_tokens"),
    [
        ("response_timeout", 30),
        ("upstream_reset_before_response_started{connection_termination}", 30),
        ("upstream_reset_before_response_started{remote_connection_failure}", 0),
        ("no_healthy_upstream", 0),
    ],
)
def test_envoy_answered(details: str, input_tokens: int) -> None:
    """What Envoy answers itself owes the input, unless nothing was sent."""
    settlement = settled(
        Exchange.resume(TICKET), ResponseHead(503, (), details=details)
    )

    assert settlement.usage == TokenUsage(input_tokens=input_tokens)
    assert settlement.outcome is Outcome.UPSTREAM_FAILED
    assert settlement.status == 503


def test_limits_are_shown() -> None:
    """The client sees how our limits stand, and not the provider's as if ours."""
    head = ResponseHead(200, (*STREAM, ("x-ratelimit-remaining-tokens", "5")))

    play(
        Exchange.resume(TICKET),
        (head, [visible(head, watch_body=True)]),
        now_ms=NOW_MS + 100,
    )
    shown = dict(visible(head, watch_body=True).set_headers)
    assert shown["x-ratelimit-remaining-tokens"] == str(STATE.remaining)
    assert shown["x-upstream-ratelimit-remaining-tokens"] == "5"
    assert "anthropic-ratelimit-tokens-remaining" not in shown


def test_limits_are_shown_to_anthropics_clients() -> None:
    """Anthropic's clients get Anthropic's headers as well, with times of day."""
    play(
        Exchange.resume(MESSAGES_TICKET),
        (SEEN, [visible(SEEN, MESSAGES_TICKET, watch_body=True)]),
        now_ms=NOW_MS + 100,
    )
    shown = dict(visible(SEEN, MESSAGES_TICKET, watch_body=True).set_headers)
    assert shown["anthropic-ratelimit-tokens-reset"].startswith("2026-01-01T12:00:0")


@pytest.mark.parametrize("status", [200, 204, 304])
def test_head_that_ends(status: int) -> None:
    """An answer without a body owes the input and is over with its head."""
    exchange = Exchange.resume(TICKET)
    settlement = settled(exchange, ResponseHead(status, JSON, ended=True))

    assert settlement.usage == TokenUsage(input_tokens=30)
    assert settlement.outcome is Outcome.COMPLETED


def test_head_that_ends_unread() -> None:
    """An answer that nobody reads may end with its head."""
    head = ResponseHead(200, JSON, ended=True)
    exchange = Exchange.resume(UNREAD_TICKET)
    commands = exchange.handle(head, NOW_MS)

    assert settlement_of(exchange).usage == TokenUsage()
    assert isinstance(commands[0], PassHead)
    assert not commands[0].watch_body


# === whole answers ================================================================


def test_stream() -> None:
    """A whole stream is charged as its provider reports."""
    exchange = after([delta("Hello"), delta(" there!"), FINISH, USAGE_EVENT])

    assert settled(exchange, ResponseChunk(DONE, ended=True)) == Settlement(
        REPORTED,
        Source.REPORTED,
        Outcome.COMPLETED,
        status=200,
        model="gpt-4o-mini-2024-07-18",
        duration_ms=300,
        first_token_ms=200,
    )


def test_last_chunk_is_answered_before_the_settle() -> None:
    """The client does not wait for the ledger: first the answer, then the settle."""
    exchange = after([delta("Hello"), USAGE_EVENT])
    commands = exchange.handle(ResponseChunk(DONE, ended=True), NOW_MS)

    assert [type(command) for command in commands] == [PassChunk, Settle]


@pytest.mark.parametrize(
    "pieces",
    [
        [FINISH, USAGE_EVENT],
        [USAGE_EVENT.rstrip()],
        [USAGE_EVENT, FINISH],
    ],
)
def test_end_of_stream_is_the_end(pieces: list[bytes]) -> None:
    """[DONE] is a hint: it may be missing."""
    exchange = after([delta("Hello"), *pieces])
    settlement = settled(exchange, ResponseChunk(b"", ended=True))

    assert settlement.usage == REPORTED
    assert settlement.source is Source.REPORTED
    assert settlement.outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("pieces", "last", "of"),
    [
        ([delta("Hello"), FINISH, USAGE_EVENT], DONE, TICKET),
        ([delta("Hello"), FINISH, USAGE_EVENT], b"data:[DONE]\n\n", TICKET),
        ([delta("Hello"), FINISH, DONE], USAGE_EVENT, TICKET),
        ([DONE, delta("Hello"), USAGE_EVENT], DONE, TICKET),
        ([START, TEXT, MESSAGE_DELTA], STOP, MESSAGES_TICKET),
    ],
)
@pytest.mark.parametrize(
    "later", [ResponseChunk(DONE), ResponseChunk(TEXT), ResponseChunk(b"", ended=True)]
)
def test_settled_when_all_is_told(
    pieces: list[bytes], last: bytes, of: Ticket, later: ResponseChunk
) -> None:
    """
    Once the usage is reported and the last event has come, nobody waits for anybody to
    hang up: all is settled, once, and what comes later passes.
    """
    exchange = after(pieces, of)
    passed, settle = exchange.handle(ResponseChunk(last), NOW_MS + 300)
    settlement = settlement_of(exchange)

    assert passed == PassChunk()
    assert settle == Settle(of, settlement)
    assert settlement.source is Source.REPORTED
    assert settlement.outcome is Outcome.COMPLETED
    assert exchange.handle(later, NOW_MS + 400) == [PassChunk()]
    assert exchange.handle(StreamClosed(), NOW_MS + 500) == []
    assert settlement_of(exchange) is settlement


@pytest.mark.parametrize(
    "pieces",
    [
        [delta("Hello"), DONE],
        [delta("Hello"), USAGE_EVENT, DONE.rstrip()],
        [delta("Hello"), USAGE_EVENT, ERROR, DONE],
        [delta("Hello"), DONE, ERROR, USAGE_EVENT],
    ],
)
def test_not_all_is_told(pieces: list[bytes]) -> None:
    """Without a report, or with an error, the end of the stream is waited for."""
    exchange = after(pieces)

    assert exchange.state is State.RESPONDING


def test_much_behind_the_last_event() -> None:
    """What stands behind the last event is read in steps before all is settled."""
    exchange = after([delta("Hello")])
    flood = USAGE_EVENT + DONE + b"data: {}\n\n" * 5_000
    exchange.handle(ResponseChunk(flood), NOW_MS)
    states = [exchange.state]
    while exchange.state is State.RESPONDING:
        exchange.handle(ResponseChunk(b""), NOW_MS)
        states.append(exchange.state)

    assert len(states) > 5
    assert settlement_of(exchange).usage == REPORTED


@pytest.mark.parametrize("size_bytes", [1, 100, len(REPLY)])
def test_json(size_bytes: int) -> None:
    """A JSON answer is read once it is whole, however it was cut."""
    exchange = responding(ResponseHead(200, JSON))
    pieces = [REPLY[at : at + size_bytes] for at in range(0, len(REPLY), size_bytes)]
    for piece in pieces[:-1]:
        assert exchange.handle(ResponseChunk(piece), NOW_MS) == [PassChunk()]

    settlement = settled(exchange, ResponseChunk(pieces[-1], ended=True))
    assert settlement.usage == REPORTED
    assert settlement.model == "gpt-4o-mini-2024-07-18"


def test_anthropic_stream() -> None:
    """Anthropic's figures are cumulative: the last output, the first input."""
    exchange = after([START, TEXT, MESSAGE_DELTA], MESSAGES_TICKET)
    settlement = settled(exchange, ResponseChunk(STOP, ended=True))

    assert settlement.usage == TokenUsage(
        input_tokens=9, cached_input_tokens=1, output_tokens=16
    )
    assert settlement.source is Source.REPORTED


def test_unread_answer() -> None:
    """An answer that nobody reads is waited for, for its slot, and costs no tokens."""
    exchange = responding(ResponseHead(200, JSON), UNREAD_TICKET)
    exchange.handle(ResponseChunk(REPLY), NOW_MS)

    settlement = settled(exchange, ResponseChunk(b"", ended=True))
    assert settlement.usage == TokenUsage()
    assert settlement.requests == 1
    assert settlement.model is None
    assert settlement.first_token_ms is None


def test_flags_and_attempts() -> None:
    """What the request side noted goes into the settlement, and Envoy's attempts."""
    flagged = replace(TICKET, flags=("ledger_open",))
    exchange = responding(ResponseHead(200, STREAM, attempts=2), flagged)
    exchange.handle(ResponseChunk(USAGE_EVENT), NOW_MS)
    settlement = settled(exchange, ResponseChunk(b"", ended=True))

    assert settlement.flags == ("ledger_open",)
    assert settlement.requests == 2


@pytest.mark.parametrize("attempts", [None, 0, -1])
def test_an_answer_took_an_attempt(attempts: int | None) -> None:
    """Who got an answer has sent one request at least, whatever Envoy says."""
    exchange = responding(ResponseHead(200, STREAM, attempts=attempts))

    assert settled(exchange, ResponseChunk(b"", ended=True)).requests == 1


def test_clock_that_steps_back() -> None:
    """A clock that steps back makes no negative durations."""
    exchange = Exchange.resume(TICKET)
    exchange.handle(SEEN, NOW_MS - 5_000)
    exchange.handle(ResponseChunk(delta("Hello")), NOW_MS - 5_000)
    exchange.handle(ResponseChunk(USAGE_EVENT, ended=True), NOW_MS - 5_000)
    settlement = settlement_of(exchange)

    assert settlement.duration_ms == 0
    assert settlement.first_token_ms == 0


# === reports that can't be true ===================================================

ABSURD = 10**9


@pytest.mark.parametrize(
    "figures",
    [
        {"prompt_tokens": 11, "completion_tokens": ABSURD},
        {"prompt_tokens": ABSURD, "completion_tokens": 7},
        {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": ABSURD},
        {"prompt_tokens": 11, "completion_tokens": ABSURD * 1_000},
    ],
)
def test_implausible(figures: dict[str, int]) -> None:
    """A report that can't be true is told, and what passed is counted."""
    exchange = after([delta("Hello"), FINISH, chunk(choices=[], usage=figures)])
    settlement = settled(exchange, ResponseChunk(DONE, ended=True), tokens=3)

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=3)
    assert settlement.source is Source.COUNTED
    assert settlement.outcome is Outcome.COMPLETED
    assert settlement.flags == (IMPLAUSIBLE_REPORT,)


def test_implausible_json() -> None:
    """It is the same with an answer that is no stream."""
    exchange = responding(ResponseHead(200, JSON))
    absurd = REPLY.replace(
        b'"completion_tokens": 7', b'"completion_tokens": %d' % ABSURD
    )
    settlement = settled(exchange, ResponseChunk(absurd, ended=True), tokens=3)

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=3)
    assert settlement.flags == (IMPLAUSIBLE_REPORT,)


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        ({"input_tokens": ABSURD, "output_tokens": 1}, {"output_tokens": 7}),
        ({"input_tokens": 11, "output_tokens": 1}, {"output_tokens": ABSURD}),
        ({"input_tokens": 11, "cache_read_input_tokens": ABSURD}, {"output_tokens": 7}),
        (
            {"input_tokens": 11, "cache_creation_input_tokens": ABSURD * 10**5},
            {"output_tokens": 7},
        ),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_implausible_messages(
    start: dict[str, int], stop: dict[str, int], whole: bool
) -> None:
    """A figure of either event makes the report implausible, also if it is cut."""
    begun = sse({"type": "message_start", "message": {"usage": start}})
    ended = sse({"type": "message_delta", "delta": {}, "usage": stop})
    pieces = [begun, TEXT, ended]
    event = ResponseChunk(STOP, ended=True) if whole else StreamClosed()
    settlement = settled(after(pieces, MESSAGES_TICKET), event, tokens=3)

    assert settlement.usage.total_input_tokens == 30
    assert settlement.usage.total_output_tokens in (3, 7)
    assert settlement.flags == (IMPLAUSIBLE_REPORT,)


def test_flags_beside_each_other() -> None:
    """What the request side noted is not lost by it."""
    flagged = replace(TICKET, flags=("ledger_open",))
    absurd = chunk(choices=[], usage={"prompt_tokens": 1, "completion_tokens": ABSURD})
    exchange = after([delta("Hello"), absurd], flagged)

    flags = settled(exchange, ResponseChunk(DONE, ended=True), tokens=3).flags
    assert flags == ("ledger_open", IMPLAUSIBLE_REPORT)


def test_running_totals_behind_an_implausible_one() -> None:
    """Reports are cumulative: what is said last is judged."""
    usages = [ABSURD, 7]
    pieces = [
        chunk(choices=[], usage={"prompt_tokens": 11, "completion_tokens": tokens})
        for tokens in usages
    ]
    settlement = settled(after([delta("Hello"), *pieces]), StreamClosed())

    assert settlement.usage == REPORTED
    assert settlement.flags == ()


def test_progress_is_plausible() -> None:
    """Running totals that can't be true are no progress: a lost hold is charged it."""
    absurd = chunk(choices=[], usage={"prompt_tokens": 1, "completion_tokens": ABSURD})
    exchange = after([delta("x" * 40), absurd])

    assert exchange.handle(Tick(), NOW_MS) == [Extend(TICKET.hold, 10)]


# === without a report =============================================================


def test_counted() -> None:
    """Without a report, what passed is counted."""
    exchange = after([delta("Hello"), delta(" there!"), FINISH])

    play(
        exchange,
        (
            ResponseChunk(DONE, ended=True),
            [
                PassChunk(),
                CountTexts(("Hello", " there!"), 0, "gpt-4o-mini", None),
            ],
        ),
    )
    assert settled(exchange, Counted(3, Source.COUNTED)) == Settlement(
        TokenUsage(input_tokens=30, output_tokens=3),
        Source.COUNTED,
        Outcome.COMPLETED,
        status=200,
        model="gpt-4o-mini-2024-07-18",
        duration_ms=0,
        first_token_ms=200,
    )


def test_null_is_not_zero() -> None:
    """Usage that is null is not known: output is counted, nothing is refunded."""
    pieces = [
        chunk(choices=[{"index": 0, "delta": {"role": None, "content": None}}]),
        chunk(choices=[{"index": 0, "delta": {"content": "Hello"}}], usage=None),
        chunk(choices=[{"index": 0, "delta": {}, "finish_reason": ""}], usage=None),
    ]
    settlement = settled(after(pieces), ResponseChunk(DONE, ended=True), tokens=1)

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=1)
    assert settlement.source is Source.COUNTED


@pytest.mark.parametrize("source", [Source.COUNTED, Source.ESTIMATED])
def test_source_of_the_count(source: Source) -> None:
    """A count that is only an estimate is told as one."""
    exchange = after([delta("Hello")])
    exchange.handle(ResponseChunk(b"", ended=True), NOW_MS)
    exchange.handle(Counted(3, source), NOW_MS)

    assert settlement_of(exchange).source is source


def test_long_texts_are_not_kept_whole() -> None:
    """Text beyond what is kept is counted by its bytes."""
    exchange = after([delta("é" * 150_000)])
    [_, command] = exchange.handle(ResponseChunk(b"", ended=True), NOW_MS)

    assert isinstance(command, CountTexts)
    kept_bytes = sum(len(text.encode()) for text in command.texts)
    assert kept_bytes + command.dropped_bytes == 300_000
    assert 0 < kept_bytes < 280_000


def test_much_is_read_in_steps() -> None:
    """A piece that holds much work is read by empty pieces, step by step."""
    exchange = Exchange.resume(TICKET)
    assert exchange.response is not None
    assert not exchange.response.behind
    exchange.handle(SEEN, NOW_MS)
    exchange.handle(ResponseChunk(delta("x") * 2_000), NOW_MS)
    behind = exchange.response.behind
    steps = 0
    while exchange.response.behind:
        assert exchange.handle(ResponseChunk(b""), NOW_MS) == [PassChunk()]
        steps += 1
    [command] = exchange.handle(StreamClosed(), NOW_MS)

    assert behind
    assert steps > 5
    assert isinstance(command, CountTexts)
    assert "".join(command.texts) == "x" * 2_000


def test_counting_breaks() -> None:
    """If counting breaks, what passed is charged by its size."""
    exchange = after([delta("x" * 401)])
    exchange.handle(StreamClosed(), NOW_MS)
    exchange.handle(OutOfTime(), NOW_MS)
    settlement = settlement_of(exchange)

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=101)
    assert settlement.source is Source.ESTIMATED
    assert settlement.outcome is Outcome.CUT


# === cut answers ==================================================================


@pytest.mark.parametrize(
    "pieces",
    [
        [delta("Hello"), delta(" there!")],
        [delta("Hello"), delta(" there!"), FINISH],
        [delta("Hello"), delta(" there!")[:40]],
    ],
)
def test_cut(pieces: list[bytes]) -> None:
    """Who leaves before the report owes the input, and what was generated so far."""
    settlement = settled(after(pieces), StreamClosed(), tokens=4)

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=4)
    assert settlement.source is Source.COUNTED
    assert settlement.outcome is Outcome.CUT


def test_cut_is_capped() -> None:
    """A count of what passed is not above what the client allowed."""
    exchange = after([delta("Hello")], ticket(output_cap=5))

    assert settled(exchange, StreamClosed(), tokens=50).usage.output_tokens == 5


def test_cut_before_any_text() -> None:
    """Who leaves before any text owes the input."""
    settlement = settled(after([]), StreamClosed())

    assert settlement.usage == TokenUsage(input_tokens=30)
    assert settlement.outcome is Outcome.CUT


def test_cut_before_the_head() -> None:
    """Who leaves before the provider has answered owes the input."""
    exchange = Exchange.resume(TICKET)
    settlement = settled(exchange, StreamClosed())

    assert settlement.usage == TokenUsage(input_tokens=30)
    assert settlement.source is Source.COUNTED
    assert settlement.outcome is Outcome.CUT
    assert settlement.status == 0
    assert settlement.requests == 1


def test_left_after_the_end() -> None:
    """Who leaves once the provider has said it all has had a whole answer."""
    exchange = after([delta("Hello"), FINISH, USAGE_EVENT])
    settlement = settled(exchange, StreamClosed())

    assert settlement.usage == REPORTED
    assert settlement.source is Source.REPORTED
    assert settlement.outcome is Outcome.COMPLETED


def test_left_after_the_report() -> None:
    """A report that is whole is charged, also if nothing said that this was the end."""
    settlement = settled(after([delta("Hello"), USAGE_EVENT]), StreamClosed())

    assert settlement.usage == REPORTED
    assert settlement.source is Source.REPORTED
    assert settlement.outcome is Outcome.CUT


def test_anthropic_cut() -> None:
    """A report from the beginning is kept, and the output since is counted."""
    exchange = after([START, TEXT], MESSAGES_TICKET)
    settlement = settled(exchange, StreamClosed(), tokens=3)

    assert settlement.usage == TokenUsage(
        input_tokens=9, cached_input_tokens=1, output_tokens=3
    )
    assert settlement.source is Source.COUNTED
    assert settlement.outcome is Outcome.CUT


def test_json_cut() -> None:
    """Half a JSON answer is charged by its size, or by what was announced."""
    headers: Headers = (*JSON, ("content-length", "400"))
    exchange = responding(ResponseHead(200, headers))
    exchange.handle(ResponseChunk(REPLY[:100]), NOW_MS)
    settlement = settled(exchange, StreamClosed())

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=100)
    assert settlement.source is Source.ESTIMATED
    assert settlement.outcome is Outcome.CUT


# === errors in a 200 ==============================================================


@pytest.mark.parametrize("end", [ResponseChunk(b"", ended=True), StreamClosed()])
@pytest.mark.parametrize("pieces", [[START, OVERLOADED], [OVERLOADED, START]])
def test_error_beside_the_start(pieces: list[bytes], end: Event) -> None:
    """What a message's start tells is no work: an error before or behind it is free."""
    settlement = settled(after(pieces, MESSAGES_TICKET), end)

    assert settlement.usage == TokenUsage()
    assert settlement.outcome is Outcome.UPSTREAM_FAILED


@pytest.mark.parametrize(
    ("of", "error"), [(TICKET, ERROR), (MESSAGES_TICKET, OVERLOADED)]
)
@pytest.mark.parametrize("end", [ResponseChunk(b"", ended=True), StreamClosed()])
def test_error_before_any_work(of: Ticket, error: bytes, end: Event) -> None:
    """An error in a 200 before any output and any report costs no tokens."""
    settlement = settled(after([error], of), end)

    assert settlement.usage == TokenUsage()
    assert settlement.outcome is Outcome.UPSTREAM_FAILED
    assert settlement.status == 200


@pytest.mark.parametrize(
    ("of", "pieces", "expected"),
    [
        (
            TICKET,
            [delta("Hello"), ERROR],
            TokenUsage(input_tokens=30, output_tokens=4),
        ),
        (
            MESSAGES_TICKET,
            [START, TEXT, OVERLOADED],
            TokenUsage(input_tokens=9, cached_input_tokens=1, output_tokens=4),
        ),
    ],
)
def test_error_after_work(
    of: Ticket, pieces: list[bytes], expected: TokenUsage
) -> None:
    """An error after output, or after a report, owes what there was until then."""
    exchange = after(pieces, of)
    settlement = settled(exchange, ResponseChunk(b"", ended=True), tokens=4)

    assert settlement.usage == expected
    assert settlement.outcome is Outcome.UPSTREAM_FAILED


def test_error_in_json() -> None:
    """An error in a JSON answer of status 200 is no answer."""
    exchange = responding(ResponseHead(200, JSON))
    body = encoded({"error": {"message": "no", "type": "server_error"}})
    settlement = settled(exchange, ResponseChunk(body, ended=True))

    assert settlement.usage == TokenUsage()
    assert settlement.outcome is Outcome.UPSTREAM_FAILED


# === what can't be read ===========================================================


@pytest.mark.parametrize(
    ("headers", "body", "output_tokens"),
    [
        ((*JSON, ("content-encoding", "br")), b"\x8b" * 50, 50),
        ((*STREAM, ("content-encoding", "zstd")), b"\x28" * 50, 50),
        ((*STREAM, ("content-encoding", "gzip, x")), b"\x28" * 50, 50),
        # Cut off before anything of it could be decoded.
        (
            (*STREAM, ("content-encoding", "gzip")),
            gzip.compress(b"x" * 99, mtime=0)[:9],
            9,
        ),
        ((*JSON, ("content-encoding", "Identity")), b"{" * 80, 20),
        ((*JSON, ("content-encoding", "identity")), b"{" * 80, 20),
        (JSON, b"not JSON", 2),
        (JSON, b"{" * 40_000, 200),
    ],
)
def test_unreadable(headers: Headers, body: bytes, output_tokens: int) -> None:
    """A body that can't be read is never free: it is charged by its size."""
    exchange = responding(ResponseHead(200, headers))
    settlement = settled(exchange, ResponseChunk(body, ended=True))

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=output_tokens)
    assert settlement.source is Source.ESTIMATED
    assert settlement.outcome is Outcome.COMPLETED


def test_bomb() -> None:
    """What decodes to more than is read of a body is worth all that was reserved."""
    headers: Headers = (*JSON, ("content-encoding", "zstd"))
    exchange = responding(ResponseHead(200, headers))
    bomb = zstandard(b"{" * (MAX_DECODED_BYTES + 1))
    settlement = settled(exchange, ResponseChunk(bomb, ended=True))

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=200)
    assert settlement.source is Source.ESTIMATED


def test_unreadable_from_somewhere_on() -> None:
    """What could be read before the body broke is counted, and told as an estimate."""
    headers: Headers = (*STREAM, ("content-encoding", "gzip"))
    exchange = responding(ResponseHead(200, headers))
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(delta("Hello") + delta(" there!"))
    packed += packer.flush(zlib.Z_SYNC_FLUSH)
    exchange.handle(ResponseChunk(packed), NOW_MS)
    broken = ResponseChunk(b"\xff" * 100, ended=True)
    settlement = settled(exchange, broken, tokens=4)

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=4)
    assert settlement.source is Source.ESTIMATED


def test_reading_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a bug of ours keeps an answer from being read, it is not free (E12)."""
    exchange = responding()

    def broken(_: ResponseReader, data: bytes) -> None:
        raise ZeroDivisionError(data)

    monkeypatch.setattr(ResponseReader, "feed", broken)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            exchange.handle(ResponseChunk(b"x" * 100), NOW_MS + 200)
    settlement = settled(exchange, StreamClosed())

    assert settlement.usage.total_output_tokens == 50
    assert settlement.source is Source.ESTIMATED


@pytest.mark.parametrize("length", ["", "-5", "x", "4e2", "٤٠٠", "4" * 5_000])
def test_strange_length(length: str) -> None:
    """A content-length that is no number counts as none."""
    headers: Headers = (*JSON, ("content-length", length))
    exchange = responding(ResponseHead(200, headers))
    settlement = settled(exchange, ResponseChunk(b"{" * 8, ended=True))

    assert settlement.usage.output_tokens == 2


# === meanwhile ====================================================================


@pytest.mark.parametrize(
    ("pieces", "of", "tokens"),
    [
        ([], TICKET, 0),
        ([delta("x" * 40)], TICKET, 10),
        ([delta("x" * 40), delta("x" * 41)], TICKET, 20),
        ([delta("x" * 4), USAGE_EVENT], TICKET, 7),
        ([delta("x" * 40), USAGE_EVENT], TICKET, 10),
        ([START], MESSAGES_TICKET, 1),
    ],
)
def test_progress(pieces: list[bytes], of: Ticket, tokens: int) -> None:
    """A renewal reports what was generated so far, by bytes or as reported."""
    exchange = after(pieces, of)

    play(exchange, (Tick(), [Extend(of.hold, tokens)]))
    assert exchange.state is State.RESPONDING


def test_progress_before_the_response() -> None:
    """Before the response begins, a renewal says that the exchange lives."""
    exchange = Exchange.resume(TICKET)

    play(exchange, (Tick(), [Extend(TICKET.hold, 0)]))
    assert exchange.state is State.FORWARDED


def test_drain() -> None:
    """At a drain what passed so far is counted, and the rest is let go by."""
    exchange = after([delta("Hello")])
    settlement = settled(exchange, DrainDeadline(), tokens=2)

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=2)
    assert settlement.outcome is Outcome.DRAINED
    play(
        exchange,
        (ResponseChunk(delta(" there!")), [PassChunk()]),
        (ResponseChunk(DONE, ended=True), [PassChunk()]),
        (StreamClosed(), []),
    )


def test_drain_of_half_a_json_answer() -> None:
    """Of half a JSON answer, all has been generated: it is charged by its length."""
    headers: Headers = (*JSON, ("content-length", "400"))
    exchange = responding(ResponseHead(200, headers))
    exchange.handle(ResponseChunk(REPLY[:100]), NOW_MS)
    settlement = settled(exchange, DrainDeadline())

    assert settlement.usage == TokenUsage(input_tokens=30, output_tokens=100)
    assert settlement.source is Source.ESTIMATED
    assert settlement.outcome is Outcome.DRAINED


def test_drain_before_the_response() -> None:
    """At a drain before the response the input is charged; the head still passes."""
    exchange = Exchange.resume(TICKET)
    settlement = settled(exchange, DrainDeadline())

    assert settlement.usage == TokenUsage(input_tokens=30)
    assert settlement.outcome is Outcome.DRAINED
    play(
        exchange,
        (SEEN, [visible(SEEN, watch_body=False)]),
        (ResponseChunk(DONE, ended=True), [PassChunk()]),
    )


def test_chunks_while_counting() -> None:
    """What comes while the count is made passes, and is not charged twice."""
    exchange = after([delta("Hello")])
    exchange.handle(DrainDeadline(), NOW_MS)

    play(
        exchange,
        (ResponseChunk(USAGE_EVENT), [PassChunk()]),
        (Tick(), []),
        (DrainDeadline(), []),
        (StreamClosed(), []),
    )
    assert exchange.state is State.COUNTING
    exchange.handle(Counted(2, Source.COUNTED), NOW_MS)
    assert settlement_of(exchange).usage.total_tokens == 32


def test_settled_once() -> None:
    """What comes after the end changes nothing."""
    exchange = after([USAGE_EVENT])
    settlement = settled(exchange, ResponseChunk(DONE, ended=True))

    play(
        exchange,
        (ResponseChunk(USAGE_EVENT, ended=True), [PassChunk()]),
        (Tick(), []),
        (DrainDeadline(), []),
        (StreamClosed(), []),
    )
    assert settlement_of(exchange) is settlement


# === cost =========================================================================


def priced_exchange(of: Ticket = TICKET) -> Exchange:
    """Return an exchange where a token costs 2 in and 8 out, and half as flex."""
    book = pricing(gpt_4o_mini=price(2, 8, flex=True))
    exchange = Exchange.resume(replace(of, counting_model="gpt-4o-mini"), book)
    exchange.handle(ResponseHead(200, JSON), NOW_MS)
    return exchange


@pytest.mark.parametrize(
    ("tier", "cost", "flags"),
    [
        ("null", 11 * 2 + 7 * 8, ()),
        ('"flex"', 11 + 7 * 4, ()),
        ('"priority"', 0, (UNPRICED,)),
    ],
)
def test_cost(tier: str, cost: int, flags: tuple[str, ...]) -> None:
    """What was used is priced by the tier that the answer names (B09)."""
    body = (
        f'{{"service_tier":{tier},"usage":{{"prompt_tokens":11,"completion_tokens":7}},'
        '"choices":[{"finish_reason":"stop","message":{"content":"Hi."}}]}'
    )
    exchange = priced_exchange()
    exchange.handle(ResponseChunk(body.encode(), ended=True), NOW_MS)
    assert exchange.response is not None
    settlement = exchange.response.settlement

    assert settlement is not None
    assert (settlement.cost_nanousd, settlement.flags) == (cost, flags)


def test_the_app_is_told_which_model_it_had_asked_for() -> None:
    """A provider can't say so in our name."""
    subject = replace(TICKET.hold.subject, downgraded_from="gpt-4o")
    ticket = replace(TICKET, hold=replace(TICKET.hold, subject=subject))
    forged = ((DOWNGRADED_HEADER, "gpt-9"),)
    for of, told in ((ticket, "gpt-4o"), (TICKET, None)):
        [answer] = Exchange.resume(of).handle(ResponseHead(200, forged), NOW_MS)[:1]
        assert isinstance(answer, PassHead)
        changes = dict(answer.set_headers)

        assert changes.get(DOWNGRADED_HEADER) == told
        assert told or DOWNGRADED_HEADER in answer.remove_headers


def test_an_answer_that_reached_the_policys_cap() -> None:
    """The app is told of the cap at once, the record of what it may have saved."""
    subject = replace(TICKET.hold.subject, capped_from="2000", output_cap="300")
    hold = replace(TICKET.hold, subject=subject)
    ticket = replace(TICKET, hold=hold, output_cap=300, expected_tokens=2_000)
    body = (
        b'{"usage":{"prompt_tokens":11,"completion_tokens":300},'
        b'"choices":[{"finish_reason":"length","message":{"content":"Hi."}}]}'
    )
    book = pricing(gpt_4o_mini=price(2, 8))
    exchange = Exchange.resume(replace(ticket, counting_model="gpt-4o-mini"), book)
    [answer] = exchange.handle(ResponseHead(200, JSON), NOW_MS)
    exchange.handle(ResponseChunk(body, ended=True), NOW_MS)
    settlement = settlement_of(exchange)

    assert isinstance(answer, PassHead)
    assert dict(answer.set_headers)[OUTPUT_CAP_HEADER] == "300;from=2000"
    assert settlement.flags == (CAP_REACHED,)
    assert settlement.cap_saved_nanousd == 1_700 * 8
    assert settlement.saved_nanousd == 0


@pytest.mark.parametrize(
    ("asked", "saved"), [(price(4, 20), 11 * 2 + 7 * 12), (price(1, 1), 0)]
)
def test_a_downgrade_saves_the_difference(asked: ModelPrice, saved: int) -> None:
    """What the other model would have cost, less what was paid; never less than 0."""
    book = pricing(gpt_4o_mini=price(2, 8), large=asked)
    of = replace(TICKET, instead_of=("openai", "large"), counting_model="gpt-4o-mini")
    exchange = Exchange.resume(of, book)
    exchange.handle(ResponseHead(200, JSON), NOW_MS)
    exchange.handle(ResponseChunk(REPLY, ended=True), NOW_MS)

    assert settlement_of(exchange).saved_nanousd == saved


def test_what_has_no_price_has_saved_nothing() -> None:
    """Of an answer whose cost nobody knows, nobody knows what it saved."""
    of = replace(TICKET, instead_of=("openai", "large"), counting_model="small")
    exchange = Exchange.resume(of, pricing(large=price(4, 20)))
    exchange.handle(ResponseHead(200, JSON), NOW_MS)
    exchange.handle(ResponseChunk(REPLY, ended=True), NOW_MS)

    assert settlement_of(exchange).saved_nanousd == 0


def test_what_repeats_in_the_prompt_is_told_with_the_settlement() -> None:
    """By its hash, with its share of the input and of the cost."""
    part = PromptPart(Kind.SYSTEM, "0123456789abcdef", 50)
    of = replace(TICKET, prompt=PromptParts((part,), 100), counting_model="gpt-4o-mini")
    exchange = Exchange.resume(of, pricing(gpt_4o_mini=price(2, 8)))
    exchange.handle(ResponseHead(200, JSON), NOW_MS)
    commands = exchange.handle(ResponseChunk(REPLY, ended=True), NOW_MS)
    [settle] = [command for command in commands if isinstance(command, Settle)]

    assert settle.prompt == ((part, PromptCost(1, 5, 5, 0, 11, 10)),)


# === bodies that Envoy has read =====================================================


def told(*events: Event, of: Ticket = TICKET) -> Exchange:
    """Return an exchange of whose body *events* were told, one each 10 ms."""
    exchange = responding(of=of)
    for number, event in enumerate(events):
        assert exchange.handle(event, NOW_MS + 200 + 10 * number) == []
    return exchange


def test_told_whole() -> None:
    """What was kept of a body is read as if it had been shown."""
    pieces = (delta("Hello"), FINISH, USAGE_EVENT, DONE)
    exchange = told(*map(ResponseKept, pieces))
    shown = after(pieces[:-1])

    unseen = settled(exchange, ResponsePassed(400, ended=True))
    seen = settled(shown, ResponseChunk(DONE, ended=True))
    assert (unseen.usage, unseen.source) == (REPORTED, Source.REPORTED)
    assert unseen.first_token_ms == NOW_MS + 200 - TICKET.started_ms
    assert replace(unseen, first_token_ms=seen.first_token_ms) == seen


def test_told_all_before_its_end() -> None:
    """A stream that has told all is over, though its connection is not."""
    exchange = told(*map(ResponseKept, (delta("a"), FINISH, USAGE_EVENT, DONE)))

    assert settled(exchange, ResponsePassed(400)).outcome is Outcome.COMPLETED


def test_told_of_a_part() -> None:
    """What is missing has as much text as what is there, and is no report."""
    pieces = (delta("Hello"), USAGE_EVENT)
    size = sum(map(len, pieces))
    exchange = told(*map(ResponseKept, pieces), ResponseMissed(2 * size))
    assert exchange.handle(ResponsePassed(3 * size), NOW_MS + 300) == []
    [count] = exchange.handle(StreamClosed(), NOW_MS + 300)

    assert isinstance(count, CountTexts)
    assert (count.texts, count.dropped_bytes) == (("Hello",), 10)


def test_told_of_texts_that_were_left_out() -> None:
    """They count where there is text at all."""
    exchange = told(ResponseKept(delta("Hello"), elided_bytes=90))
    exchange.handle(ResponsePassed(300), NOW_MS + 300)
    [count] = exchange.handle(StreamClosed(), NOW_MS + 300)
    assert isinstance(count, CountTexts)
    assert count.dropped_bytes == 90

    silent = told(ResponseKept(USAGE_EVENT, elided_bytes=90))
    assert settled(silent, ResponsePassed(300, ended=True)).usage == REPORTED


def test_told_of_nothing_that_was_kept() -> None:
    """Nobody can read it, so it is charged by its size."""
    exchange = told(ResponseMissed(400))
    settlement = settled(exchange, ResponsePassed(400, ended=True))

    assert settlement.source is Source.ESTIMATED
    assert settlement.usage.output_tokens == 100


def test_told_with_a_fault() -> None:
    """What is there is counted, and is no more than an estimate."""
    exchange = told(ResponseKept(delta("Hello")))
    exchange.handle(ResponsePassed(400, fault=True), NOW_MS + 300)
    settlement = settled(exchange, StreamClosed(), 7)

    assert settlement.source is Source.ESTIMATED
    assert settlement.usage.output_tokens == 7


def test_told_of_what_nobody_reads() -> None:
    """There is no reader, and nothing to be read."""
    exchange = told(ResponseKept(b"{"), ResponseMissed(9), of=UNREAD_TICKET)

    assert settled(exchange, ResponsePassed(10, ended=True)).usage == TokenUsage()


def test_nothing_was_sent() -> None:
    """The hold is given back, and nothing settled."""
    exchange = Exchange.resume(TICKET)

    assert exchange.handle(NothingSent(), NOW_MS) == [Cancel(TICKET.hold)]
    assert exchange.state is State.DONE
