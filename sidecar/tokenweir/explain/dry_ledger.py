"""A ledger that answers as the real one would now, and takes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenweir.core.budget import window_at
from tokenweir.core.calibration import Learned
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import (
    Denied,
    Granted,
    Hold,
    Limit,
    LimitState,
    Settlement,
    Stale,
    amount_of,
)
from tokenweir.core.holding import Account, Share
from tokenweir.core.levels import Levels
from tokenweir.core.policy import BUDGETS
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.tag import Tag
from tokenweir.ledger.calibration import Spot
from tokenweir.ledger.levels_reader import LevelSource
from tokenweir.ledger.tagged import TaggedLedger


@dataclass(frozen=True, slots=True)
class Standing:
    """
    How one limit stands for one try.

    Attributes:
        limit: The limit.
        requested: What the try asks of it.
        before: What is left, and the time until full.
        after: Ditto, once the try was granted or denied.
        failure: Why the try does not fit, in shadow mode too; None: it does.
    """

    limit: Limit
    requested: int
    before: LimitState
    after: LimitState
    failure: QuotaFailure | None


@dataclass(frozen=True, slots=True)
class Reserving:
    """
    One hold that was asked for.

    Attributes:
        hold: What was asked.
        outcome: What the ledger would say.
        standings: Of the limits, as far as they were looked at.
    """

    hold: Hold
    outcome: Granted | Denied | Stale
    standings: tuple[Standing, ...]


class NothingUsed:
    """A `LevelSource` of a ledger that nobody has used yet."""

    async def now_ms(self) -> int:
        """See `LevelSource`: by this machine's clock."""
        return time.time_ns() // 1_000_000

    async def levels(
        self,
        tag: str,  # noqa: ARG002, there is nothing under any
        limits: Sequence[Limit],  # noqa: ARG002
        now_ms: int,  # noqa: ARG002
    ) -> Levels:
        """See `LevelSource`."""
        return Levels()

    async def learned(self, tenant: str) -> Mapping[Spot, Learned]:  # noqa: ARG002
        """See `LevelSource`."""
        return {}


class DryLedger:
    """
    A `tokenweir.ledger.base.Ledger` that only looks.

    Args:
        source: Where to look.
        now_ms: The moment that is asked about.

    Attributes:
        reservings: The holds that were asked for, in order.
        failure: Why *source* could not be asked, or None.
    """

    def __init__(self, source: LevelSource, now_ms: int) -> None:
        self.reservings: list[Reserving] = []
        self.failure: LedgerUnavailableError | None = None
        self._store = _DryStore(source, now_ms)
        self._tagged = TaggedLedger(self._store)

    async def reserve(self, hold: Hold) -> Granted | Denied | Stale:
        """See `Ledger.reserve`: the answer that there would be."""
        self._store.standings.clear()
        try:
            outcome = await self._tagged.reserve(hold)
        except LedgerUnavailableError as error:
            self.failure = error
            raise
        standings = tuple(self._store.standings)
        self.reservings.append(Reserving(hold, outcome, standings))
        return outcome

    async def extend(self, hold: Hold, output_tokens: int) -> None:
        """See `Ledger.extend`: there is nothing to renew."""

    async def settle(self, hold: Hold, settlement: Settlement) -> None:
        """See `Ledger.settle`: there is nothing to replace."""

    async def cancel(
        self,
        hold: Hold,  # noqa: ARG002, there is nothing to give back
        *,
        unclaimed_only: bool = False,  # noqa: ARG002
    ) -> bool:
        """See `Ledger.cancel`."""
        return True

    async def epoch(self) -> str:
        """See `Ledger.epoch`."""
        return self._store.epoch

    async def ping(self) -> None:
        """See `Ledger.ping`."""

    async def close(self) -> None:
        """See `Ledger.close`."""


class _DryStore:
    """A `TagStore` whose tags are copies, made for one call each."""

    epoch = "0"

    def __init__(self, source: LevelSource, now_ms: int) -> None:
        self.standings: list[Standing] = []
        self._source = source
        self._now_ms = now_ms

    async def reserve(self, tag: str, share: Share) -> Granted | Denied | Stale:
        """Reserve in a copy, and note how each limit stands before and after."""
        now_ms, limits = self._now_ms, share.limits
        levels = await self._source.levels(tag, limits, now_ms)
        copy = Tag(levels=levels)
        if any(
            limit.axis in BUDGETS and window_at(limit.turns, now_ms) is None
            for limit in limits
        ):
            return _some(copy.reserve(share, now_ms))
        before = [levels.state(limit, now_ms) for limit in limits]
        failures = [levels.failure(limit, share.amounts, now_ms) for limit in limits]
        answer = _some(copy.reserve(share, now_ms))
        self.standings += [
            Standing(
                limit,
                amount_of(limit.axis, share.amounts),
                state,
                levels.state(limit, now_ms),
                failure,
            )
            for limit, state, failure in zip(limits, before, failures, strict=True)
        ]
        return answer

    async def extend(self, tag: str, share: Share, output_tokens: int) -> None:
        """Nothing is held."""

    async def settle(self, tag: str, share: Share, account: Account) -> None:
        """Nothing is held."""

    async def cancel(
        self,
        tag: str,  # noqa: ARG002
        hold_id: str,  # noqa: ARG002
        *,
        unclaimed_only: bool,  # noqa: ARG002
        share: Share | None = None,  # noqa: ARG002
    ) -> bool:
        """Nothing is held."""
        return True

    async def ping(self) -> None:
        """It is here."""

    async def close(self) -> None:
        """There is nothing to close."""


def _some(answer: Granted | Denied | Stale | None) -> Granted | Denied | Stale:
    assert answer is not None, "a copy knows no hold that has ended"
    return answer
