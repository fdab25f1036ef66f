"""What is settled of a recorded exchange is what it reports, and what passed of it."""

from __future__ import annotations

import pytest

from tests.examples import NOW_MS, ticket
from tests.recorded import NEEDS_RECORDINGS, Recording, framed, recordings
from tokenweir.core.commands import CountTexts, Settle
from tokenweir.core.dialects import dialect_of
from tokenweir.core.events import (
    Counted,
    Event,
    ResponseChunk,
    ResponseHead,
    StreamClosed,
)
from tokenweir.core.exchange import Exchange
from tokenweir.core.hold import Outcome, Settlement
from tokenweir.core.step import State
from tokenweir.core.usage import Source

RECORDINGS = [
    pytest.param(recording, id=recording.name)
    for recording in (*recordings(), *framed())
    if dialect_of(recording.path)
]
every = pytest.mark.parametrize("recording", RECORDINGS)
RESERVED = (30, 200)
# Places where a long body is cut, or breaks off. Of what is known after a cut,
# tests/core/test_response.py tries each place.
PLACES = 60
COUNTED = 3


def places(body: bytes) -> range:
    """Return where *body* is cut: behind its first byte, and then evenly."""
    return range(1, len(body), max(1, len(body) // PLACES))


def begun(recording: Recording) -> Exchange:
    """Return an exchange whose answer has that head."""
    dialect = dialect_of(recording.path)
    assert dialect is not None
    exchange = Exchange.resume(ticket(dialect=dialect.route))
    headers = (("content-type", recording.content_type),)
    exchange.handle(ResponseHead(recording.status, headers), NOW_MS)
    return exchange


def settled(exchange: Exchange, event: Event) -> Settlement:
    """Feed the last *event*; return what is charged, once."""
    commands = exchange.handle(event, NOW_MS)
    if any(isinstance(each, CountTexts) for each in commands):
        commands = exchange.handle(Counted(COUNTED, Source.COUNTED), NOW_MS)
    [settle] = [each for each in commands if isinstance(each, Settle)]
    assert exchange.state is State.DONE
    return settle.settlement


def is_over(exchange: Exchange) -> bool:
    """Tell if all is settled already: of a stream, before its last line."""
    return exchange.state is State.DONE


def sides(settlement: Settlement) -> tuple[int, int]:
    """Return the input and output tokens that are charged."""
    usage = settlement.usage
    return usage.total_input_tokens, usage.total_output_tokens


@NEEDS_RECORDINGS
@every
def test_at_every_cut(recording: Recording) -> None:
    """However it comes, what is settled is what is reported; an error costs nothing."""
    body, first = recording.response, None
    for place in places(body):
        exchange = begun(recording)
        if is_over(exchange):
            assert recording.status >= 400
            assert exchange.response is not None
            assert exchange.response.settlement is not None
            assert sides(exchange.response.settlement) == (0, 0)
            return
        exchange.handle(ResponseChunk(body[:place]), NOW_MS)
        if not is_over(exchange):
            first = settled(exchange, ResponseChunk(body[place:], ended=True))
        assert exchange.response is not None
        found = exchange.response.settlement
        assert found is not None
        if recording.reported is not None:
            assert sides(found) == recording.reported
            assert found.source is Source.REPORTED
        else:
            assert sides(found) == (RESERVED[0], COUNTED)
            assert found.source is Source.COUNTED
        assert found.outcome is Outcome.COMPLETED
    assert first is not None


@NEEDS_RECORDINGS
@every
def test_wherever_it_breaks_off(recording: Recording) -> None:
    """
    What is settled of a part is the report if that has come, else what is known of it.

    The input is owed at least, and no output that nobody generated.
    """
    if recording.status >= 400:
        return
    body = recording.response
    for place in places(body):
        exchange = begun(recording)
        exchange.handle(ResponseChunk(body[:place]), NOW_MS)
        if is_over(exchange):
            assert exchange.response is not None
            found = exchange.response.settlement
            assert found is not None
        else:
            found = settled(exchange, StreamClosed())
        into, out_of = sides(found)
        whole = recording.reported
        assert into in (RESERVED[0], whole[0] if whole else RESERVED[0])
        if found.source is Source.REPORTED:
            assert (into, out_of) == whole
        elif recording.is_stream or not body[place:].strip():
            assert out_of <= max(COUNTED, whole[1] if whole else 0)
        else:  # half a JSON body: all of it was generated
            assert found.source is Source.ESTIMATED
            assert 0 < out_of <= RESERVED[1]
