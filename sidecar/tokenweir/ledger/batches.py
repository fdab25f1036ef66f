"""
Settles of exchanges under leases, many in one call.

Whoever settles waits until its batch was taken, or was not: so what stands behind it, a
spool, learns the same as of a call of its own. A batch goes out once it is full, or a
moment after its first came. What a processor that is killed had in it is charged as lost,
with the lease that it belongs to.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.core.holding import Account, Share
from tokenweir.ledger.store import LeaseStore

# As long as a batch waits for more, and as many as it has at most: a millisecond's work
# for the server.
SECONDS, MOST = 0.2, 64


@dataclass
class _Batch:
    ended: list[tuple[Share, Account]] = field(default_factory=list)
    outcome: asyncio.Future[LedgerUnavailableError | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    timer: asyncio.TimerHandle | None = None


class Batches:
    """
    Args:
        store: Takes them.
    """

    def __init__(self, store: LeaseStore) -> None:
        self._store = store
        self._open: dict[str, _Batch] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def settle(self, tag: str, share: Share, account: Account) -> None:
        """See `tokenweir.ledger.store.TagStore.settle`."""
        batch = self._open.get(tag)
        if batch is None:
            batch = self._open[tag] = _Batch()
            loop = asyncio.get_running_loop()
            batch.timer = loop.call_later(SECONDS, self._send, tag)
        batch.ended.append((share, account))
        if len(batch.ended) >= MOST:
            self._send(tag)
        error = await asyncio.shield(batch.outcome)
        if isinstance(error, LedgerRefusedError):
            # It may be about another one: what was taken is not taken twice.
            await self._store.settle(tag, share, account)
        elif error is not None:
            raise type(error)(*error.args)

    async def flush(self) -> None:
        """Send what waits, and return once all of it was taken or was not."""
        for tag in tuple(self._open):
            self._send(tag)
        await asyncio.gather(*self._sending, return_exceptions=True)

    def _send(self, tag: str) -> None:
        batch = self._open.pop(tag)
        assert batch.timer is not None, "has been set with the first"
        batch.timer.cancel()
        sending = asyncio.create_task(self._deliver(tag, batch))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _deliver(self, tag: str, batch: _Batch) -> None:
        error: LedgerUnavailableError | None = LedgerUnavailableError("was given up")
        try:
            await self._store.settle_all(tag, batch.ended)
            error = None
        except LedgerUnavailableError as unavailable:
            error = unavailable
        finally:
            if not batch.outcome.done():
                batch.outcome.set_result(error)
