"""What a ledger holds, as a stranger with a connection sees it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Self

from tokenweir.core.budget import Crossing
from tokenweir.core.holding import State
from tokenweir.core.partition import all_tags, tag_of
from tokenweir.core.usage import TokenUsage
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.store import Snapshot

CLASSES = tuple(TokenUsage.__dataclass_fields__)


class Silent:
    """Hears of ledger events, and says nothing."""

    def ledger_call(
        self, verb: str, seconds: float, *, failed: bool, reason: str = ""
    ) -> None:
        """See `Events`."""

    def ledger_evicts(self, policy: str) -> None:
        """See `LedgerEvents`."""

    def holds_reaped(self, count: int) -> None:
        """See `Events`."""

    def budget_crossed(self, crossing: Crossing) -> None:
        """See `Events`."""

    def spool_size(self, waiting: int) -> None:
        """See `Events`."""

    def fault(self, where: str, error: BaseException) -> None:
        """See `Events`."""


@dataclass(frozen=True)
class LedgerView:
    """Reads a ledger; writes nothing."""

    store: RedisStore

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, url: str) -> AsyncIterator[Self]:
        """Read the ledger at *url*."""
        store = RedisStore(url, Silent(), deadline_seconds=10.0)
        try:
            yield cls(store)
        finally:
            await store.close()

    async def snapshot(self, tenant: str = "acme") -> Snapshot:
        """Return all that is under the tenant's tag."""
        return await self.store.snapshot(tag_of(tenant))

    async def outstanding(self) -> int:
        """Return how many holds there are."""
        return len(await self.store.holdings(all_tags()))

    async def nothing_held(self, *tenants: str) -> bool:
        """Tell if there is no hold, no reserved amount and no taken slot."""
        if await self.outstanding():
            return False
        for tenant in tenants or ("acme", "globex"):
            state = await self.snapshot(tenant)
            reserved = sum(bucket.reserved for bucket in state.buckets.values())
            taken = sum(len(slots.until_ms) for slots in state.slots.values())
            held = [h for h in state.holdings.values() if h.state is State.HELD]
            if reserved or taken or held:
                return False
        return True

    async def records(self, tenant: str = "acme") -> list[Mapping[str, str]]:
        """Return the usage records, the oldest first; a correction replaces."""
        by_hold: dict[str, Mapping[str, str]] = {}
        for record in (await self.snapshot(tenant)).records:
            by_hold[record["hold"]] = record
        return list(by_hold.values())

    async def usages(self, tenant: str = "acme") -> list[TokenUsage]:
        """Return what was settled, by class, the oldest first."""
        return [
            TokenUsage(**{name: int(record[name]) for name in CLASSES})
            for record in await self.records(tenant)
        ]

    async def total(self, tenant: str = "acme") -> tuple[int, int]:
        """Return the input and output tokens that were settled in all."""
        usages = await self.usages(tenant)
        return (
            sum(usage.total_input_tokens for usage in usages),
            sum(usage.total_output_tokens for usage in usages),
        )

    async def rolled_up(self, tenant: str = "acme") -> Mapping[str, int]:
        """Return the sums of the hourly rollups, by figure."""
        sums: dict[str, int] = {}
        for hour in (await self.snapshot(tenant)).rollups.values():
            for field, figure in hour.items():
                name = field.rpartition("\x1f")[2]
                sums[name] = sums.get(name, 0) + figure
        return sums
