"""What a caller is told whose request does not fit now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tokenweir.core.hold import Denied, Hold
from tokenweir.core.policy import Quota
from tokenweir.core.rejection import (
    QuotaExhausted,
    QuotaFailure,
    Rejection,
    Unsatisfiable,
)


def exhausted(
    hold: Hold, denied: Denied, quotas: Mapping[str, Quota], now_ms: int
) -> QuotaExhausted:
    """
    Return why *hold* was denied, the longest wait first.

    Args:
        hold: What was asked for.
        denied: The ledger's answer; it names at least one failure.
        quotas: Those of the caller, by id.
        now_ms: The moment.
    """
    failures = [_dated(failure, hold, quotas, now_ms) for failure in denied.failures]
    failures.sort(key=lambda failure: failure.wait_ms, reverse=True)
    return QuotaExhausted(hold.subject.tenant, tuple(failures))


def why_not(why: Rejection, spent: QuotaExhausted | None) -> Rejection:
    """
    Return what a caller is told whose last chance failed because of *why*.

    What a model lacks that the app did not ask for is not its mistake: that is, to have
    *spent* a budget. But if that can't ever hold what it asks for, it need not wait.
    """
    if spent is None:
        return why
    never_fits = isinstance(why, Unsatisfiable) and any(
        failure.quota == why.quota and failure.requested > failure.capacity
        for failure in spent.failures
    )
    return why if never_fits else spent


def _dated(
    failure: QuotaFailure, hold: Hold, quotas: Mapping[str, Quota], now_ms: int
) -> QuotaFailure:
    """Return *failure* with what is known of its window, if it is a budget's."""
    quota = quotas.get(failure.quota)
    if quota is None or quota.budget is None:
        return failure
    due_ms = now_ms + failure.wait_ms
    turns = (
        turn
        for part in hold.parts
        for limit in part.limits
        if limit.quota == quota.id
        for turn in limit.turns
    )
    return replace(
        failure,
        per=quota.budget.calendar.per,
        # The ledger's clock may be a little off ours; a window's end is not.
        resets_at_ms=min(turns, key=lambda turn: abs(turn - due_ms)),
    )
