"""The one seam between deciding and reporting."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tokenweir.core.budget import Crossing
from tokenweir.core.hold import Settlement, Subject
from tokenweir.core.rejection import QuotaFailure, Rejection


@dataclass(frozen=True, slots=True)
class ExchangeDetails:
    """
    What is known about an exchange once it is over.

    Attributes:
        subject: Who asked whom for what; parts that were not reached are ``""``.
        method: Of the request.
        hold_id: ``""`` if nothing was ever held.
        rejection: None unless the governor answered itself.
        settlement: None if nothing was forwarded.
        shadowed: Quotas in shadow mode that would have refused.
        governor_ms: Time that the request waited for the governor's decision.
        ledger_ms: The share of it that was spent waiting for the ledger.
        quotas: Ids of the quotas that applied, shadow ones too, whatever was decided.
    """

    subject: Subject
    method: str
    hold_id: str
    rejection: Rejection | None
    settlement: Settlement | None
    shadowed: tuple[QuotaFailure, ...] = ()
    governor_ms: float = 0.0
    ledger_ms: float = 0.0
    quotas: tuple[str, ...] = ()


class Delivery(enum.StrEnum):
    """What became of a try to tell a webhook something."""

    DELIVERED = "delivered"
    FAILED = "failed"  # it is tried again
    DROPPED = "dropped"  # it is given up


@dataclass(frozen=True, slots=True)
class Origin:
    """
    Where the policy in force comes from.

    Attributes:
        source: ``"file"``; ``"ledger"``: published there; ``"last_good"``: published,
            and found on this machine's disk while the ledger did not tell.
        version: As published; 0: in a file.
        by: Who published it.
        published_at_ms: When, by their clock.
        comment: Why, as they say.
        keys_version: Of the published keys that count besides; 0: there are none.
    """

    source: str = "file"
    version: int = 0
    by: str = ""
    published_at_ms: int = 0
    comment: str = ""
    keys_version: int = 0


# A policy that nobody has published.
FROM_FILE = Origin()


class OnExchangeEnd(Protocol):
    """Called once an exchange. Must not raise: a broken exporter stops no traffic."""

    def __call__(self, details: ExchangeDetails) -> None: ...


class LedgerEvents(Protocol):
    """What a ledger reports: the share of `Events` that it is given."""

    def ledger_call(
        self, verb: str, seconds: float, *, failed: bool, reason: str = ""
    ) -> None:
        """
        A ledger call ended: *verb* is ``"reserve"``, ``"settle"``, …

        *reason* is the type of what made it fail, such as ``"TimeoutError"``.
        """

    def ledger_evicts(self, policy: str) -> None:
        """
        The ledger's server was asked what it does when its memory is full.

        *policy* is how it would drop holds and levels, such as ``"allkeys-lru"``;
        ``""``: it drops nothing.
        """

    def holds_reaped(self, count: int) -> None:
        """Expired holds were charged by the reaper: nobody had settled them."""

    def budget_crossed(self, crossing: Crossing) -> None:
        """What was spent of a budget has passed a threshold, once in a window."""

    def spool_size(self, waiting: int) -> None:
        """So many settles wait for the ledger to come back."""

    def fault(self, where: str, error: BaseException) -> None:
        """Something of ours broke. The text must not carry secrets or prompts."""


class Events(LedgerEvents, Protocol):
    """
    What happens outside of any one exchange. Must not raise either.

    Each is counted, and logged where an operator has to act.
    """

    def policy_loaded(self, digest: str, origin: Origin = FROM_FILE) -> None:
        """A policy snapshot is in use from now on."""

    def policy_refused(self, problems: tuple[str, ...]) -> None:
        """A changed policy can't be used: the last good one stays."""

    def webhook(self, outcome: Delivery, waiting: int, reason: str = "") -> None:
        """
        The webhook of budgets has taken a message, or has not.

        *waiting* are those that it is still to be told. *reason* is why it was not
        taken: a status, the type of an error, or a word of ours.
        """

    def envoy_rendering(self, stale: tuple[str, ...]) -> None:
        """Envoy was rendered before the policy paths *stale* were as they are now."""

    def quotas_ineffective(self, digest: str, found: Mapping[str, str]) -> None:
        """
        A policy, or its keys, have changed and its quotas were looked at.

        *found* are those that have no effect, by id, and why: a closed list.
        """
