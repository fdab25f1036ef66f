"""What happens to settles while the ledger is away."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.ledger.builders import Recorder, hold, tokens, used
from tests.ledger.conftest import PATIENCE
from tests.pod import until
from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.core.hold import Denied, Granted, Hold, Settlement
from tokenweir.ledger import spool
from tokenweir.ledger.spool import SpooledLedger, SpoolOverflowError

TPM = tokens(100)


@dataclass
class FlakyLedger:
    """
    Takes what it is told, unless it is away.

    Attributes:
        is_away: No answer to anything.
        bug: Raised instead of anything else.
        refuses: Ids of holds that it can do nothing about.
        took: What it took, the oldest first.
        tries: How often it was asked for anything.
        gate: Every call waits for it.
        asked: Set at every try.
    """

    is_away: bool = False
    bug: Exception | None = None
    refuses: set[str] = field(default_factory=set)
    took: list[str] = field(default_factory=list)
    tries: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def reserve(self, made: Hold) -> Granted | Denied:
        """Grant."""
        await self.take(f"reserve {made.id}")
        return Granted("7")

    async def extend(self, made: Hold, output_tokens: int) -> None:
        """Take note."""
        await self.take(f"extend {made.id} {output_tokens}")

    async def settle(self, made: Hold, settlement: Settlement) -> None:
        """Take note."""
        await self.take(f"settle {made.id} {settlement.usage.output_tokens}")

    async def cancel(self, made: Hold, *, unclaimed_only: bool = False) -> bool:
        """Take note; a hold is somebody's if it has to be unclaimed."""
        await self.take(f"cancel {made.id} {unclaimed_only}")
        return not unclaimed_only

    async def epoch(self) -> str:
        """The epoch."""
        return "7"

    async def ping(self) -> None:
        """Answer."""
        await self.take("ping")

    async def close(self) -> None:
        """Close."""
        self.took.append("close")

    async def take(self, what: str) -> None:
        """Take *what*, or fail."""
        self.tries += 1
        self.asked.set()
        await self.gate.wait()
        if self.bug is not None:
            raise self.bug
        if self.is_away:
            raise LedgerUnavailableError("away")
        if self.refuses.intersection(what.split()):
            raise LedgerRefusedError("garbage")
        self.took.append(what)

    async def tried(self, times: int) -> None:
        """Wait until it was asked so often."""
        while self.tries < times:
            self.asked.clear()
            await self.asked.wait()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests have no time for real pauses."""
    monkeypatch.setattr(spool, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(spool, "LONGEST_PAUSE_SECONDS", 0.004)


@pytest.fixture
def flaky() -> FlakyLedger:
    """A ledger that answers."""
    return FlakyLedger()


@pytest.fixture
def spooled(flaky: FlakyLedger, events: Recorder) -> SpooledLedger:
    """A spool before it."""
    return SpooledLedger(flaky, events, max_waiting=5)


async def test_nothing_waits_while_the_ledger_answers(
    spooled: SpooledLedger, flaky: FlakyLedger, events: Recorder
) -> None:
    """
    Everything is passed on, and answers come back.
    """
    assert await spooled.reserve(hold(1)) == Granted("7")
    await spooled.extend(hold(1), 5)
    await spooled.settle(hold(1), used(1, 9))
    assert not await spooled.cancel(hold(2), unclaimed_only=True)
    assert await spooled.cancel(hold(3))
    await spooled.ping()
    assert await spooled.epoch() == "7"
    assert await spooled.flush(1) == 0
    await spooled.close()

    one, two, three = hold(1).id, hold(2).id, hold(3).id
    assert flaky.took == [
        f"reserve {one}",
        f"extend {one} 5",
        f"settle {one} 9",
        f"cancel {two} True",
        f"cancel {three} False",
        "ping",
        "close",
    ]
    assert events.spooled == []


async def test_settles_and_cancels_wait_in_order(
    spooled: SpooledLedger, flaky: FlakyLedger, events: Recorder
) -> None:
    """
    When the ledger answers again each is told once, the oldest first.
    """
    flaky.is_away = True
    await spooled.settle(hold(1), used(1, 9))
    assert not await spooled.cancel(hold(2))  # nobody knows yet
    await spooled.settle(hold(3), used(1, 7))
    assert events.spooled == [1, 2, 3]
    flaky.is_away = False
    assert await spooled.flush(30) == 0

    assert flaky.took == [
        f"settle {hold(1).id} 9",
        f"cancel {hold(2).id} False",
        f"settle {hold(3).id} 7",
    ]
    assert events.spooled == [1, 2, 3, 2, 1, 0]


async def test_nobody_overtakes_what_waits(
    spooled: SpooledLedger, flaky: FlakyLedger
) -> None:
    """
    As long as anything waits, what comes behind waits too, and costs no deadline.
    """
    flaky.is_away = True
    await spooled.settle(hold(1), used(1, 9))
    tries = flaky.tries
    await spooled.settle(hold(2), used(1, 8))
    assert flaky.tries == tries
    flaky.is_away = False
    await spooled.flush(30)

    assert [took.split()[1] for took in flaky.took] == [hold(1).id, hold(2).id]


async def test_the_ledger_is_asked_again_by_itself(
    spooled: SpooledLedger, flaky: FlakyLedger
) -> None:
    """
    Nobody has to call for what waits to be repeated.
    """
    flaky.is_away = True
    await spooled.settle(hold(1), used(1, 9))
    await flaky.tried(8)
    flaky.is_away = False
    await flaky.tried(flaky.tries + 1)
    await asyncio.sleep(0)

    assert flaky.took == [f"settle {hold(1).id} 9"]


async def test_a_lost_extend_is_not_kept(
    spooled: SpooledLedger, flaky: FlakyLedger, events: Recorder
) -> None:
    """
    It does not raise, and the next one says all that it said.
    """
    flaky.is_away = True
    await spooled.extend(hold(1), 5)
    flaky.is_away = False
    await spooled.extend(hold(1), 8)

    assert flaky.took == [f"extend {hold(1).id} 8"]
    assert events.spooled == []


async def test_a_failed_reserve_is_the_callers(
    spooled: SpooledLedger, flaky: FlakyLedger
) -> None:
    """
    Only the caller knows what follows from it.
    """
    flaky.is_away = True
    with pytest.raises(LedgerUnavailableError):
        await spooled.reserve(hold(1))
    with pytest.raises(LedgerUnavailableError):
        await spooled.ping()


async def test_the_oldest_is_dropped_from_a_full_spool(
    spooled: SpooledLedger, flaky: FlakyLedger, events: Recorder
) -> None:
    """
    The newest are the likeliest to be still known; somebody is told of each loss.
    """
    flaky.is_away = True
    for number in range(8):
        await spooled.settle(hold(number), used(1, number))
    flaky.is_away = False
    assert await spooled.flush(30) == 0

    assert [took.split()[2] for took in flaky.took] == ["3", "4", "5", "6", "7"]
    assert max(events.spooled) == 5
    assert [(where, type(error)) for where, error in events.faults] == [
        ("spool", SpoolOverflowError)
    ] * 3


async def test_dropping_what_is_being_repeated_loses_nothing_else(
    spooled: SpooledLedger, flaky: FlakyLedger
) -> None:
    """
    If the oldest goes while it is on its way, the next one is told all the same.
    """
    flaky.is_away = True
    await spooled.settle(hold(0), used(1, 0))
    flaky.gate.clear()
    await flaky.tried(flaky.tries + 1)
    for number in range(1, 6):
        await spooled.settle(hold(number), used(1, number))
    flaky.is_away = False
    flaky.gate.set()
    assert await spooled.flush(30) == 0

    assert [took.split()[2] for took in flaky.took] == ["0", "1", "2", "3", "4", "5"]


async def test_a_mistake_of_ours_is_reported_and_not_repeated(
    spooled: SpooledLedger, flaky: FlakyLedger, events: Recorder
) -> None:
    """
    It would fail for ever, and everything behind it would wait for ever.
    """
    flaky.bug = ValueError("bug")
    await spooled.settle(hold(1), used(1, 9))
    await spooled.extend(hold(1), 5)
    await spooled.cancel(hold(1))

    assert [where for where, _ in events.faults] == ["ledger"] * 3
    assert events.spooled == []
    assert await spooled.flush(1) == 0


async def test_a_flush_ends_at_its_deadline(
    spooled: SpooledLedger, flaky: FlakyLedger
) -> None:
    """
    It says how much is left if the ledger does not come back in time.
    """
    flaky.is_away = True
    await spooled.settle(hold(1), used(1, 9))
    await spooled.settle(hold(2), used(1, 9))

    assert await spooled.flush(0.05) == 2
    flaky.is_away = False
    assert await spooled.flush(30) == 0


async def test_a_flush_does_not_wait_for_a_long_pause(
    spooled: SpooledLedger, flaky: FlakyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What is resting between two tries is woken.
    """
    monkeypatch.setattr(spool, "FIRST_PAUSE_SECONDS", 3_600)
    flaky.is_away = True
    await spooled.settle(hold(1), used(1, 9))
    await flaky.tried(2)
    flaky.is_away = False

    assert await spooled.flush(30) == 0
    assert len(flaky.took) == 1


async def test_a_cancelled_settle_is_still_owed(
    spooled: SpooledLedger, flaky: FlakyLedger
) -> None:
    """
    An exchange whose task is ended in the middle of settling is settled all the same.
    """
    flaky.gate.clear()
    task = asyncio.create_task(spooled.settle(hold(1), used(1, 9)))
    await flaky.tried(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    flaky.gate.set()
    assert await spooled.flush(30) == 0

    assert flaky.took == [f"settle {hold(1).id} 9"]


async def test_what_is_refused_keeps_nobody_waiting(
    spooled: SpooledLedger, flaky: FlakyLedger, events: Recorder
) -> None:
    """
    Settles that the ledger can't take stay apart; the others are taken at once, and in
    their order after an outage. Once they can be taken they are.
    """
    flaky.refuses = {hold(1).id, hold(2).id}
    await spooled.settle(hold(1), used(1, 1))
    await spooled.settle(hold(3), used(1, 3))
    assert flaky.took == [f"settle {hold(3).id} 3"]
    flaky.is_away = True
    for number in (2, 4, 5):
        await spooled.settle(hold(number), used(1, number))
    await flaky.tried(flaky.tries + 5)
    flaky.is_away = False
    await until(lambda: len(flaky.took) == 3)
    assert flaky.took[1:] == [f"settle {hold(n).id} {n}" for n in (4, 5)]
    assert events.spooled[-1] == 2
    flaky.refuses = set()

    assert await spooled.flush(PATIENCE) == 0
    assert set(flaky.took[3:]) == {f"settle {hold(n).id} {n}" for n in (1, 2)}
    assert events.spooled[-1] == 0
    assert events.faults == []


async def test_what_is_refused_is_repeated_with_pauses(
    flaky: FlakyLedger, events: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It does not keep the ledger busy, and an outage begins meanwhile all the same.
    """
    monkeypatch.setattr(spool, "FIRST_PAUSE_SECONDS", 60.0)
    monkeypatch.setattr(spool, "LONGEST_PAUSE_SECONDS", 60.0)
    spooled = SpooledLedger(flaky, events)
    flaky.refuses = {hold(1).id}
    await spooled.settle(hold(1), used(1, 1))
    await flaky.tried(2)
    await asyncio.sleep(0.02)
    assert flaky.tries == 2
    flaky.is_away = True
    await spooled.settle(hold(2), used(1, 2))

    await flaky.tried(4)  # its own, and one by the spool
    await spooled.close()


async def test_what_is_refused_is_dropped_first(
    spooled: SpooledLedger, flaky: FlakyLedger, events: Recorder
) -> None:
    """
    A full spool gives up what there is least hope for.
    """
    flaky.refuses = {hold(n).id for n in range(5)}
    for number in range(5):
        await spooled.settle(hold(number), used(1, number))
    flaky.is_away = True
    await spooled.settle(hold(5), used(1, 5))
    flaky.is_away = False
    await until(lambda: flaky.took)

    assert flaky.took == [f"settle {hold(5).id} 5"]
    assert [where for where, _ in events.faults] == ["spool"]
    await spooled.close()


async def test_closing_ends_the_repeating(
    spooled: SpooledLedger, flaky: FlakyLedger
) -> None:
    """
    What was not flushed by then is lost with the process.
    """
    flaky.is_away = True
    await spooled.settle(hold(1), used(1, 9))
    await spooled.close()
    tries = flaky.tries
    await asyncio.sleep(0.02)

    assert flaky.took == ["close"]
    assert flaky.tries == tries
