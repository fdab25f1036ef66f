"""Whatever Envoy tells of an exchange, and however often, it is settled once."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from tests.driver.fakes import Gate, Kit, raising
from tests.examples import NOW_MS, ticket
from tests.wire import DONE, FINISH, JSON, REPLY, STREAM, USAGE_EVENT, delta
from tokenweir.core.events import ResponseHead
from tokenweir.core.excerpt import Excerpt, Unit
from tokenweir.core.hold import Outcome
from tokenweir.core.partition import all_tags
from tokenweir.core.passage import Passage
from tokenweir.core.response import ResponseReader
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.driver import native as module
from tokenweir.driver.native import NativeDriver
from tokenweir.driver.native_watch import Offer
from tokenweir.telemetry.hooks import ExchangeDetails

HEAD = ResponseHead(200, STREAM, attempts=2, details="via_upstream")
PIECES = (delta("Hello"), FINISH, USAGE_EVENT, DONE)
BODY = b"".join(PIECES)
HALVES = (delta("Hel"), delta("lo"))
END_MS = NOW_MS + 1_500


def excerpt(*pieces: bytes, whole: bool = True, **more: object) -> Excerpt:
    """Return what was kept of a body of *pieces*, the first of which came at once."""
    first_us = (NOW_MS + 300) * 1000
    units = [Unit(data, first_us + 50_000 * n) for n, data in enumerate(pieces)]
    seen = {"units": tuple(units), "seen_bytes": sum(map(len, pieces))}
    told = {"head_us": first_us, "gap_at": None, "gap_bytes": 0, "fault": False}
    told |= {"seen_units": len(units), "whole": whole}
    headers = dict.fromkeys(("content_type", "content_encoding", "content_length"), "")
    return Excerpt(**{**headers, **told, **seen, **more})  # type: ignore[arg-type]


WHOLE = Passage(
    ticket(),
    END_MS,
    over=True,
    head=HEAD,
    ended=True,
    body_bytes=len(BODY),
    excerpt=excerpt(*PIECES),
)
HALF = replace(WHOLE, ended=False, body_bytes=30, excerpt=excerpt(*HALVES, whole=False))
GOES_ON = replace(HALF, over=False)
WAITS = Passage(ticket(), END_MS, over=False)


@pytest.fixture
async def kit() -> Kit:
    """Return services whose ledger has the ticket's hold."""
    kit = Kit()
    await kit.ledger.reserve(ticket().hold)
    return kit


def kit_details(hold_id: str) -> ExchangeDetails:
    """Return what is told of an exchange that never left."""
    return ExchangeDetails(ticket().hold.subject, "POST", hold_id, None, None)


async def take(kit: Kit, *passages: Passage) -> None:
    """Tell of *passages*, and wait until all is done."""
    driver = NativeDriver(kit.services)
    for passage in passages:
        driver.take(passage)
        await kit.quiet()


async def test_settled_at_its_end(kit: Kit) -> None:
    """The report is charged, and the times are Envoy's."""
    await take(kit, WHOLE)

    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert settlement.source is Source.REPORTED
    assert settlement.outcome is Outcome.COMPLETED
    assert (settlement.status, settlement.requests) == (200, 2)
    assert settlement.duration_ms == END_MS - ticket().started_ms
    assert settlement.first_token_ms == NOW_MS + 300 - ticket().started_ms
    [details] = kit.recorder.exchanges
    assert details.settlement == settlement
    assert await kit.ledger.reserved() == {}
    assert kit.services.natives.size == 0


async def test_json(kit: Kit) -> None:
    """A reply that is no stream is read as well, and has no first token."""
    head = ResponseHead(200, JSON)
    await take(kit, replace(WHOLE, head=head, excerpt=excerpt(REPLY)))

    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert settlement.first_token_ms is None


async def test_cut(kit: Kit) -> None:
    """What passed is counted, as if it had been read in line."""
    await take(kit, HALF)

    [settlement] = kit.ledger.settlements
    assert settlement.outcome is Outcome.CUT
    assert settlement.source is Source.COUNTED
    assert settlement.usage.output_tokens == 30
    [asked] = kit.counter.asked
    assert asked[0] == ("Hel", "lo")
    assert asked[3] == 0


async def test_cut_after_the_last_note(kit: Kit) -> None:
    """What has passed since then has as much text as what was kept."""
    kept = sum(map(len, HALVES))
    await take(kit, replace(HALF, body_bytes=3 * kept))

    [asked] = kit.counter.asked
    assert asked[0] == ("Hel", "lo")
    assert asked[3] == 2 * len("Hello")


async def test_a_gap(kit: Kit) -> None:
    """So has what was not kept of a long answer; a report behind it still counts."""
    kept = excerpt(*HALVES, *PIECES[1:], gap_at=2, gap_bytes=1_000_000)
    await take(kit, replace(WHOLE, excerpt=kept))
    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)

    other = Kit()
    await other.ledger.reserve(ticket().hold)
    kept = excerpt(
        *HALVES, *HALVES, whole=False, gap_at=2, gap_bytes=10 * len(HALVES[0])
    )
    await take(other, replace(HALF, excerpt=kept))
    [asked] = other.counter.asked
    assert asked[0] == ("Hel", "lo", "Hel", "lo")
    assert isinstance(asked[3], int)
    assert asked[3] > 20


async def test_texts_that_were_left_out(kit: Kit) -> None:
    """They count by their size."""
    unit = Unit(delta("Hello"), elided_bytes=500)
    kept = replace(excerpt(b"", whole=False), units=(unit,), seen_bytes=700)
    await take(kit, replace(HALF, body_bytes=700, excerpt=kept))

    [asked] = kit.counter.asked
    assert (asked[0], asked[3]) == (("Hello",), 500)


async def test_nothing_was_kept(kit: Kit) -> None:
    """An answer that nobody could read is charged by its size."""
    kept = excerpt(whole=False, seen_bytes=0)
    for passage in (replace(HALF, body_bytes=120, excerpt=kept),):
        await take(kit, passage)

    [settlement] = kit.ledger.settlements
    assert settlement.source is Source.ESTIMATED
    assert settlement.usage.output_tokens == 30


async def test_an_answer_that_is_not_read(kit: Kit) -> None:
    """Of one the script may note nothing; its end is clean if all of it went to the app."""
    of = replace(ticket(), dialect="")
    passage = replace(WHOLE, ticket=of, excerpt=None)
    await take(kit, passage)
    [settlement] = kit.ledger.settlements
    assert settlement.outcome is Outcome.COMPLETED

    other = Kit()
    await take(other, replace(passage, ended=False))
    [settlement] = other.ledger.settlements
    assert settlement.outcome is Outcome.CUT


async def test_a_script_that_broke(kit: Kit) -> None:
    """That is told once the exchange is over; what is reported counts all the same."""
    broken = replace(GOES_ON, excerpt=excerpt(*HALVES, whole=False, fault=True))
    await take(kit, broken, replace(broken, over=True))

    assert [where for where, _ in kit.recorder.faults] == ["watch"]
    [settlement] = kit.ledger.settlements
    assert settlement.source is Source.ESTIMATED


async def test_left_before_any_answer(kit: Kit) -> None:
    """Once it was sent, the input is owed."""
    await take(kit, replace(WAITS, over=True))

    [settlement] = kit.ledger.settlements
    assert settlement.outcome is Outcome.CUT
    assert settlement.usage.output_tokens == 0
    assert settlement.usage.input_tokens == ticket().owed_input


async def test_left_before_it_was_sent(kit: Kit) -> None:
    """Nothing is owed: the hold is given back, and the exchange told as abandoned."""
    await take(kit, replace(WAITS, over=True, sent=False))

    assert kit.ledger.settlements == []
    assert await kit.ledger.reserved() == {}
    [details] = kit.recorder.exchanges
    assert details.settlement is None
    assert details.rejection is None
    assert kit.services.natives.size == 0


async def test_an_app_that_left_as_it_was_admitted(kit: Kit) -> None:
    """What it held is given back, unless there is a sign that it went on."""
    subject = replace(ticket().hold.subject, request_id="r-1")
    hold = replace(ticket().hold, subject=subject)
    details = kit_details(hold.id)
    driver = NativeDriver(kit.services)
    kit.services.natives.expect(Offer(hold, details))
    driver.never_left("r-2")
    driver.never_left("r-1")
    await kit.quiet()
    assert await kit.ledger.reserved() == {}
    assert kit.recorder.exchanges == [details]

    other = Kit()
    await other.ledger.reserve(hold)
    await other.ledger.extend(hold, 0)
    other.services.natives.expect(Offer(hold, details))
    NativeDriver(other.services).never_left("r-1")
    await other.quiet()
    assert await other.ledger.reserved() != {}
    assert other.recorder.exchanges == []


async def test_refused_by_the_provider(kit: Kit) -> None:
    """No token is owed."""
    head = replace(HEAD, status=429)
    await take(kit, replace(WHOLE, head=head, excerpt=None))

    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage()
    assert settlement.outcome is Outcome.UPSTREAM_FAILED


async def test_it_goes_on(kit: Kit) -> None:
    """Its hold is renewed, with what was generated so far."""
    await take(kit, WAITS, GOES_ON)

    assert kit.ledger.count("extend") == 2
    assert kit.ledger.settlements == []
    assert kit.services.natives.size == 1


async def test_over_before_its_connection(kit: Kit) -> None:
    """
    A stream that has told all is settled at once, though both sides stay; what is told of
    it after that changes nothing.
    """
    early = replace(
        WHOLE, over=False, ended=False, excerpt=excerpt(*PIECES, whole=False)
    )
    await take(kit, early, early, WHOLE)

    assert len(kit.ledger.settlements) == 1
    assert len(kit.recorder.exchanges) == 1
    assert len(kit.lessons.heard) <= 1


async def test_told_to_another_process(kit: Kit) -> None:
    """Who knows nothing of it settles it just so; the ledger takes it once."""
    await take(kit, GOES_ON)
    other = Kit()
    services = replace(other.services, ledger=kit.ledger)
    NativeDriver(services).take(WHOLE)
    await other.quiet()
    await take(kit, WHOLE)

    assert await kit.ledger.reserved() == {}
    first, second = kit.ledger.settlements
    assert first == second


async def test_after_the_reaper(kit: Kit) -> None:
    """An end that is told late corrects what was taken for lost."""
    kit.now_ms += 60_000
    assert await kit.ledger.store.sweep(all_tags()) > 0
    await take(kit, WHOLE)

    assert await kit.ledger.reserved() == {}
    assert len(kit.ledger.settlements) == 1


async def test_a_drain(kit: Kit) -> None:
    """What goes on is settled for what has passed; what was not heard of is left."""
    other = replace(ticket().hold, id="unheard")
    kit.services.natives.expect(Offer(other, kit_details("unheard")))
    driver = NativeDriver(kit.services)
    driver.take(GOES_ON)
    driver.drain()
    await kit.quiet()

    [settlement] = kit.ledger.settlements
    assert settlement.outcome is Outcome.DRAINED
    assert settlement.usage.output_tokens == 30
    assert await kit.ledger.reserved() == {}


async def test_a_drain_while_an_end_is_counted(kit: Kit) -> None:
    """An exchange whose end was told is settled for that."""
    gate = Gate()
    kit.counter.point = gate
    driver = NativeDriver(kit.services)
    driver.take(HALF)
    driver.drain()
    gate.opened.set()
    await kit.quiet()

    [settlement] = kit.ledger.settlements
    assert settlement.outcome is Outcome.CUT


async def test_encoded(kit: Kit) -> None:
    """What becomes much is read in steps, and settled by its report."""
    text = b"".join(delta("word " * 20) for _ in range(3_000)) + BODY
    head = replace(HEAD, headers=(*STREAM, ("content-encoding", "gzip")))
    await take(kit, replace(WHOLE, head=head, excerpt=excerpt(gzip.compress(text))))

    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)


async def test_a_reader_that_breaks(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is told, and the exchange is charged by its size."""

    def feed(self: ResponseReader, data: bytes) -> None:
        del self, data
        raise RuntimeError("broken")

    monkeypatch.setattr(ResponseReader, "feed", feed)
    await take(kit, replace(WHOLE, body_bytes=400))

    [settlement] = kit.ledger.settlements
    assert settlement.source is Source.ESTIMATED
    assert settlement.usage.output_tokens > 0
    assert {where for where, _ in kit.recorder.faults} == {"response"}


async def test_a_fault(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be settled is told, and left to the reaper; others are not touched."""

    def end(self: ResponseReader) -> None:
        del self
        raise RuntimeError("broken")

    monkeypatch.setattr(ResponseReader, "end", end)
    await take(kit, WHOLE)

    assert kit.ledger.settlements == []
    assert [where for where, _ in kit.recorder.faults] == ["access_log"]


async def test_a_count_that_breaks(kit: Kit) -> None:
    """What passed is charged by its size."""
    kit.counter.point = raising(RuntimeError("broken"))
    await take(kit, HALF)

    [settlement] = kit.ledger.settlements
    assert settlement.source is Source.ESTIMATED
    assert kit.services.natives.size == 0


def long_stream(*, reports: bool = True) -> Passage:
    """Return the end of a long answer, most of whose units differ in their texts only."""
    pieces = (*(delta("word ") for _ in range(100)), FINISH)
    pieces += (USAGE_EVENT, DONE) if reports else (DONE,)
    kept = excerpt(*pieces)
    units = [
        unit._replace(routine=0 < number < 100)
        for number, unit in enumerate(kept.units)
    ]
    return replace(
        WHOLE,
        body_bytes=kept.seen_bytes,
        excerpt=replace(kept, units=tuple(units)),
    )


@pytest.mark.parametrize("one_in", [1, 1 << 40])
async def test_long_answers(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, one_in: int
) -> None:
    """Few of their units tell what is charged; the texts teach, so some are read whole."""
    monkeypatch.setattr(module, "_TAUGHT_BY", one_in)
    fed: list[bytes] = []
    feed = ResponseReader.feed

    def spy(self: ResponseReader, data: bytes) -> None:
        fed.append(data)
        feed(self, data)

    monkeypatch.setattr(ResponseReader, "feed", spy)
    await take(kit, long_stream())

    [settlement] = kit.ledger.settlements
    assert settlement.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert settlement.first_token_ms == NOW_MS + 300 - ticket().started_ms
    is_all = one_in == 1
    assert len(fed) == (103 if is_all else 5)
    taught = [lesson for lesson in kit.lessons.heard if lesson.texts]
    assert bool(taught) is is_all


async def test_long_answers_without_a_report(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their texts are charged, so all are read."""
    monkeypatch.setattr(module, "_TAUGHT_BY", 1 << 40)
    await take(kit, long_stream(reports=False))

    [asked] = kit.counter.asked
    assert asked[0] == ("word ",) * 100
    assert asked[3] == 0
