"""What the driver needs from a ledger."""

from __future__ import annotations

from typing import Protocol

from tokenweir.core.hold import Denied, Granted, Hold, Settlement, Stale


class Ledger(Protocol):
    """
    Levels, holds and usage records.

    Every verb is idempotent by hold id, and atomic per tag. All of them raise
    `tokenweir.core.errors.LedgerUnavailableError` if there was no answer in
    time; the call may have been applied all the same.
    """

    async def reserve(self, hold: Hold) -> Granted | Denied | Stale:
        """
        Take the hold's amounts from every limit, or from none.

        Tag by tag, the tenant's first; a denial under a later tag cancels the
        earlier ones. The same id again gets the same answer. If it was denied or
        stale, the next try needs an id of its own: this one may have a tombstone.
        """

    async def extend(self, hold: Hold, output_tokens: int) -> None:
        """
        Renew the hold's expiry, claim it, and report progress.

        *output_tokens* is what was generated so far. What is above the reserved
        output is debited at once. A hold that was reaped comes back as debt.
        """

    async def settle(self, hold: Hold, settlement: Settlement) -> None:
        """
        Replace the hold by what was used, and write the usage record.

        A second settle of the same id changes nothing, unless the first was the
        reaper's estimate or a cancel for want of a claim: that it corrects.
        """

    async def cancel(self, hold: Hold, *, unclaimed_only: bool = False) -> bool:
        """
        Give the whole hold back: nothing was forwarded.

        An unknown id leaves a tombstone, so that a late reserve is refused.
        With *unclaimed_only* a hold that was ever extended stays as it is.

        Returns:
            Whether the hold was nobody's: False if it was claimed or settled.
        """

    async def epoch(self) -> str:
        """Return the newest epoch seen, or ``"0"`` before the first answer."""

    async def ping(self) -> None:
        """Ask for an answer, for readiness."""

    async def close(self) -> None:
        """Give connections back."""
