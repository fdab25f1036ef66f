"""Every record reaches the sink, whatever is away, and whoever is killed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from functools import partial

import pytest
import redis

from tests.export.ledgers import (
    GROUP,
    PATIENCE,
    TENANTS,
    MemorySink,
    Told,
    export_once,
    exporter,
    pending,
    put,
    until,
)
from tests.ledger_view import Silent
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import (
    Amounts,
    Granted,
    Hold,
    Outcome,
    Part,
    Settlement,
    Subject,
)
from tokenweir.core.partition import tag_of
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.export.exporter import ExportSettings
from tokenweir.export.sink import SinkUnavailableError, SinkUnusableError
from tokenweir.export.streams import Streams
from tokenweir.ledger.keys import records
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

HOLDS = [f"h{number:04}" for number in range(500)]
AWAY = SinkUnavailableError("is away")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for less than in earnest."""
    monkeypatch.setattr("tokenweir.export.exporter.FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr("tokenweir.export.exporter.POLL_SECONDS", 0.02)


async def test_once(valkey: Server) -> None:
    """What is there is exported, each once, in bounded batches, and acknowledged."""
    put(valkey.url, HOLDS)
    sink, told = MemorySink(), Told()
    assert await export_once(
        valkey.url, sink, told, ExportSettings(batch_rows=100, once=True)
    )

    assert sorted(sink.holds) == HOLDS
    assert sink.largest <= 100
    assert sink.closed
    assert pending(valkey.url) == 0
    assert told.metric("records_total") == 500
    assert told.metric("last_success_timestamp_seconds") > 0
    assert await export_once(valkey.url, sink)
    assert len(sink.holds) == 500


async def test_nothing_to_export(valkey: Server) -> None:
    """An empty ledger is no error, and the sink is not written to."""
    sink = MemorySink()
    assert await export_once(valkey.url, sink)
    assert (sink.opened, sink.largest) == (1, 0)


async def test_a_busy_tenant(valkey: Server) -> None:
    """One stream that is far longer than a batch is drained as well."""
    with redis.Redis.from_url(valkey.url) as client:
        key = records(tag_of(TENANTS[0]))
        for _ in range(3_000):
            client.xadd(key, {"junk": "1"})
    put(valkey.url, HOLDS[:10])
    sink = MemorySink()
    settings = ExportSettings(batch_rows=100, once=True)
    assert await export_once(valkey.url, sink, None, settings)

    assert len(sink.bad) == 3_000
    assert sorted(sink.holds) == HOLDS[:10]


async def test_continuous(valkey: Server) -> None:
    """It goes on until it is stopped, and then exports what is in hand."""
    put(valkey.url, HOLDS[:5])
    sink, told = MemorySink(), Told()
    settings = ExportSettings(interval_seconds=3_600)
    made, streams = exporter(valkey.url, sink, told, settings)
    running = asyncio.create_task(made.run())
    await until(lambda: pending(valkey.url) == 5)
    put(valkey.url, HOLDS[5:9])
    await until(lambda: pending(valkey.url) == 9)
    assert sink.holds == []
    made.stop()

    assert await running
    assert sorted(sink.holds) == HOLDS[:9]
    assert pending(valkey.url) == 0
    await streams.close()


async def test_no_record_waits_for_long(valkey: Server) -> None:
    """A record is written after the interval, however few there are."""
    sink, told = MemorySink(), Told()
    settings = ExportSettings(interval_seconds=0.05)
    made, streams = exporter(valkey.url, sink, told, settings)
    running = asyncio.create_task(made.run())
    for number in range(3):
        put(valkey.url, [HOLDS[number]])
        await until(partial(_has, sink, number + 1))
    made.stop()
    assert await running
    await streams.close()


async def test_a_sink_that_is_away(valkey: Server) -> None:
    """A sink's outage costs no record and one line; its return is told as well."""
    put(valkey.url, HOLDS[:20])
    sink, told = MemorySink(failures=[AWAY, AWAY, AWAY]), Told()
    settings = ExportSettings(interval_seconds=0.05)
    made, streams = exporter(valkey.url, sink, told, settings)
    running = asyncio.create_task(made.run())
    await until(lambda: pending(valkey.url) == 0 and sink.rows)
    made.stop()
    assert await running
    await streams.close()

    assert sorted(sink.holds) == HOLDS[:20]
    assert told.metric("failures_total", where="sink") == 3
    assert told.events() == ["export_waiting", "export_resumed"]
    line = told.lines()[0]
    assert (line["where"], line["reason"]) == ("sink", "is away")


async def test_waits_grow(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """While something is away it is asked less and less often."""
    put(valkey.url, HOLDS[:1])
    sink, told = MemorySink(failures=[AWAY] * 6), Told()
    settings = ExportSettings(interval_seconds=0)
    made, streams = exporter(valkey.url, sink, told, settings)
    waits: list[float] = []

    async def rest(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 6:
            made.stop()

    monkeypatch.setattr("tokenweir.export.exporter.LONGEST_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(made, "_rest", rest)
    assert not await made.run()
    await streams.close()

    assert waits == [0.01, 0.02, 0.04, 0.08, 0.1, 0.1]
    assert pending(valkey.url) == 1


async def test_once_does_not_wait_for_ever(valkey: Server) -> None:
    """A run that has to end gives up after a few tries, and loses nothing."""
    put(valkey.url, HOLDS[:3])
    sink = MemorySink(failures=[AWAY] * 4)
    with pytest.raises(SinkUnavailableError):
        await export_once(valkey.url, sink)
    assert sink.closed
    assert pending(valkey.url) == 3
    assert await export_once(valkey.url, sink)
    assert sorted(sink.holds) == HOLDS[:3]


async def test_a_sink_that_somebody_has_to_mend(valkey: Server) -> None:
    """What waiting does not mend ends the exporter; the records stay."""
    put(valkey.url, HOLDS[:3])
    sink = MemorySink(failures=[SinkUnusableError("mend it")])
    with pytest.raises(SinkUnusableError, match="mend it"):
        await export_once(valkey.url, sink, None, ExportSettings())
    assert pending(valkey.url) == 3


async def test_a_ledger_that_is_away(own_server: Server) -> None:
    """A ledger that dies is waited for; one that comes back empty is read anew."""
    put(own_server.url, HOLDS[:5])
    sink, told = MemorySink(), Told()
    settings = ExportSettings(interval_seconds=0.05)
    made, streams = exporter(own_server.url, sink, told, settings)
    running = asyncio.create_task(made.run())
    await until(lambda: len(sink.rows) == 5 and pending(own_server.url) == 0)
    own_server.stop()
    await until(lambda: told.metric("failures_total", where="ledger") >= 2)
    own_server.restart()
    put(own_server.url, HOLDS[5:9])
    await until(lambda: len(sink.rows) == 9)
    made.stop()
    await running
    await streams.close()

    assert sorted(sink.holds) == HOLDS[:9]
    assert told.events() == ["export_waiting", "export_resumed"]
    assert told.lines()[0]["where"] == "ledger"


async def test_once_without_a_ledger(own_server: Server) -> None:
    """A run that has to end tells that there is no ledger."""
    own_server.stop()
    with pytest.raises(LedgerUnavailableError):
        await export_once(own_server.url, MemorySink())


async def test_an_acknowledgement_that_is_lost(
    valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written, and could not be acknowledged, is written again."""
    put(valkey.url, HOLDS[:5])
    sink, told = MemorySink(), Told()
    made, streams = exporter(valkey.url, sink, told)
    acknowledge = streams.acknowledge
    failures = [LedgerUnavailableError("TimeoutError")]

    async def failing(deliveries: list[tuple[str, str]]) -> None:
        if failures:
            raise failures.pop()
        await acknowledge(deliveries)

    monkeypatch.setattr(streams, "acknowledge", failing)
    assert await made.run()
    await streams.close()

    assert Counter(sink.holds) == dict.fromkeys(HOLDS[:5], 2)
    assert told.metric("records_total") == 5
    assert pending(valkey.url) == 0


async def test_a_dead_exporter(valkey: Server) -> None:
    """What another one had in hand when it was killed is taken over, in time."""
    put(valkey.url, HOLDS)
    dead = Streams(valkey.url, GROUP, "dead")
    await dead.join()
    await dead.new(dead.joined, 30)
    await dead.close()
    sink = MemorySink()
    settings = ExportSettings(once=True, abandoned_seconds=3_600)
    assert await export_once(valkey.url, sink, None, settings)
    assert len(sink.rows) == 500 - 30 * len(TENANTS)
    settings = ExportSettings(once=True, abandoned_seconds=0)
    assert await export_once(valkey.url, sink, None, settings)

    assert sorted(sink.holds) == HOLDS


async def test_an_exporter_that_comes_back(valkey: Server) -> None:
    """Under its old name it gets what it had in hand at once."""
    put(valkey.url, HOLDS)
    dead = Streams(valkey.url, GROUP, "c")
    await dead.join()
    await dead.new(dead.joined, 30)
    await dead.close()
    sink = MemorySink()
    settings = ExportSettings(batch_rows=40, once=True)
    assert await export_once(valkey.url, sink, None, settings, consumer="c")

    assert sorted(sink.holds) == HOLDS


async def test_stopped_while_it_recovers(valkey: Server) -> None:
    """Who is stopped before all of the old is exported leaves it for others."""
    put(valkey.url, HOLDS)
    dead = Streams(valkey.url, GROUP, "c")
    await dead.join()
    await dead.new(dead.joined, 100)
    await dead.close()
    told = Told()
    sink = MemorySink()
    made, streams = exporter(valkey.url, sink, told, ExportSettings(batch_rows=20))
    sink.on_write = made.stop
    assert not await made.run()
    await streams.close()

    assert 0 < len(sink.rows) < 500
    assert pending(valkey.url) == 500 - len(sink.rows)


async def test_stopped_when_it_has_recovered(valkey: Server) -> None:
    """Who is stopped after the last of the old has nothing left in hand, and says so."""
    put(valkey.url, HOLDS[:20])
    dead = Streams(valkey.url, GROUP, "c")
    await dead.join()
    await dead.new(dead.joined, 20)
    await dead.close()
    sink = MemorySink()
    made, streams = exporter(valkey.url, sink, Told(), ExportSettings())
    sink.on_write = made.stop
    assert await made.run()
    await streams.close()

    assert sorted(sink.holds) == HOLDS[:20]
    assert pending(valkey.url) == 0


async def test_two_exporters(valkey: Server) -> None:
    """Two of one group share the records: none is lost, and none is written twice."""
    put(valkey.url, HOLDS)
    # Neither begins before the other is there, or there might be nothing left for it.
    both = threading.Barrier(2)
    sinks = [MemorySink(on_open=partial(both.wait, PATIENCE)) for _ in range(2)]
    settings = ExportSettings(batch_rows=20, once=True, abandoned_seconds=3_600)
    await asyncio.gather(
        *(
            export_once(valkey.url, sink, None, settings, consumer=f"c{number}")
            for number, sink in enumerate(sinks)
        )
    )

    assert sorted(sinks[0].holds + sinks[1].holds) == HOLDS
    assert sinks[0].rows
    assert sinks[1].rows


async def test_garbage(valkey: Server) -> None:
    """An entry that is no record stops nothing, and is told in three places."""
    with redis.Redis.from_url(valkey.url) as client:
        client.xadd(records(tag_of(TENANTS[1])), {"tenant": "CANARY"})
    put(valkey.url, HOLDS[:7])
    put(valkey.url, ["bad"], cost_nanousd="-1")
    sink, told = MemorySink(), Told()
    assert await export_once(valkey.url, sink, told)

    assert sorted(sink.holds) == HOLDS[:7]
    assert {bad.problem for bad in sink.bad} == {
        "it lacks hold",
        "cost_nanousd has no such value",
    }
    assert told.metric("dead_letters_total") == 2
    assert told.events() == ["dead_letter", "dead_letter"]
    assert "CANARY" not in told.stream.getvalue()


async def test_what_has_expired(valkey: Server) -> None:
    """Records that expired before they were exported are counted, and told."""
    put(valkey.url, HOLDS)
    assert await export_once(valkey.url, MemorySink())
    put(valkey.url, HOLDS)
    with redis.Redis.from_url(valkey.url) as client:
        for tenant in TENANTS:
            client.xtrim(records(tag_of(tenant)), maxlen=10, approximate=False)
    sink, told = MemorySink(), Told()
    assert await export_once(valkey.url, sink, told)

    assert len(sink.rows) == 10 * len(TENANTS)
    assert told.metric("expired_total") == 500 - 10 * len(TENANTS)
    assert told.events() == ["export_expired"]


async def test_what_the_ledger_writes(valkey: Server) -> None:
    """Real records are read: of a settled exchange, of a lost one and its correction."""
    store = RedisStore(valkey.url, Silent(), deadline_seconds=PATIENCE, hold_ms=1)
    ledger = TaggedLedger(store)
    subject = Subject("acme", "ci", "ann", "chat_completions", "gpt-4o", "openai")
    holds = [
        Hold(f"0-0-{name}", (Part(tag_of("acme"), ()),), Amounts(1, 40, 60), subject)
        for name in ("late", "lost", "settled")
    ]
    for made in holds:
        assert isinstance(await ledger.reserve(made), Granted)
    usage = TokenUsage(40, output_tokens=50)
    settlement = Settlement(usage, Source.REPORTED, Outcome.COMPLETED)
    await ledger.settle(holds[2], settlement)
    deadline = time.monotonic() + PATIENCE
    # Each ends a millisecond after it was made, and whoever calls next charges it.
    while await store.holdings([tag_of("acme")]):
        assert time.monotonic() < deadline
        await store.sweep([tag_of("acme")])
    await ledger.settle(holds[0], settlement)
    await store.close()
    sink = MemorySink()
    assert await export_once(valkey.url, sink)

    assert sink.bad == []
    found = {(row.hold, row.fields["correction"]): row for row in sink.rows}
    assert set(found) == {
        ("0-0-settled", "0"),
        ("0-0-late", "0"),
        ("0-0-lost", "0"),
        ("0-0-late", "1"),
    }
    lost, late = found["0-0-late", "0"], found["0-0-late", "1"]
    assert lost.fields["outcome"] == "lost"
    assert late.fields["output_tokens"] == 50
    assert late.entry > lost.entry
    assert {tuple(row.extra) for row in sink.rows} == {()}


async def test_from_the_start(valkey: Server) -> None:
    """What was exported before is exported once more, if that is asked for."""
    put(valkey.url, HOLDS)
    sink = MemorySink()
    assert await export_once(valkey.url, sink)
    settings = ExportSettings(once=True, from_start=True)
    assert await export_once(valkey.url, sink, None, settings)

    assert Counter(sink.holds) == dict.fromkeys(HOLDS, 2)


@pytest.mark.parametrize("leaves", [True, False])
async def test_names(valkey: Server, client: redis.Redis, leaves: bool) -> None:
    """A consumer whose name nobody will use again takes it along."""
    put(valkey.url, HOLDS[:7])
    settings = ExportSettings(once=True, leaves=leaves)
    assert await export_once(valkey.url, MemorySink(), None, settings)

    found = client.xinfo_consumers(records(tag_of(TENANTS[0])), GROUP)
    assert len(found) == (0 if leaves else 1)


def _has(sink: MemorySink, rows: int) -> bool:
    return len(sink.rows) == rows


def test_patience_with_others() -> None:
    """What a live exporter may hold in hand is not taken from it."""
    assert ExportSettings(interval_seconds=300).abandoned_ms == 660_000
    assert ExportSettings(abandoned_seconds=1.5).abandoned_ms == 1_500
