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
    *spent* budgets, all of which would have yielded to that model.
    """
    if spent is None:
        return why
    never = never_held(spent)
    if isinstance(never, Unsatisfiable) and isinstance(why, Unsatisfiable):
        return why if why.quota == never.quota else never
    return never


def never_held(spent: QuotaExhausted) -> QuotaExhausted | Unsatisfiable:
    """
    Return *spent*, or the budget among it that no window can hold this request.

    Budgets that yield are not looked at before (`tokenweir.core.admission`): another
    model, or a hard limit, might have had room.
    """
    for failure in spent.failures:
        if failure.requested > failure.capacity:
            return Unsatisfiable(
                failure.quota,
                failure.axis,
                failure.partition,
                failure.capacity,
                failure.requested,
                failure.rate,
            )
    return spent


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
