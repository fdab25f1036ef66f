"""
What prompts cost, on its way to the ledger.

Most prompts begin as others do, and some as no other ever will: questions, documents.
Only what comes a second time is told apart. The first time it waits, in bounded memory;
what has waited too long is summed with others like it. So a day's sums are of prompts
that repeat, and new ones don't push them out.

Sums are written now and then, together. What is written is written at most once: what
may have been is never sent again, and is lost if it was not.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.core.hold import Subject
from tokenweir.core.policy import Policy
from tokenweir.core.prompt_costs import Costs
from tokenweir.core.prompt_part import Audit, PromptCost
from tokenweir.ledger.prompts import OTHER, PromptKey, PromptSum
from tokenweir.telemetry.hooks import LedgerEvents

INTERVAL_SECONDS = 5.0
DAY_MS = 86_400_000
# What came once and waits, and what came twice and is known: some megabytes each.
MAX_WAITING = 10_000
# Sums that wait for a ledger that does not answer.
MAX_SUMS = 5_000
# Texts of 2 kB that wait to be kept.
MAX_TEXTS = 1_000
# Rows of one call: a millisecond's work.
PER_CALL = 100

NO_AUDIT = Audit(prompts=False)

Batch = tuple[str, int, list[PromptSum]]


class PromptStore(Protocol):
    """What sums are written to: `tokenweir.ledger.prompts.PromptLedger`."""

    async def ping(self) -> None:
        """Ask for an answer."""

    async def add(self, tenant: str, day: int, sums: list[PromptSum]) -> None:
        """Add *sums* to a *day* of *tenant*'s."""


class PromptAudit:
    """
    Collects what parts of prompts cost.

    Args:
        on_lost: Told how many parts of prompts no audit will show.
        now_ms: The time of day.
        interval_seconds: Between two writes.
    """

    def __init__(
        self,
        on_lost: Callable[[int], None],
        now_ms: Callable[[], int],
        *,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._on_lost = on_lost
        self._now_ms = now_ms
        self._interval_seconds = interval_seconds
        self._rule = NO_AUDIT
        self._once: OrderedDict[PromptKey, tuple[int, PromptCost]] = OrderedDict()
        # Day on which the text was last sent along, or -1.
        self._known: OrderedDict[PromptKey, int] = OrderedDict()
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._sums: dict[tuple[int, PromptKey], PromptCost] = {}
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def use_policy(self, policy: Policy) -> None:
        """Let *policy* say whose text may be kept; what another let wait is dropped."""
        if policy.audit != self._rule:
            self._rule = policy.audit
            self._texts.clear()

    def add(self, subject: Subject, costs: Costs) -> None:
        """Count what the parts of one request of *subject* cost."""
        day = self._now_ms() // DAY_MS
        for part, cost in costs:
            key = PromptKey(subject.tenant, subject.model, part.kind, part.digest)
            self._count(key, day, cost)

    def keep(self, texts: Mapping[str, str]) -> None:
        """Remember *texts*, by digest, until it is known which of them repeat."""
        for digest, text in texts.items():
            self._texts[digest] = text
            self._texts.move_to_end(digest)
        _shorten(self._texts, MAX_TEXTS)

    def start(self, store: PromptStore, events: LedgerEvents) -> None:
        """Write to *store* from now on, again and again; *events* are told of faults."""
        self._task = asyncio.create_task(self._run(store, events))

    async def stop(self) -> None:
        """
        Write what waits, and end. What can't be written is lost.

        What came once is no longer told apart.
        """
        while self._once:
            self._give_up()
        self._stopping.set()
        if self._task is not None:
            await self._task
            self._task = None
        self._lose(self._sums.values())
        self._sums = {}

    async def flush(self, store: PromptStore) -> None:
        """Write what waits to *store*, if it answers."""
        if not self._sums:
            return
        try:
            await store.ping()
        except LedgerUnavailableError:
            return
        batches = self._take()
        try:
            while batches and await self._write(store, batches.pop()):
                pass
        finally:
            for _, day, rows in batches:
                self._put_back(day, rows)

    # === parts =================================================================

    async def _run(self, store: PromptStore, events: LedgerEvents) -> None:
        is_last = False
        while not is_last:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._interval_seconds)
            is_last = self._stopping.is_set()
            try:
                await self.flush(store)
            except Exception as error:  # noqa: BLE001, nobody would start it again
                events.fault("prompt_audit", error)

    async def _write(self, store: PromptStore, batch: Batch) -> bool:
        """Write *batch*, once; return whether another may fare better."""
        is_written = False
        try:
            await store.add(*batch)
            is_written = True
        except LedgerRefusedError:
            return True
        except LedgerUnavailableError:
            return False
        finally:
            if not is_written:
                self._lose(row.cost for row in batch[2])
        return True

    def _count(self, key: PromptKey, day: int, cost: PromptCost) -> None:
        if key in self._known:
            self._known.move_to_end(key)
            self._sum(key, day, cost)
        elif key in self._once:
            first_day, first = self._once.pop(key)
            self._known[key] = -1
            _shorten(self._known, MAX_WAITING)
            self._sum(key, first_day, first)
            self._sum(key, day, cost)
        else:
            self._once[key] = day, cost
            if len(self._once) > MAX_WAITING:
                self._give_up()

    def _give_up(self) -> None:
        """No longer tell apart what has waited longest."""
        key, (day, cost) = self._once.popitem(last=False)
        self._sum(PromptKey(key.tenant, key.model, key.kind, OTHER), day, cost)

    def _sum(self, key: PromptKey, day: int, cost: PromptCost) -> None:
        place = day, key
        if place in self._sums or len(self._sums) < MAX_SUMS:
            self._sums[place] = self._sums.get(place, PromptCost()) + cost
        else:
            self._lose((cost,))

    def _take(self) -> list[Batch]:
        taken, self._sums = self._sums, {}
        by_call: dict[tuple[str, int], list[PromptSum]] = {}
        for (day, key), cost in taken.items():
            row = PromptSum(key, cost, self._text_for(key, day))
            by_call.setdefault((key.tenant, day), []).append(row)
        return [
            (tenant, day, rows[first : first + PER_CALL])
            for (tenant, day), rows in by_call.items()
            for first in range(0, len(rows), PER_CALL)
        ]

    def _put_back(self, day: int, rows: Iterable[PromptSum]) -> None:
        for row in rows:
            self._sum(row.key, day, row.cost)
            if row.text and row.key in self._known:
                self._known[row.key] = -1

    def _text_for(self, key: PromptKey, day: int) -> str:
        """Return the text that goes along: once a day, so that it is kept on."""
        text = self._texts.get(key.digest, "")
        if not text or self._known.get(key, day) == day:
            return ""
        self._known[key] = day
        # Exchanges that began under another policy may still bring texts.
        return text if self._rule.keeps_text_of(key.tenant) else ""

    def _lose(self, costs: Iterable[PromptCost]) -> None:
        lost = sum(cost.calls for cost in costs)
        if lost:
            self._on_lost(lost)


def _shorten(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
