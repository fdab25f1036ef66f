"""The ledger's store in Redis or Valkey: one script a verb, see ``lua/``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tokenweir.core.bucket import bounded
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Amounts, Denied, Granted, Stale
from tokenweir.core.holding import HOLD_MS, Account, Holding, Share, State
from tokenweir.core.lease import AGE_MS
from tokenweir.ledger import keys, reader, scripts, wire
from tokenweir.ledger.evaluation import Command
from tokenweir.ledger.link import DEADLINE_SECONDS, Link
from tokenweir.ledger.scripts import Script
from tokenweir.ledger.store import Contact, Rollup, Snapshot
from tokenweir.telemetry.hooks import LedgerEvents

# The most expired holds that one round of a sweep charges under one tag: a few
# milliseconds' work, so that no exchange waits long behind it.
SWEPT_PER_CALL = 50

# A tuple, since not every answer can be hashed.
_KNOWN_STATES = (b"", *(state.encode() for state in State))


class RedisStore:
    """
    A `tokenweir.ledger.store.TagStore`, `Sweepable`, `Tallying` and `Readable`.

    Args:
        url: See `tokenweir.ledger.address`.
        events: Told of calls, of reaped holds and of faults.
        deadline_seconds: Of each call.
        hold_ms: How long a hold lives without being extended.
        now_ms: Replaces the server's clock, for tests; None: the server's.
    """

    def __init__(
        self,
        url: str,
        events: LedgerEvents,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        hold_ms: int = HOLD_MS,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._link = Link(url, events, deadline_seconds=deadline_seconds)
        self._events = events
        self._hold_ms = hold_ms
        self._now_ms = now_ms
        self._epoch = "0"
        self._epochs: dict[str, str] = {}

    @property
    def epoch(self) -> str:
        """The newest epoch seen; ``"0"`` before the first answer."""
        return self._epoch

    @property
    def link(self) -> Link:
        """The way to the server, for who reads beside the ledger."""
        return self._link

    @property
    def contact(self) -> Contact:
        """How long ago the server was heard of."""
        return self._link.contact

    def epochs(self, tags: Iterable[str]) -> Mapping[str, str]:
        """Return the epoch of each of *tags*, as it was told last; ``""``: never."""
        return {tag: self._epochs.get(tag, "") for tag in tags}

    async def stands(self, epochs: Mapping[str, str]) -> bool:
        """
        Tell if these are the epochs of tags still: they have not begun anew.

        Raises: LedgerUnavailableError.
        """
        asked = [("GET", keys.epoch(tag)) for tag in epochs]
        found = await self._link.read(asked)
        return found == [epoch.encode() for epoch in epochs.values()]

    async def eviction(self) -> str | None:
        """
        Return how a server would drop keys for want of memory.

        ``""``: it drops none; None: it does not tell. All of our keys have an expiry,
        so that each policy but ``noeviction`` can hit them.

        Raises:
            LedgerUnavailableError: There was no answer in time.
        """
        told = await self._link.info("memory")
        policies = [_evicting(each) for each in told if "maxmemory_policy" in each]
        return max(policies, default=None)

    async def reserve(self, tag: str, share: Share) -> Granted | Denied | Stale:
        """See `tokenweir.ledger.store.TagStore.reserve`."""
        more = AGE_MS if share.slots > 1 else 0
        reply = await self._run(
            scripts.RESERVE, tag, [self._hold_ms + more, *wire.share_arguments(share)]
        )
        try:
            verdict, epoch, reaped, rows, crossings = reply
            known = max(self._epoch, epoch.decode(), key=int)
            answer = wire.answer_of(share, verdict, epoch.decode(), rows.decode())
            self._tell(crossings)
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise self._nonsense(error) from error
        self._epoch = known
        self._epochs[tag] = epoch.decode()
        self._count_reaped(reaped)
        if answer is None:
            raise LedgerUnavailableError("the hold had ended before it was made")
        return answer

    async def extend(self, tag: str, share: Share, output_tokens: int) -> None:
        """See `tokenweir.ledger.store.TagStore.extend`."""
        progress = [self._hold_ms, bounded(output_tokens)]
        arguments = [*progress, *wire.share_arguments(share)]
        await self._move(scripts.EXTEND, tag, arguments)

    async def settle(self, tag: str, share: Share, account: Account) -> None:
        """See `tokenweir.ledger.store.TagStore.settle`."""
        await self.settle_all(tag, [(share, account)])

    async def settle_all(
        self, tag: str, ended: Sequence[tuple[Share, Account]]
    ) -> None:
        """See `tokenweir.ledger.store.TagStore.settle_all`."""
        arguments: list[wire.Argument] = [len(ended)]
        for share, account in ended:
            arguments += wire.account_arguments(account)
            arguments += wire.share_arguments(share)
        await self._move(scripts.SETTLE, tag, arguments)

    async def cancel(
        self,
        tag: str,
        hold_id: str,
        *,
        unclaimed_only: bool,
        share: Share | None = None,
    ) -> bool:
        """See `tokenweir.ledger.store.TagStore.cancel`."""
        rest = [0] if share is None else [1, *wire.share_arguments(share)]
        arguments = [hold_id, int(unclaimed_only), *rest]
        [was] = await self._move(scripts.CANCEL, tag, arguments)
        return was not in (State.CLAIMED.encode(), State.SETTLED.encode())

    async def give_back(
        self, tag: str, lease_id: str, amounts: Amounts, slots: int
    ) -> None:
        """See `tokenweir.ledger.store.TagStore.give_back`."""
        arguments = [lease_id, *wire.amounts_arguments(amounts), slots]
        await self._move(scripts.GIVE_BACK, tag, arguments)

    async def tally(self, tag: str, hour: int, sums: Mapping[str, int]) -> None:
        """See `tokenweir.ledger.store.Tallying.tally`."""
        await self._run(scripts.TALLY, tag, [hour, *wire.pairs(sums)])

    async def lead(self, owner: str, lease_ms: int) -> bool:
        """See `tokenweir.ledger.store.Sweepable.lead`."""
        arguments: Command = [owner, lease_ms]
        reply = await self._link.run(scripts.LEASE, keys.SWEEPER_LEASE, arguments)
        return bool(reply)

    async def sweep(self, tags: Sequence[str]) -> int:
        """See `tokenweir.ledger.store.Sweepable.sweep`."""
        total = 0
        left = list(tags)
        while left:
            roots = [keys.root(tag) for tag in left]
            arguments: Command = [self._now(), SWEPT_PER_CALL]
            replies = await self._link.run_all(scripts.SWEEP, roots, arguments)
            counts = [count for count, _ in replies]
            for _, crossings in replies:
                self._tell(crossings)
            self._count_reaped(sum(counts))
            total += sum(counts)
            left = [
                tag
                for tag, count in zip(left, counts, strict=True)
                if count == SWEPT_PER_CALL
            ]
        return total

    async def snapshot(self, tag: str) -> Snapshot:
        """See `tokenweir.ledger.store.Readable.snapshot`."""
        return await reader.snapshot(self._link, tag)

    async def holdings(self, tags: Sequence[str]) -> Sequence[Holding]:
        """See `tokenweir.ledger.store.Readable.holdings`."""
        return await reader.holdings(self._link, tags)

    async def rollups(
        self,
        tags: Sequence[str],
        first_hour: int,
        last_hour: int,
        *,
        with_users: bool = False,
    ) -> Sequence[Rollup]:
        """See `tokenweir.ledger.store.Readable.rollups`."""
        found = await reader.rollups(self._link, tags, first_hour, last_hour)
        return await reader.with_users(self._link, found) if with_users else found

    async def ping(self) -> None:
        """See `tokenweir.ledger.store.TagStore.ping`."""
        await self._link.ping()

    async def close(self) -> None:
        """See `tokenweir.ledger.store.TagStore.close`."""
        await self._link.close()

    async def _move(
        self, script: Script, tag: str, arguments: Command
    ) -> Sequence[bytes]:
        """Run what answers in which state each hold was, and return that."""
        reply = await self._run(script, tag, arguments)
        try:
            told, crossings, *epoch = reply
            self._tell(crossings)
            if epoch:
                self._epochs[tag] = epoch[0].decode()
        except (AttributeError, TypeError, ValueError) as error:
            raise self._nonsense(error) from error
        states = told if isinstance(told, list) else [told]
        if all(state in _KNOWN_STATES for state in states):
            return states
        raise self._nonsense(ValueError("no state of a hold"))

    def _tell(self, crossings: Sequence[bytes]) -> None:
        for text in crossings:
            self._events.budget_crossed(wire.crossing_of(text.decode()))

    def _nonsense(self, error: Exception) -> LedgerUnavailableError:
        # Whoever said that is not our script. It may have run all the same.
        self._events.fault("ledger", error)
        return LedgerUnavailableError("an answer of no sense")

    async def _run(self, script: Script, tag: str, arguments: Command) -> Any:
        return await self._link.run(script, keys.root(tag), [self._now(), *arguments])

    def _now(self) -> str:
        return "" if self._now_ms is None else str(self._now_ms())

    def _count_reaped(self, count: int) -> None:
        if count:
            self._events.holds_reaped(count)


def _evicting(told: Mapping[str, Any]) -> str:
    policy = str(told["maxmemory_policy"])
    return policy if told.get("maxmemory") and policy != "noeviction" else ""
