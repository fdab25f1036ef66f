"""A memory ledger, looked into as `tokenweir.ledger.inspector` looks into a real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from tests.ledger.builders import Clock
from tokenweir.core.holding import State
from tokenweir.core.partition import all_tags
from tokenweir.core.policy import BUDGETS
from tokenweir.ledger.inspector import CounterName, Look
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.store import Snapshot


@dataclass
class MemoryInspector:
    """An `Inspectable`; of the stream only the newest *records* are there."""

    store: MemoryStore
    clock: Clock
    kept_records: int = 1_000_000

    async def now_ms(self) -> int:
        """Return the moment."""
        return self.clock.now_ms

    async def counters(self) -> dict[str, set[CounterName]]:
        """Return which counters there are."""
        found = {tag: await self.store.snapshot(tag) for tag in all_tags()}
        return {tag: set(snap.spendings) for tag, snap in found.items()}

    async def look(self, tag: str, counters: Sequence[CounterName]) -> Look:
        """Return what is under *tag*."""
        found = await self.store.snapshot(tag)
        held = {
            hold_id: holding
            for hold_id, holding in found.holdings.items()
            if holding.state is State.HELD
        }
        taken: Counter[CounterName] = Counter()
        for holding in held.values():
            for each in holding.taken:
                if each.axis in BUDGETS:
                    taken[each.key, each.window.begin_ms] += each.taken
        kept = {
            name: found.spendings[name] for name in counters if name in found.spendings
        }
        last = f"{len(found.records)}-0" if self._kept(found) else ""
        return Look(last, kept, taken, frozenset(held))

    async def records(
        self,
        tag: str,
        since_ms: int,  # noqa: ARG002
        last: str,  # noqa: ARG002
    ) -> AsyncIterator[tuple[str, Mapping[str, str]]]:
        """Yield the records that are kept."""
        found = await self.store.snapshot(tag)
        kept = self._kept(found)
        first = len(found.records) - len(kept)
        for number, record in enumerate(kept, first + 1):
            yield f"{number}-0", record

    def _kept(self, found: Snapshot) -> Sequence[Mapping[str, str]]:
        return found.records[-self.kept_records :] if self.kept_records else ()
