"""
Which limits a request is held against: quotas as they apply to one partition.

A tenant's own limits live under the tenant's tag, those that tenants share under tags
of their own (`tokenweir.core.partition`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.hold import Limit, Part
from tokenweir.core.partition import queue_of, shared_tag_of, tag_of
from tokenweir.core.policy import Axis, Budget, OnExceeded, OnLedgerFailure, Quota
from tokenweir.core.window import Calendar, windows_at

# What a budget slows down.
RATES = frozenset({Axis.REQUESTS, Axis.TOKENS, Axis.INPUT_TOKENS, Axis.OUTPUT_TOKENS})

NOTHING_RELAXED: Mapping[str, Mapping[str, str]] = MappingProxyType({})

# Windows change on the minute. Within it the ledger's clock tells them apart.
_MINUTE_MS = 60_000


def parts_of(
    quotas: Sequence[Quota],
    values: Mapping[str, str],
    now_ms: int = 0,
    relaxed: Mapping[str, Mapping[str, str]] = NOTHING_RELAXED,
) -> tuple[Part, ...]:
    """
    Return the limits of *quotas* by tag, the tenant's first.

    Args:
        quotas: Those that apply.
        values: Of the partition's keys, by name.
        now_ms: For which budgets' windows are computed.
        relaxed: Budgets that are spent (see `tokenweir.core.downgrade`), with the
            values that hold for each of them.
    """
    # The tenant's tag is there also without limits: it keeps the usage records.
    own = tag_of(values["tenant"])
    by_tag: dict[str, list[Limit]] = {own: []}
    for quota in quotas:
        own_values = relaxed.get(quota.id, values)
        partition = ",".join(f"{key}={own_values[key]}" for key in quota.partition)
        tag = own if "tenant" in quota.partition else shared_tag_of(quota.id, partition)
        is_relaxed = quota.id in relaxed
        limits = [_limit(quota, partition, now_ms, is_relaxed=is_relaxed)]
        if is_relaxed:
            limits += _throttled(quota, partition, quotas)
        if tag != own:
            # No tenant's refusals put off another's callers.
            queue = queue_of(values["tenant"])
            limits = [
                replace(each, queue=queue) if each.staggered else each
                for each in limits
            ]
        by_tag.setdefault(tag, []).extend(limits)
    return tuple(Part(tag, tuple(limits)) for tag, limits in by_tag.items())


def enforced(parts: Iterable[Part]) -> Iterator[Limit]:
    """Yield the limits that are not in shadow mode."""
    return (limit for part in parts for limit in part.limits if not limit.shadow)


def _limit(quota: Quota, partition: str, now_ms: int, *, is_relaxed: bool) -> Limit:
    budget = quota.budget
    return Limit(
        quota.id,
        quota.axis,
        partition,
        quota.rate,
        quota.capacity,
        quota.shadow,
        _turns(budget.calendar, now_ms // _MINUTE_MS) if budget else (),
        budget.thresholds if budget else (),
        _hard_limit(budget) if budget and is_relaxed else 0,
        quota.staggered,
        leased=quota.leased,
        bounded=_is_bounded(quota),
    )


def _is_bounded(quota: Quota) -> bool:
    return quota.leased and quota.on_ledger_failure is OnLedgerFailure.BOUNDED


def _hard_limit(budget: Budget) -> int:
    # Without one of its own, it is other budgets' to block.
    return MAX_SPENT if budget.hard_limit is None else budget.hard_limit


def _throttled(
    spent: Quota, partition: str, quotas: Iterable[Quota]
) -> Iterator[Limit]:
    """
    Yield a slower twin of each rate, for whoever *spent* a budget that throttles.

    It has levels of its own: who shares the rate but not the budget is not slowed.
    """
    budget = spent.budget
    if budget is None or budget.on_exceeded is not OnExceeded.THROTTLE:
        return
    for quota in quotas:
        if quota.axis in RATES and not quota.shadow:
            yield Limit(
                f"{spent.id}.{quota.id}",
                quota.axis,
                partition,
                max(1, quota.rate * budget.throttle_percent // 100),
                quota.capacity,
                staggered=quota.staggered,
                leased=quota.leased,
                bounded=_is_bounded(quota),
            )


@functools.lru_cache(maxsize=1_024)
def _turns(calendar: Calendar, minute: int) -> tuple[int, ...]:
    windows = windows_at(calendar, minute * _MINUTE_MS)
    return (
        windows.previous.begin_ms,
        windows.current.begin_ms,
        windows.next.begin_ms,
        windows.next.end_ms,
    )
