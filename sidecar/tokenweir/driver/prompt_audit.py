"""
What prompts cost, on its way to the ledger.

Most prompts begin as others do, and some as no other ever will: questions, documents.
Only what comes a second time is told apart. The first time it waits, in bounded memory;
what has waited too long is summed with others like it. So a day's sums are of prompts
that repeat, and new ones don't push them out.

Sums are written now and then, together, and at most once: see
`tokenweir.driver.write_behind`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from tokenweir.core.hold import Subject
from tokenweir.core.policy import Policy
from tokenweir.core.prompt_costs import Costs
from tokenweir.core.prompt_part import Audit, PromptCost
from tokenweir.driver.write_behind import INTERVAL_SECONDS, WriteBehind
from tokenweir.ledger.prompts import OTHER, PromptKey, PromptSum
from tokenweir.telemetry.hooks import LedgerEvents

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
        self._rule = NO_AUDIT
        self._once: OrderedDict[PromptKey, tuple[int, PromptCost]] = OrderedDict()
        # Day on which the text was last sent along, or -1.
        self._known: OrderedDict[PromptKey, int] = OrderedDict()
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._sums: dict[tuple[int, PromptKey], PromptCost] = {}
        self._writer = WriteBehind("prompt_audit", self, _write, interval_seconds)

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
        self._writer.start(store, events)

    async def stop(self) -> None:
        """
        Write what waits, and end. What can't be written is lost.

        What came once is no longer told apart.
        """
        while self._once:
            self._give_up()
        await self._writer.stop()

    async def flush(self, store: PromptStore) -> None:
        """Write what waits to *store*, if it answers."""
        await self._writer.flush(store)

    # === what waits, for the writer ============================================

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._sums

    def take(self) -> list[Batch]:
        """Give away all that waits, each batch for one call."""
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

    def put_back(self, batch: Batch) -> None:
        """Let *batch*, which was not sent, wait again."""
        _, day, rows = batch
        for row in rows:
            self._sum(row.key, day, row.cost)
            if row.text and row.key in self._known:
                self._known[row.key] = -1

    def lose(self, batch: Batch) -> None:
        """Count *batch* as lost."""
        self._lose(row.cost for row in batch[2])

    # === parts =================================================================

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


async def _write(store: PromptStore, batch: Batch) -> None:
    await store.add(*batch)


def _shorten(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
