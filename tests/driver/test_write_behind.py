"""What waits is written now and then, each batch once at most, and nothing twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.pod import until
from tests.recorder import Recorder
from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.driver.write_behind import WriteBehind

OFTEN_SECONDS = 0.001
NEVER_SECONDS = 3_600.0


@dataclass
class Sums:
    """Numbers that wait; each is a batch, and `take` gives the last one first."""

    waiting: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self.waiting

    def take(self) -> list[int]:
        """Give away all."""
        taken, self.waiting = self.waiting, []
        return taken

    def put_back(self, batch: int) -> None:
        """Have it wait again."""
        self.waiting.append(batch)

    def lose(self, batch: int) -> None:
        """Count it as lost."""
        self.lost.append(batch)


@dataclass
class Store:
    """A ledger that fails as it is told: at pings, and at given batches."""

    pings: list[Exception | None] = field(default_factory=list)
    faults: dict[int, BaseException] = field(default_factory=dict)
    written: list[int] = field(default_factory=list)

    async def ping(self) -> None:
        """Fail as the next of `pings` says."""
        fault = self.pings.pop(0) if self.pings else None
        if fault:
            raise fault

    async def write(self, batch: int) -> None:
        """Fail as is said of *batch*, else take it."""
        if batch in self.faults:
            raise self.faults[batch]
        self.written.append(batch)


def writer_of(sums: Sums, seconds: float = NEVER_SECONDS) -> WriteBehind[Store, int]:
    """Return what writes *sums*."""
    return WriteBehind("sums", sums, Store.write, seconds)


async def test_all_is_written() -> None:
    """Each batch once; and with nothing to write nobody is asked."""
    sums, store = Sums([1, 2, 3]), Store()
    writer = writer_of(sums)
    await writer.flush(store)
    store.pings.append(AssertionError())
    await writer.flush(store)

    assert sorted(store.written) == [1, 2, 3]
    assert sums == Sums()


async def test_a_ledger_that_is_away() -> None:
    """Nothing is taken and nothing is lost, and it is written when the ledger is back."""
    sums, store = Sums([1, 2]), Store([LedgerUnavailableError("silent")])
    writer = writer_of(sums)
    await writer.flush(store)
    assert (sums, store.written) == (Sums([1, 2]), [])

    await writer.flush(store)
    assert sorted(store.written) == [1, 2]


async def test_a_call_without_an_answer() -> None:
    """What may have been written is lost; what was not sent waits again."""
    sums = Sums([1, 2, 3])
    store = Store(faults={2: LedgerUnavailableError("silent")})
    await writer_of(sums).flush(store)

    assert store.written == [3]
    assert sums == Sums([1], lost=[2])


async def test_a_refused_call() -> None:
    """What the ledger does not take is lost, and the others go on."""
    sums, store = Sums([1, 2, 3]), Store(faults={2: LedgerRefusedError("full")})
    await writer_of(sums).flush(store)

    assert store.written == [3, 1]
    assert sums == Sums(lost=[2])


@pytest.mark.parametrize("fault", [RuntimeError("bug"), asyncio.CancelledError()])
async def test_whatever_else(fault: BaseException) -> None:
    """Of what was being written nobody knows; all else still waits."""
    sums, store = Sums([1, 2, 3]), Store(faults={3: fault})
    with pytest.raises(type(fault)):
        await writer_of(sums).flush(store)

    assert sums == Sums([1, 2], lost=[3])


async def test_again_and_again() -> None:
    """It writes by itself, whatever breaks, until it is stopped."""
    sums, store, events = Sums([1]), Store([ValueError("bug")]), Recorder()
    writer = writer_of(sums, OFTEN_SECONDS)
    writer.start(store, events)
    await until(lambda: store.written == [1])
    sums.put_back(2)
    await until(lambda: store.written == [1, 2])
    await writer.stop()

    assert [where for where, _ in events.faults] == ["sums"]


async def test_the_end() -> None:
    """What waits is written once more; what can't be is lost."""
    sums, store = Sums([1, 2]), Store(faults={1: LedgerUnavailableError("silent")})
    writer = writer_of(sums)
    writer.start(store, Recorder())
    await writer.stop()
    assert (store.written, sums) == ([2], Sums(lost=[1]))

    unstarted = Sums([7])
    await writer_of(unstarted).stop()
    assert unstarted == Sums(lost=[7])
