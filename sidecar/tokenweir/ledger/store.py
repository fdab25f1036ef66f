"""What a ledger is made of: declarations, and no logic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tokenweir.core.bucket import Bucket
from tokenweir.core.budget import Spending
from tokenweir.core.hold import Amounts, Denied, Granted, Stale
from tokenweir.core.holding import Account, Holding, Share
from tokenweir.core.slots import Slots


@dataclass(frozen=True, slots=True)
class Contact:
    """
    How long ago a ledger was heard of.

    Attributes:
        answered_at: When it last answered anything, in seconds of
            `time.monotonic`; None: never.
        unanswered: Calls since then that had no answer, of any kind.
    """

    answered_at: float | None = None
    unanswered: int = 0


class TagStore(Protocol):
    """
    Levels, holds and records by tag. Each call is atomic, and idempotent by hold id.

    All of them raise `tokenweir.core.errors.LedgerUnavailableError` if there was no
    answer in time; the call may have been applied all the same.
    """

    @property
    def epoch(self) -> str:
        """The newest epoch seen; ``"0"`` before the first answer."""

    async def reserve(self, tag: str, share: Share) -> Granted | Denied | Stale:
        """
        Take the share's amounts from every limit, or from none.

        A hold that has ended already is no outcome that a client could be told of:
        it raises `tokenweir.core.errors.LedgerUnavailableError`.
        """

    async def extend(self, tag: str, share: Share, output_tokens: int) -> None:
        """Renew a hold, claim it, and report progress."""

    async def settle(self, tag: str, share: Share, account: Account) -> None:
        """Replace a hold by what was used, and write the record."""

    async def cancel(
        self,
        tag: str,
        hold_id: str,
        *,
        unclaimed_only: bool,
        share: Share | None = None,
    ) -> bool:
        """
        Give a whole hold back; return False if somebody has claimed or settled it.

        *share* is what it is, if it may be a part of a lease.
        """

    async def ping(self) -> None:
        """Ask for an answer."""

    async def close(self) -> None:
        """Give connections back."""


class LeaseStore(TagStore, Protocol):
    """What leases need besides."""

    async def settle_all(
        self, tag: str, ended: Sequence[tuple[Share, Account]]
    ) -> None:
        """Settle several, one after the other."""

    async def give_back(
        self, tag: str, lease_id: str, amounts: Amounts, slots: int
    ) -> None:
        """Give *amounts* of a lease back: nobody is admitted out of those *slots*."""


class Sweepable(Protocol):
    """What the sweeper needs."""

    async def lead(self, owner: str, lease_ms: int) -> bool:
        """Ask to be the one who sweeps for *lease_ms*; 0: no longer."""

    async def sweep(self, tags: Sequence[str]) -> int:
        """Charge the expired holds under *tags*; return how many there were."""


class Tallying(Protocol):
    """What refusals and matched quotas are written with."""

    async def tally(self, tag: str, hour: int, sums: Mapping[str, int]) -> None:
        """
        Add to the rollup of an *hour* since 1970 what no record tells.

        Not idempotent. *sums*: by group and figure, as rollups have it. An hour that is
        yet to come, or is long over, is taken for this one or that of yesterday.
        """

    async def ping(self) -> None:
        """Ask for an answer."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    What is under one tag, for tests and for people.

    Attributes:
        epoch: See `tokenweir.core.tag.Tag`, in ms.
        buckets: By limit.
        slots: By limit.
        spendings: Of budgets, by limit and the start of the window.
        holdings: Holds and tombstones, by hold id.
        expiries: Of the holds, in ms.
        rates: Output rates (tokens per 1,000 s), by model.
        records: Usage records, the oldest first.
        rollups: By hour since 1970, then by group and figure.
        user_rollups: By hour since 1970, then by group, end user and figure.
    """

    epoch: int = 0
    buckets: Mapping[str, Bucket] = field(default_factory=dict)
    slots: Mapping[str, Slots] = field(default_factory=dict)
    spendings: Mapping[tuple[str, int], Spending] = field(default_factory=dict)
    holdings: Mapping[str, Holding] = field(default_factory=dict)
    expiries: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, int] = field(default_factory=dict)
    records: Sequence[Mapping[str, str]] = ()
    rollups: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    user_rollups: Mapping[int, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rollup:
    """
    The sums of one hour under one tag.

    Attributes:
        tag: Such as ``"tw:017"``.
        hour: Since 1970 (UTC).
        sums: By group and figure, see `tokenweir.core.record`.
        users: Ditto of exchanges that name an end user, by group, user and figure;
            empty if it was not asked for, or is no longer known.
    """

    tag: str
    hour: int
    sums: Mapping[str, int]
    users: Mapping[str, int] = field(default_factory=dict)


class Readable(Protocol):
    """The read side: for usage reports, metrics and tests."""

    async def snapshot(self, tag: str) -> Snapshot:
        """Return all that is under *tag*. Slow: it looks at every key."""

    async def holdings(self, tags: Sequence[str]) -> Sequence[Holding]:
        """Return the holds (no tombstones) under *tags*."""

    async def rollups(
        self,
        tags: Sequence[str],
        first_hour: int,
        last_hour: int,
        *,
        with_users: bool = False,
    ) -> Sequence[Rollup]:
        """Return the rollups under *tags* of these hours since 1970, both included."""
