"""
A ledger that admits out of slices: see `tokenweir.core.lease` and docs/leases.md.

An exchange all of whose limits are leased, and which no other tag has a part of, is taken
out of the slice that there is for these limits. If there is none, or it is too small, one
is asked for, once for all who wait; and if that is not to be had, the exchange itself asks
the ledger. So a lease never refuses anybody.

From then on it is a hold like any other, but for this: `Hold.lease` tells the ledger what
it is to be carved out of, whoever extends, settles or cancels it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import (
    Denied,
    Granted,
    Hold,
    Limit,
    Part,
    Settlement,
    Stale,
    amount_of,
)
from tokenweir.core.holding import account_of, share_of
from tokenweir.core.lease import Book, Lot, Slice, ends_ms
from tokenweir.core.policy import Axis
from tokenweir.ending import end_tasks
from tokenweir.ledger.base import Ledger
from tokenweir.ledger.batches import Batches
from tokenweir.ledger.store import LeaseStore

# How often slices are looked at, and what could not be given back is tried again.
TEND_SECONDS = 0.25
# How often who waits for a slice tries the next one, if others have used it up.
TRIES = 2
# For what is given back at the end; what is not is charged as lost.
CLOSE_SECONDS = 2.0
# Then the ledger has forgotten it, see `tokenweir.core.holding.TOMBSTONE_MS`.
GIVEN_UP_MS = 1_200_000

Key = tuple[str, tuple[Limit, ...]]


class LeaseEvents(Protocol):
    """What leases report."""

    def admitted(self, *, by_lease: bool) -> None:
        """An exchange that could be admitted out of a slice was, or asked the ledger."""

    def slice_taken(self, exchanges: int) -> None:
        """The ledger has granted a slice for so many exchanges; 0: it has not."""


class LeasedLedger:
    """
    A `tokenweir.ledger.base.Ledger` over another one that may be asked less.

    Args:
        ledger: Asked for all that is not leased.
        store: Of that ledger.
        events: Told of slices.
        is_silent: Tells if the ledger gives no answer just now.
        now_ms: The time that ids are made of, since 1970.
        clock_ms: What never steps back.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: LeaseStore,
        events: LeaseEvents,
        *,
        is_silent: Callable[[], bool],
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._events = events
        self._is_silent = is_silent
        self._now_ms = now_ms
        self._clock_ms = clock_ms
        self._batches = Batches(store)
        self._books: dict[Key, Book] = {}
        self._asking: dict[Key, asyncio.Task[None]] = {}
        self._owed: list[tuple[str, Slice]] = []
        self._tending: asyncio.Task[None] | None = None

    async def reserve(self, hold: Hold) -> Granted | Denied | Stale:
        """See `tokenweir.ledger.base.Ledger.reserve`."""
        if not _can_be_leased(hold):
            return await self._ledger.reserve(hold)
        [part] = hold.parts
        key = (part.tag, part.limits)
        book = self._books.get(key)
        if book is None:
            book = self._books[key] = Book(part.limits)
            self._tend()
        book.arrive(hold.amounts, self._clock_ms())
        granted = None
        if not self._is_silent():
            granted = self._admit(book, hold) or await self._admit_later(
                key, book, hold
            )
        elif all(limit.bounded for limit in part.limits):
            granted = self._admit(book, hold)
        self._events.admitted(by_lease=granted is not None)
        return granted or await self._ledger.reserve(hold)

    async def extend(self, hold: Hold, output_tokens: int) -> None:
        """See `tokenweir.ledger.base.Ledger.extend`."""
        await self._ledger.extend(hold, output_tokens)

    async def settle(self, hold: Hold, settlement: Settlement) -> None:
        """See `tokenweir.ledger.base.Ledger.settle`."""
        if not hold.lease:
            await self._ledger.settle(hold, settlement)
            return
        [part] = hold.parts
        share = share_of(hold, part, keeps_record=True)
        account = account_of(hold, settlement, keeps_record=True)
        await self._batches.settle(part.tag, share, account)

    async def cancel(self, hold: Hold, *, unclaimed_only: bool = False) -> bool:
        """See `tokenweir.ledger.base.Ledger.cancel`."""
        return await self._ledger.cancel(hold, unclaimed_only=unclaimed_only)

    async def epoch(self) -> str:
        """See `tokenweir.ledger.base.Ledger.epoch`."""
        return await self._ledger.epoch()

    async def ping(self) -> None:
        """See `tokenweir.ledger.base.Ledger.ping`."""
        await self._ledger.ping()

    async def close(self) -> None:
        """Give everything back that can be, and close the ledger."""
        asking = tuple(self._asking.values())
        await end_tasks(*asking, patience_seconds=CLOSE_SECONDS)
        await end_tasks(self._tending)
        for (tag, _), book in self._books.items():
            self._owe(tag, book.swap(None))
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._batches.flush()
                await self._give_back()
        except TimeoutError:
            pass  # it will be charged as lost
        await self._ledger.close()

    def leased(self) -> Iterator[tuple[Limit, int]]:
        """Yield each limit of each slice, and what is left to admit out of it."""
        for book in tuple(self._books.values()):  # who scrapes may be another thread
            found = book.slice
            if found is not None:
                for limit in book.limits:
                    yield limit, _free(limit, found)

    # === slices ================================================================

    def _admit(self, book: Book, hold: Hold) -> Granted | None:
        found = book.take(hold.amounts, self._clock_ms())
        if found is None:
            return None
        return Granted(self._store.epoch, found.states_now(), lease=found.id)

    async def _admit_later(self, key: Key, book: Book, hold: Hold) -> Granted | None:
        """Admit out of a new slice; None: there is none, or it is used up already."""
        for _ in range(TRIES):
            asking = self._asking.get(key)
            if asking is None:
                if self._lot(book, hold) is None:
                    break
                asking = asyncio.create_task(self._ask(book, hold))
                self._asking[key] = asking
                asking.add_done_callback(lambda _: self._asking.pop(key, None))
            # Whoever is cancelled leaves it to the others.
            await asyncio.wait([asking])
            if (granted := self._admit(book, hold)) is not None:
                return granted
        return None

    def _lot(self, book: Book, hold: Hold) -> Lot | None:
        return book.lot(hold.amounts, self._clock_ms(), self._free_of(book))

    async def _ask(self, book: Book, hold: Hold) -> None:
        # Once more: by now all have come that come in this turn of the loop.
        lot = self._lot(book, hold)
        if lot is None:
            return
        asked_ms = self._clock_ms()
        name = f"{self._store.epoch}-{self._now_ms():x}-{secrets.token_hex(8)}.lease"
        [part] = hold.parts
        subject = replace(hold.subject, request_id="", user=_user_of(hold, part))
        lease = replace(hold, id=name, amounts=lot.amounts, subject=subject)
        share = share_of(lease, part, keeps_record=True)
        share = replace(share, slots=lot.exchanges)
        made = Slice(name, lot.exchanges, lot.amounts, asked_ms, asked_ms, 0)
        try:
            answer = await self._store.reserve(part.tag, share)
        except LedgerUnavailableError:
            # It may have been granted all the same.
            self._owed.append((part.tag, made))
            answer = None
        if isinstance(answer, Granted):
            end_ms = ends_ms(answer.states, asked_ms)
            made = replace(made, ends_ms=end_ms, states=answer.states)
            self._owe(part.tag, book.swap(made))
            self._events.slice_taken(lot.exchanges)
        else:
            book.refused(self._clock_ms())
            self._events.slice_taken(0)

    def _free_of(self, but: Book) -> Callable[[Limit], int]:
        """Return what tells how much of a limit other slices have left."""
        slices = [
            (limit, book.slice)
            for book in self._books.values()
            if book is not but and book.slice is not None
            for limit in book.limits
        ]
        return lambda limit: sum(
            _free(other, found) for other, found in slices if other == limit
        )

    # === what is given back ====================================================

    def _owe(self, tag: str, rest: Slice | None) -> None:
        if rest is not None:
            self._owed.append((tag, rest))

    def _tend(self) -> None:
        if self._tending is None or self._tending.done():
            self._tending = asyncio.create_task(self._tend_all())

    async def _tend_all(self) -> None:
        """Look after slices as long as there are any."""
        while self._books or self._owed or self._asking:
            await asyncio.sleep(TEND_SECONDS)
            now_ms = self._clock_ms()
            for key, book in tuple(self._books.items()):
                if book.slice is not None and self._is_done_with(book.slice, now_ms):
                    self._owe(key[0], book.swap(None))
                if book.is_idle(now_ms) and key not in self._asking:
                    del self._books[key]
            await self._give_back()

    def _is_done_with(self, found: Slice, now_ms: int) -> bool:
        # Of a ledger that is silent it is all that there is.
        is_idle = found.is_idle(now_ms) and not self._is_silent()
        return is_idle or found.is_over(now_ms)

    async def _give_back(self) -> None:
        owed, self._owed = self._owed, []
        calls = [self._give(tag, rest) for tag, rest in owed]
        given = await asyncio.gather(*calls, return_exceptions=True)
        self._owed += [
            each
            for each, outcome in zip(owed, given, strict=True)
            if isinstance(outcome, LedgerUnavailableError)
            and self._clock_ms() - each[1].made_ms < GIVEN_UP_MS
        ]

    async def _give(self, tag: str, rest: Slice) -> None:
        if rest.ends_ms:
            await self._store.give_back(tag, rest.id, rest.free, rest.exchanges)
        else:  # nobody knows if it was granted: now it is not, or no more
            await self._store.cancel(tag, rest.id, unclaimed_only=False)


def _can_be_leased(hold: Hold) -> bool:
    if len(hold.parts) != 1:
        return False
    limits = hold.parts[0].limits
    return bool(limits) and all(each.leased and not each.shadow for each in limits)


def _user_of(hold: Hold, part: Part) -> str:
    """Return the end user whose limits these are, if they are one's."""
    is_ones = any("user=" in limit.partition for limit in part.limits)
    return hold.subject.user if is_ones else ""


def _free(limit: Limit, found: Slice) -> int:
    if limit.axis is Axis.CONCURRENCY:
        return found.exchanges
    return amount_of(limit.axis, found.free)
