"""
The ledger of whole holds, over a store that is atomic per tag.

A hold goes through its parts in order, the tenant's first. The first part keeps the
record, the others only take and give back. A denial under a later part cancels the
earlier ones, and so does a failure. A denial that can't be undone is reported as a
failure: then, as after any failure, what may be left of the hold is the caller's to
cancel or to settle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import (
    Denied,
    Granted,
    Hold,
    LimitState,
    Part,
    Settlement,
    Stale,
)
from tokenweir.core.holding import account_of, share_of
from tokenweir.core.rejection import QuotaFailure
from tokenweir.ledger.store import TagStore

T = TypeVar("T")


class TaggedLedger:
    """A `tokenweir.ledger.base.Ledger` over *store*."""

    def __init__(self, store: TagStore) -> None:
        self._store = store

    async def reserve(self, hold: Hold) -> Granted | Denied | Stale:
        """See `tokenweir.ledger.base.Ledger.reserve`."""
        states: tuple[LimitState, ...] = ()
        shadowed: tuple[QuotaFailure, ...] = ()
        for number, part in enumerate(hold.parts):
            share = share_of(hold, part, keeps_record=number == 0)
            earlier = hold.parts[:number]
            try:
                answer = await self._store.reserve(part.tag, share)
            except LedgerUnavailableError:
                await asyncio.gather(
                    *self._cancels(hold, earlier), return_exceptions=True
                )
                raise
            if isinstance(answer, Stale):
                await _all(self._cancels(hold, earlier))
                return answer
            shadowed += answer.shadowed
            if isinstance(answer, Denied):
                await _all(self._cancels(hold, earlier))
                return Denied(self._store.epoch, answer.failures, shadowed)
            states += answer.states
        return Granted(self._store.epoch, states, shadowed)

    async def extend(self, hold: Hold, output_tokens: int) -> None:
        """See `tokenweir.ledger.base.Ledger.extend`."""
        await _all(
            [
                self._store.extend(
                    part.tag,
                    share_of(hold, part, keeps_record=number == 0),
                    output_tokens,
                )
                for number, part in enumerate(hold.parts)
            ]
        )

    async def settle(self, hold: Hold, settlement: Settlement) -> None:
        """See `tokenweir.ledger.base.Ledger.settle`."""
        await _all(
            [
                self._store.settle(
                    part.tag,
                    share_of(hold, part, keeps_record=number == 0),
                    account_of(hold, settlement, keeps_record=number == 0),
                )
                for number, part in enumerate(hold.parts)
            ]
        )

    async def cancel(self, hold: Hold, *, unclaimed_only: bool = False) -> bool:
        """See `tokenweir.ledger.base.Ledger.cancel`; the tenant's part answers."""
        calls = self._cancels(hold, hold.parts, unclaimed_only=unclaimed_only)
        return (await _all(calls))[0]

    async def epoch(self) -> str:
        """See `tokenweir.ledger.base.Ledger.epoch`."""
        return self._store.epoch

    async def ping(self) -> None:
        """See `tokenweir.ledger.base.Ledger.ping`."""
        await self._store.ping()

    async def close(self) -> None:
        """See `tokenweir.ledger.base.Ledger.close`."""
        await self._store.close()

    def _cancels(
        self, hold: Hold, parts: Sequence[Part], *, unclaimed_only: bool = False
    ) -> list[Awaitable[bool]]:
        return [
            self._store.cancel(
                part.tag,
                hold.id,
                unclaimed_only=unclaimed_only,
                share=share_of(hold, part, keeps_record=number == 0)
                if hold.lease
                else None,
            )
            for number, part in enumerate(parts)
        ]


async def _all(calls: Sequence[Awaitable[T]]) -> list[T]:
    """Await every one of *calls*; then raise the first error, or return the answers."""
    if len(calls) == 1:  # nearly always: no task for it
        return [await calls[0]]
    answers = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
        answers.append(outcome)
    return answers
