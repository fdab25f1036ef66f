"""Settles that wait for one another."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.ledger.builders import Recorder
from tests.pod import until
from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.core.hold import Amounts
from tokenweir.core.holding import Account, Share
from tokenweir.ledger import batches as module
from tokenweir.ledger.batches import MOST, Batches
from tokenweir.ledger.memory import MemoryStore

ACCOUNT = Account(Amounts(1, 1, 1), 0, 0)


@dataclass
class Counting(MemoryStore):
    """A store that counts what it is asked, and fails as it is told."""

    batches: list[int] = field(default_factory=list)
    failure: LedgerUnavailableError | None = None

    def __post_init__(self) -> None:
        super().__init__(Recorder())

    async def settle_all(self, tag: str, ended: object) -> None:
        """Take them, or fail."""
        assert isinstance(ended, list)
        self.batches.append(len(ended))
        if self.failure is not None and len(ended) > 1:
            raise self.failure
        await super().settle_all(tag, ended)


def share(number: int) -> Share:
    """One exchange."""
    return Share(f"0-1-{number}", (), Amounts(1, 1, 1), "m")


async def settle(batches: Batches, count: int, tag: str = "tw:1") -> list[object]:
    """Settle so many at once."""
    calls = [batches.settle(tag, share(number), ACCOUNT) for number in range(count)]
    return list(await asyncio.gather(*calls, return_exceptions=True))


async def test_what_comes_together_goes_out_together() -> None:
    """Whoever settles waits until it was taken; each tag has a batch of its own."""
    store = Counting()
    batches = Batches(store)
    five, three = await asyncio.gather(settle(batches, 5), settle(batches, 3, "tw:2"))

    assert (five, three) == ([None] * 5, [None] * 3)
    assert sorted(store.batches) == [3, 5]


async def test_a_full_batch_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is left of a burst is sent when the processor ends."""
    monkeypatch.setattr(module, "SECONDS", 600)
    store = Counting()
    batches = Batches(store)
    calls = asyncio.create_task(settle(batches, 2 * MOST + 1))
    await until(lambda: len(store.batches) == 2)
    assert not calls.done()
    await batches.flush()

    assert await calls == [None] * (2 * MOST + 1)
    assert store.batches == [MOST, MOST, 1]


async def test_all_are_told_that_there_was_no_answer() -> None:
    """Then each is its caller's again."""
    store = Counting(failure=LedgerUnavailableError("no answer"))
    found = await settle(Batches(store), 3)

    assert [type(each) for each in found] == [LedgerUnavailableError] * 3
    assert len({id(each) for each in found}) == 3


async def test_what_is_refused_together_is_tried_alone() -> None:
    """One that the ledger can't take keeps no other from being taken."""
    store = Counting(failure=LedgerRefusedError("refused"))

    assert await settle(Batches(store), 3) == [None] * 3
    assert store.batches == [3, 1, 1, 1]


async def test_a_caller_who_is_cancelled_takes_nobody_along() -> None:
    """What it has settled is settled."""
    store = Counting()
    batches = Batches(store)
    tasks = [
        asyncio.create_task(batches.settle("tw:1", share(number), ACCOUNT))
        for number in range(3)
    ]
    await asyncio.sleep(0)
    tasks[1].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(each) for each in found[::2]] == [type(None)] * 2
    assert len((await store.snapshot("tw:1")).holdings) == 3
