"""What may be forgotten is told again, and not for ever."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.ledger.builders import (
    START_MS,
    TAG,
    Recorder,
    concurrency,
    hold,
    level_of,
    reserved_of,
    tokens,
    used,
)
from tests.ledger.builders import Clock as LedgerClock
from tests.ledger.conftest import PATIENCE
from tests.ledger.test_spool import FlakyLedger
from tests.pod import until
from tests.servers import Server, start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ledger import remembered, spool
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.remembered import KEPT_SECONDS, Remembered
from tokenweir.ledger.spool import SpooledLedger
from tokenweir.ledger.tagged import TaggedLedger

LIMITS = (tokens(100_000, 1), concurrency(100))


@dataclass
class Clock:
    """What time it is."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return it."""
        return self.now


def test_the_last_seconds_are_kept() -> None:
    """What is older goes when something is added."""
    clock = Clock()
    kept: Remembered[int] = Remembered(clock)
    for number in range(5):
        clock.now = number * KEPT_SECONDS / 2
        kept.add(number)

    assert kept.take() == [2, 3, 4]


def test_an_outage_makes_nothing_old() -> None:
    """Whatever was taken before it is told after it."""
    clock = Clock()
    kept: Remembered[int] = Remembered(clock)
    kept.add(1)
    clock.now = 100 * KEPT_SECONDS

    assert kept.take() == [1]


def test_what_is_taken_is_given_away() -> None:
    """Whoever has it adds it again, if it may be forgotten again."""
    kept: Remembered[int] = Remembered(Clock())
    kept.add(1)

    assert kept.take() == [1]
    assert kept.take() == []


def test_the_number_is_bounded() -> None:
    """The newest are kept."""
    kept: Remembered[int] = Remembered(Clock())
    for number in range(remembered.MOST + 2):
        kept.add(number)

    found = kept.take()
    assert (found[0], found[-1], len(found)) == (2, 5_001, remembered.MOST)


# === a ledger that may have forgotten ===========================================


class Lineage:
    """
    A ledger that is what it was, unless it has begun anew.

    Attributes:
        has_begun_anew: Whether it has.
    """

    has_begun_anew = False

    def epochs(self, tags: Iterable[str]) -> Mapping[str, str]:
        """See `tokenweir.ledger.spool.Lineage`."""
        return dict.fromkeys(tags, "1")

    async def stands(self, epochs: Mapping[str, str]) -> bool:
        """See `tokenweir.ledger.spool.Lineage`."""
        return bool(epochs) and not self.has_begun_anew


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests have no time for real pauses."""
    monkeypatch.setattr(spool, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(spool, "LONGEST_PAUSE_SECONDS", 0.004)


async def test_what_was_taken_is_said_again(events: Recorder) -> None:
    """Settles and cancels are, in their order; an extend is not, and nothing waits."""
    flaky = FlakyLedger()
    spooled = SpooledLedger(flaky, events, lineage=Lineage())
    await spooled.settle(hold(1), used(1, 9))
    await spooled.extend(hold(2), 5)
    await spooled.cancel(hold(2), unclaimed_only=True)
    said = [each for each in flaky.took if not each.startswith("extend")]
    flaky.took.clear()
    spooled.repeat()
    assert await spooled.flush(PATIENCE) == 0

    assert flaky.took == said
    assert events.spooled == []
    await spooled.close()


async def test_what_is_said_again_keeps_nobody_waiting(events: Recorder) -> None:
    """It waits while the ledger is away, behind what was never taken, and is not lost."""
    flaky = FlakyLedger()
    spooled = SpooledLedger(flaky, events, lineage=Lineage())
    for number in range(3):
        await spooled.settle(hold(number), used(1, number))
    flaky.took.clear()
    flaky.is_away = True
    spooled.repeat()
    await spooled.settle(hold(9), used(1, 9))
    flaky.refuses = {hold(1).id}
    spooled.repeat()
    flaky.is_away = False
    assert await spooled.flush(PATIENCE) == 0

    # What is refused was taken before: it is no debt that would have to be kept.
    told = [9, 0, 2]
    assert flaky.took == [f"settle {hold(number).id} {number}" for number in told]
    await spooled.close()


async def test_what_is_being_taken_meanwhile_is_said_again(events: Recorder) -> None:
    """Who takes it may be a server that is none any more, when that is found out."""
    flaky = FlakyLedger()
    spooled = SpooledLedger(flaky, events, lineage=Lineage())
    flaky.gate.clear()
    settling = asyncio.create_task(spooled.settle(hold(1), used(1, 9)))
    await flaky.asked.wait()
    spooled.repeat()
    flaky.gate.set()
    await settling
    assert await spooled.flush(PATIENCE) == 0

    assert flaky.took == [f"settle {hold(1).id} 9"] * 2
    await spooled.close()


async def test_what_was_said_again_to_a_former_server_is_once_more(
    events: Recorder,
) -> None:
    """A repetition that is under way while servers change counts for nothing."""
    flaky = FlakyLedger()
    spooled = SpooledLedger(flaky, events, lineage=Lineage())
    await spooled.settle(hold(1), used(1, 9))
    flaky.gate.clear()
    flaky.asked.clear()
    spooled.repeat()
    await flaky.asked.wait()
    spooled.repeat()
    flaky.gate.set()
    assert await spooled.flush(PATIENCE) == 0

    assert flaky.took == [f"settle {hold(1).id} 9"] * 3
    await spooled.close()


async def test_each_server_that_takes_over_is_told(
    events: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What was said again is kept anew: Sentinels may go back to the former primary before
    it has heard of what the latter was told.
    """
    clock = Clock()
    monkeypatch.setattr(spool, "Remembered", partial(Remembered, clock))
    flaky = FlakyLedger()
    spooled = SpooledLedger(flaky, events, lineage=Lineage())
    await spooled.settle(hold(1), used(1, 9))
    for _ in range(3):
        clock.now += KEPT_SECONDS * 0.9
        await spooled.settle(hold(2), used(1, 9))
        flaky.took.clear()
        spooled.repeat()
        assert await spooled.flush(PATIENCE) == 0
        assert f"settle {hold(1).id} 9" in flaky.took

    clock.now += KEPT_SECONDS * 1.1
    await spooled.settle(hold(2), used(1, 9))
    flaky.took.clear()
    spooled.repeat()
    assert await spooled.flush(PATIENCE) == 0
    assert flaky.took == [f"settle {hold(2).id} 9"]
    await spooled.close()


async def test_without_anything_taken_there_is_nothing_to_do(events: Recorder) -> None:
    """A processor that has just started repeats nothing."""
    flaky = FlakyLedger()
    spooled = SpooledLedger(flaky, events, lineage=Lineage())
    spooled.repeat()

    assert await spooled.flush(0) == 0
    assert flaky.tries == 0
    await spooled.close()


async def test_an_emptied_ledger_is_told_nothing(events: Recorder) -> None:
    """It has forgotten all, and the last seconds of it are nothing to begin with."""
    flaky, lineage = FlakyLedger(), Lineage()
    spooled = SpooledLedger(flaky, events, lineage=lineage)
    await spooled.settle(hold(1), used(1, 9))
    flaky.took.clear()
    lineage.has_begun_anew = True
    spooled.repeat()

    assert await spooled.flush(PATIENCE) == 0
    assert flaky.took == []
    await spooled.close()


async def test_a_tag_begins_anew_with_its_epoch(
    valkey: Server, events: Recorder
) -> None:
    """Its epoch is told by reserves and settles; one that was emptied has another."""
    store = RedisStore(valkey.url, events, deadline_seconds=PATIENCE)
    ledger = TaggedLedger(store)
    assert not await store.stands(store.epochs([TAG]))
    for end in (ledger.reserve(hold(1)), ledger.settle(hold(2), used(1, 1))):
        with redis.Redis.from_url(valkey.url) as client:
            client.flushall()
        await end
        epochs = store.epochs([TAG])
        assert await store.stands(epochs)
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()

    assert not await store.stands(epochs)
    await store.close()


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[Server]:
    """A server that finds again what it saved."""
    server = start_valkey(tmp_path, "--dir", str(tmp_path))
    yield server
    server.stop()


async def test_a_server_that_was_set_back_is_told_again(
    saved: Server, events: Recorder
) -> None:
    """
    What it had answered, and has forgotten, is charged as if nothing had been; what it
    has not forgotten is not charged twice. No hold of before is left.
    """
    clock = LedgerClock()
    store = RedisStore(saved.url, events, deadline_seconds=PATIENCE, now_ms=clock)
    ledger = SpooledLedger(TaggedLedger(store), events, lineage=store)
    store.link.when_back(ledger.repeat)
    kept, held, unheard, undone = (hold(number, *LIMITS) for number in range(4))
    await ledger.reserve(kept)
    await ledger.reserve(held)
    await ledger.reserve(undone)
    await ledger.settle(kept, used(1, 1))
    with redis.Redis.from_url(saved.url) as client:
        client.save()
    await ledger.settle(held, used(40, 20))
    await ledger.cancel(undone)
    await ledger.reserve(unheard)
    await ledger.settle(unheard, used(30, 10))
    saved.restart()

    # Nothing but a look: as a sweeper makes of any ledger, every few seconds.
    with contextlib.suppress(LedgerUnavailableError):
        await store.lead("me", 1_000)
    await until(lambda: is_told(store, 3))
    assert await ledger.flush(PATIENCE) == 0
    snapshot = await store.snapshot(TAG)
    assert [record["output_tokens"] for record in snapshot.records] == ["1", "20", "10"]
    assert level_of(snapshot, LIMITS[0], START_MS) == 100_000 - 2 - 60 - 40
    assert [reserved_of(snapshot, limit) for limit in LIMITS] == [0, 0]
    assert snapshot.expiries == {}
    assert events.faults == []
    await ledger.close()


async def is_told(store: RedisStore, records: int) -> bool:
    """Tell if there are so many records."""
    with contextlib.suppress(LedgerUnavailableError):
        return len((await store.snapshot(TAG)).records) >= records
    return False
