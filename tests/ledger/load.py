"""Exchanges at a steady rate, and what a ledger owes after them: for tests of faults."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.ledger.builders import SUBJECT, Recorder, budget, concurrency
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import (
    Amounts,
    Denied,
    Granted,
    Hold,
    Limit,
    Outcome,
    Part,
    Settlement,
    Stale,
)
from tokenweir.core.holding import State, key_of
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.spool import SpooledLedger
from tokenweir.ledger.store import Snapshot
from tokenweir.ledger.tagged import TaggedLedger

RATE_PER_SECOND = 200
COST_NANOUSD = 1_000
# What is reserved is what is used: so no estimate of the reaper is above it.
AMOUNTS = Amounts(1, 40, 60, COST_NANOUSD)
USED = Settlement(
    TokenUsage(input_tokens=40, output_tokens=60),
    Source.REPORTED,
    Outcome.COMPLETED,
    cost_nanousd=COST_NANOUSD,
)


@dataclass
class Load:
    """
    Exchanges, each under one of some tags by turns.

    Attributes:
        store: The ledger.
        tags: Where.
        capacity_nanousd: Of each tag's budget.
        is_repeated: What was settled last is said again after losses, as processors do.
        settled: How many were granted, and settled.
        refused: How many had no answer, and were cancelled.
        denied: How many were over the budget.
        slowest_seconds: The longest wait for an answer.
    """

    store: RedisStore
    tags: Sequence[str]
    capacity_nanousd: int = 10**12
    is_repeated: bool = False
    settled: int = 0
    refused: int = 0
    denied: int = 0
    slowest_seconds: float = 0.0
    _ledger: SpooledLedger = field(init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _started: int = 0

    def __post_init__(self) -> None:
        lineage = self.store if self.is_repeated else None
        ledger = TaggedLedger(self.store)
        self._ledger = SpooledLedger(ledger, Recorder(), lineage=lineage)
        self.store.link.when_back(self._ledger.repeat)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What applies under each tag."""
        now_ms = time.time_ns() // 1_000_000
        return budget(self.capacity_nanousd, now_ms=now_ms), concurrency(10**6)

    async def run_until(self, over: asyncio.Event) -> None:
        """Begin exchanges until *over*, and end them all."""
        began, number = time.monotonic(), 0
        while not over.is_set():
            task = asyncio.create_task(self._exchange(number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            number += 1
            due = began + number / RATE_PER_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.gather(*self._tasks)

    async def flush(self) -> None:
        """Have everything settled, however long it takes."""
        while await self._ledger.flush(1.0):
            pass

    async def _exchange(self, number: int) -> None:
        made_ms = time.time_ns() // 1_000_000
        part = Part(self.tags[number % len(self.tags)], self.limits)
        name = f"{self.store.epoch}-{made_ms:x}-{secrets.token_hex(8)}"
        hold = Hold(name, (part,), AMOUNTS, SUBJECT)
        answer = await self._answer(hold)
        if isinstance(answer, Granted):
            await self._ledger.extend(hold, 10)
            await asyncio.sleep(0.02)
            await self._ledger.settle(hold, USED)
            self.settled += 1
        elif answer is None:
            await self._ledger.cancel(hold)
            self.refused += 1
        else:
            self.denied += 1

    async def _answer(self, hold: Hold) -> Granted | Denied | Stale | None:
        asked = time.monotonic()
        try:
            return await self._ledger.reserve(hold)
        except LedgerUnavailableError:
            return None
        finally:
            waited = time.monotonic() - asked
            self.slowest_seconds = max(self.slowest_seconds, waited)


@dataclass
class Books:
    """
    What a ledger says after a load.

    Attributes:
        spent: Of all budgets, in exchanges.
        reserved: Ditto.
        slots: That are taken.
        held: Holds.
        recorded: Exchanges that records charge, each by its last record.
        records: How many records there are of one exchange, at most.
    """

    spent: int = 0
    reserved: int = 0
    slots: int = 0
    held: int = 0
    recorded: int = 0
    records: int = 0

    def add(self, snapshot: Snapshot, limits: Sequence[Limit]) -> None:
        """Add what is under a tag."""
        for spending in snapshot.spendings.values():
            self.spent += spending.spent // COST_NANOUSD
            self.reserved += spending.reserved
        for limit in limits:
            if slots := snapshot.slots.get(key_of(limit)):
                self.slots += len(slots.until_ms)
        self.held += sum(
            each.state is State.HELD for each in snapshot.holdings.values()
        )
        last: dict[str, int] = {}
        count: dict[str, int] = {}
        for record in snapshot.records:
            hold_id = record["hold"]
            last[hold_id] = int(record["cost_nanousd"])
            count[hold_id] = count.get(hold_id, 0) + 1
        self.recorded += sum(last.values()) // COST_NANOUSD
        self.records = max(self.records, *count.values(), 0)


async def books_of(load: Load) -> Books:
    """Return what the ledger of *load* says."""
    books = Books()
    for tag in load.tags:
        books.add(await load.store.snapshot(tag), load.limits)
    return books
