"""The ledger's store in this process: the reference, for tests and for a laptop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Amounts, Denied, Granted, Stale
from tokenweir.core.holding import (
    HOLD_MS,
    Account,
    Holding,
    Share,
    State,
)
from tokenweir.core.tag import Tag
from tokenweir.ledger.store import Rollup, Snapshot
from tokenweir.telemetry.hooks import LedgerEvents


class MemoryStore:
    """
    A `tokenweir.ledger.store.TagStore`, `Sweepable`, `Tallying` and `Readable`.

    It is atomic because nothing in it awaits, and it is gone with the process.

    Args:
        events: Told of reaped holds.
        hold_ms: How long a hold lives without being extended.
        now_ms: The clock; None: the machine's.
    """

    def __init__(
        self,
        events: LedgerEvents,
        *,
        hold_ms: int = HOLD_MS,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._events = events
        self._hold_ms = hold_ms
        self._now_ms = now_ms or _wall_clock_ms
        self._tags: dict[str, Tag] = {}
        self._epoch = 0

    @property
    def epoch(self) -> str:
        """The newest epoch seen; ``"0"`` before the first answer."""
        return str(self._epoch)

    async def reserve(self, tag: str, share: Share) -> Granted | Denied | Stale:
        """See `tokenweir.ledger.store.TagStore.reserve`."""
        now_ms = self._now_ms()
        state = self._tag(tag)
        before = state.reaped
        answer = state.reserve(share, now_ms)
        self._count_reaped(state.reaped - before)
        self._tell(state)
        self._epoch = max(self._epoch, state.epoch)
        if answer is None:
            raise LedgerUnavailableError("the hold had ended before it was made")
        return answer

    async def extend(self, tag: str, share: Share, output_tokens: int) -> None:
        """See `tokenweir.ledger.store.TagStore.extend`."""
        state = self._tag(tag)
        state.extend(share, output_tokens, self._now_ms())
        self._tell(state)

    async def settle(self, tag: str, share: Share, account: Account) -> None:
        """See `tokenweir.ledger.store.TagStore.settle`."""
        await self.settle_all(tag, [(share, account)])

    async def settle_all(
        self, tag: str, ended: Sequence[tuple[Share, Account]]
    ) -> None:
        """See `tokenweir.ledger.store.TagStore.settle_all`."""
        now_ms = self._now_ms()
        state = self._tag(tag)
        for share, account in ended:
            state.settle(share, account, now_ms)
        self._tell(state)

    async def cancel(
        self,
        tag: str,
        hold_id: str,
        *,
        unclaimed_only: bool,
        share: Share | None = None,
    ) -> bool:
        """See `tokenweir.ledger.store.TagStore.cancel`."""
        was = self._tag(tag).cancel(
            hold_id, self._now_ms(), unclaimed_only=unclaimed_only, share=share
        )
        return was not in (State.CLAIMED, State.SETTLED)

    async def give_back(
        self, tag: str, lease_id: str, amounts: Amounts, slots: int
    ) -> None:
        """See `tokenweir.ledger.store.TagStore.give_back`."""
        self._tag(tag).give_back(lease_id, amounts, slots, self._now_ms())

    async def tally(self, tag: str, hour: int, sums: Mapping[str, int]) -> None:
        """See `tokenweir.ledger.store.Tallying.tally`."""
        self._tag(tag).book.tally(hour, sums, self._now_ms())

    async def lead(
        self,
        owner: str,  # noqa: ARG002, there is nobody else to ask
        lease_ms: int,
    ) -> bool:
        """See `tokenweir.ledger.store.Sweepable.lead`."""
        return lease_ms > 0

    async def sweep(self, tags: Sequence[str]) -> int:
        """See `tokenweir.ledger.store.Sweepable.sweep`."""
        now_ms = self._now_ms()
        total = 0
        for tag in tags:
            state = self._tags.get(tag)
            if state is not None:
                total += state.reap(now_ms, len(state.expiries))
                state.forget(now_ms)
                self._tell(state)
        self._count_reaped(total)
        return total

    async def snapshot(self, tag: str) -> Snapshot:
        """See `tokenweir.ledger.store.Readable.snapshot`."""
        state = self._tag(tag)
        return Snapshot(
            state.epoch,
            dict(state.levels.buckets),
            deepcopy(
                {key: slots for key, slots in state.levels.slots.items() if slots}
            ),
            dict(state.levels.spendings),
            dict(state.holdings),
            dict(state.expiries),
            dict(state.rates),
            tuple(state.book.records),
            {hour: dict(sums) for hour, sums in state.book.rollups.items()},
            {hour: dict(sums) for hour, sums in state.book.user_rollups.items()},
        )

    async def holdings(self, tags: Sequence[str]) -> Sequence[Holding]:
        """See `tokenweir.ledger.store.Readable.holdings`."""
        return [
            holding
            for tag in tags
            for holding in self._tag(tag).holdings.values()
            if holding.state is State.HELD
        ]

    async def rollups(
        self,
        tags: Sequence[str],
        first_hour: int,
        last_hour: int,
        *,
        with_users: bool = False,
    ) -> Sequence[Rollup]:
        """See `tokenweir.ledger.store.Readable.rollups`."""
        return [
            Rollup(
                tag,
                hour,
                dict(sums),
                dict(state.book.user_rollups.get(hour, {})) if with_users else {},
            )
            for tag in tags
            if (state := self._tags.get(tag)) is not None
            for hour, sums in state.book.rollups.items()
            if first_hour <= hour <= last_hour
        ]

    async def ping(self) -> None:
        """See `tokenweir.ledger.store.TagStore.ping`."""

    async def close(self) -> None:
        """See `tokenweir.ledger.store.TagStore.close`."""

    def _tag(self, tag: str) -> Tag:
        return self._tags.setdefault(tag, Tag(self._hold_ms))

    def _tell(self, state: Tag) -> None:
        for crossing in state.crossings():
            self._events.budget_crossed(crossing)

    def _count_reaped(self, count: int) -> None:
        if count:
            self._events.holds_reaped(count)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
