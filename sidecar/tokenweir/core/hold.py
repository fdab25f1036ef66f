"""
What an exchange has taken and not yet accounted for.

A hold describes itself: whoever has one can extend, settle or cancel it without
the policy that it was made under. So it can cross from one processor to another
(in Envoy's dynamic metadata), outlive the process that made it, and be settled
by a stranger.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import assert_never

from tokenweir.core.policy import Axis
from tokenweir.core.rejection import QuotaFailure
from tokenweir.core.usage import Source, TokenUsage


@dataclass(frozen=True, slots=True)
class Limit:
    """
    A quota as it applies to one partition: what the ledger keeps a level for.

    Attributes:
        quota: The quota's id.
        axis: What is limited.
        partition: Whose: ``"tenant=acme,model=gpt-4o"``; of users their code, see
            `tokenweir.core.partition.user_code`.
        rate: Per minute; for concurrency and budgets 0.
        capacity: Tokens, requests, slots or nano-USD.
        shadow: Evaluated and reported, not enforced.
        turns: Of a budget: the bounds of three windows (see `core.budget`).
        thresholds: Ditto: shares of the capacity that are told, in percent.
        hard_limit: Ditto: what is enforced instead of the capacity, if it is above.
        staggered: Who is refused is told a moment of its own (see `core.stagger`).
        queue: Who is told moments one after the other: the tenant's callers, by its
            code, where others have the limit, too; ``""``: all.
        leased: May be admitted out of a slice of it (see `core.lease`).
        bounded: Ditto, also while the ledger is silent.
    """

    quota: str
    axis: Axis
    partition: str
    rate: int
    capacity: int
    shadow: bool = False
    turns: tuple[int, ...] = ()
    thresholds: tuple[int, ...] = ()
    hard_limit: int = 0
    staggered: bool = False
    queue: str = ""
    leased: bool = False
    bounded: bool = False

    @property
    def most(self) -> int:
        """What is enforced."""
        return max(self.capacity, self.hard_limit)


@dataclass(frozen=True, slots=True)
class Amounts:
    """What is taken or was used: *requests*, *input* and *output* tokens, and cost."""

    requests: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nanousd: int = 0


def amount_of(axis: Axis, amounts: Amounts) -> int:
    """Return what a limit on *axis* counts of *amounts*."""
    match axis:
        case Axis.REQUESTS:
            return amounts.requests
        case Axis.TOKENS | Axis.BUDGET_TOKENS:
            return amounts.input_tokens + amounts.output_tokens
        case Axis.INPUT_TOKENS:
            return amounts.input_tokens
        case Axis.OUTPUT_TOKENS:
            return amounts.output_tokens
        case Axis.CONCURRENCY:
            return 1
        case Axis.BUDGET_USD:
            return amounts.cost_nanousd
        case _:
            assert_never(axis)


@dataclass(frozen=True, slots=True)
class Part:
    """
    The share of a hold under one tag (Cluster hash tag).

    Attributes:
        tag: Such as ``"tw:017"``; all keys of one call live under it.
        limits: Those under the tag.
    """

    tag: str
    limits: tuple[Limit, ...]


def quotas_in(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Return the ids of all quotas in *parts*."""
    return tuple(limit.quota for part in parts for limit in part.limits)


# In place of a cap that the app did not set.
UNSET = "unset"
# Flag of an exchange whose answer ended because it reached the policy's cap.
CAP_REACHED = "cap_reached"


@dataclass(frozen=True, slots=True)
class Subject:
    """
    Who asked whom for what: the labels of a usage record. No secret in it.

    *downgraded_from* is the model that the app asked for, if another one answers.
    *capped_from* is the app's own cap on output tokens if the policy has put a lower one
    in its place, `UNSET` if the app had none, ``""`` if its cap was left as it is; and
    *output_cap* the number that was written, ``""`` if none was. *path* is who reads the
    answer, see `tokenweir.core.response_path`.
    """

    tenant: str
    key_id: str
    user: str
    route: str
    model: str
    provider: str
    request_id: str = ""
    policy: str = ""
    downgraded_from: str = ""
    capped_from: str = ""
    output_cap: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """
    Attributes:
        id: ``<epoch>-<milliseconds in hex>-<random>``, made by the caller.
        parts: By tag; the tenant's first. It is the one that keeps the records.
        amounts: What was reserved: the worst case.
        subject: Who asked whom for what.
        output_nanousd: Of each output token, rounded down: what an exchange that
            nobody settles is charged less or more for.
        lease: Id of the hold that it is a part of until it is extended or ends, see
            `tokenweir.core.lease`; ``""``: it is one of its own.
    """

    id: str
    parts: tuple[Part, ...]
    amounts: Amounts
    subject: Subject
    output_nanousd: int = 0
    lease: str = ""


class Outcome(enum.StrEnum):
    """How an exchange ended."""

    COMPLETED = "completed"
    CUT = "cut"  # the client left, or the provider reset: Envoy doesn't say which
    UPSTREAM_FAILED = "upstream_failed"  # error status, reset, error in the stream
    DRAINED = "drained"  # the processor had to leave before the end
    LOST = "lost"  # nobody settled it: the reaper did


@dataclass(frozen=True, slots=True)
class Settlement:
    """
    What replaces a hold.

    Attributes:
        usage: By class; all zero if the provider refused before any work.
        source: Where the figures come from.
        outcome: How it ended.
        requests: Attempts that were sent to providers.
        status: The HTTP status that the client saw; 0: none.
        model: As the provider named it, or None.
        duration_ms: From the request's head to the end.
        first_token_ms: From there to the first generated text, or None.
        flags: Such as ``"ledger_open"``.
        cost_nanousd: Of the whole exchange.
        saved_nanousd: By a downgrade: what the model that was asked for would have cost
            for the same tokens, without the cost; 0: nothing, or not known.
        cap_saved_nanousd: At the most, by the policy's cap on output, if the answer has
            reached it; 0: nothing, or not known.
    """

    usage: TokenUsage
    source: Source
    outcome: Outcome
    requests: int = 1
    status: int = 0
    model: str | None = None
    duration_ms: int = 0
    first_token_ms: int | None = None
    flags: tuple[str, ...] = ()
    cost_nanousd: int = 0
    saved_nanousd: int = 0
    cap_saved_nanousd: int = 0

    @property
    def amounts(self) -> Amounts:
        """What the limits are charged."""
        return Amounts(
            self.requests,
            self.usage.total_input_tokens,
            self.usage.total_output_tokens,
            self.cost_nanousd,
        )


@dataclass(frozen=True, slots=True)
class LimitState:
    """How a limit stands: *remaining* after this call, and the time until full."""

    limit: Limit
    remaining: int
    reset_ms: int


@dataclass(frozen=True, slots=True)
class Granted:
    """
    The hold exists.

    Attributes:
        epoch: The ledger's, for the ids to come.
        states: Of every limit that was taken from.
        shadowed: Quotas in shadow mode that would have refused.
        lease: See `Hold`.
    """

    epoch: str
    states: tuple[LimitState, ...] = ()
    shadowed: tuple[QuotaFailure, ...] = ()
    lease: str = ""


@dataclass(frozen=True, slots=True)
class Stale:
    """
    Nothing was taken: the budgets' windows do not cover the ledger's present.

    Attributes:
        epoch: The ledger's.
        now_ms: By the ledger's clock: compute the windows for that moment.
    """

    epoch: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Denied:
    """Nothing was taken. *failures*: every enforced limit that failed, per tag."""

    epoch: str
    failures: tuple[QuotaFailure, ...]
    shadowed: tuple[QuotaFailure, ...] = ()
