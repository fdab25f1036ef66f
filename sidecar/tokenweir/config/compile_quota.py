"""
Quotas as the core works with them.

Ids are made from what a quota limits, not from where it stands: an id is the name
of levels in the ledger, and reordering a file must not swap them.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo

from tokenweir.config.budget_entry import WEEKDAYS, AnchorEntry, OnExceededEntry
from tokenweir.config.schema import RATE_FIELDS, QuotaEntry
from tokenweir.core.policy import (
    BUDGETS,
    PARTITION_KEYS,
    Axis,
    Budget,
    OnExceeded,
    OnLedgerFailure,
    Quota,
)
from tokenweir.core.window import Calendar, Per

# Scope of the quotas that every tenant has; no tenant can have this name.
EVERY_TENANT = "*"
# Between the tenant's name and the key's id, in the scope of a key's quotas: neither
# can have it.
_OF_KEY = "/"

_COUNTED_AXES = {
    "total": Axis.TOKENS,
    "input": Axis.INPUT_TOKENS,
    "output": Axis.OUTPUT_TOKENS,
}

# Shares of a budget that are told if the entry does not say.
THRESHOLDS = (50, 80, 95)

# An id is only unique within its tenant: two tenants' users may share one.
_TENANTS_OWN = frozenset({"tenant", "key", "user"})


def compile_quota(
    entry: QuotaEntry, scope: str, on_ledger_failure: OnLedgerFailure
) -> Quota:
    """
    Return the quota that *entry* describes.

    *scope* is the tenant's name, `EVERY_TENANT` or a `key_scope`, *on_ledger_failure*
    what holds if the entry does not say.
    """
    axis, amount = _axis(entry), int(getattr(entry, entry.axis))
    return Quota(
        id=quota_id(entry, scope),
        axis=axis,
        rate=amount if entry.axis in RATE_FIELDS else 0,
        capacity=entry.capacity or amount,
        partition=_partition(entry, scope),
        shadow=entry.mode == "shadow",
        models=tuple(entry.models or ()),
        routes=tuple(entry.routes or ()),
        on_ledger_failure=(
            OnLedgerFailure(entry.on_ledger_failure)
            if entry.on_ledger_failure
            else on_ledger_failure
        ),
        budget=_budget(entry) if axis in BUDGETS else None,
        staggered=entry.stagger,
        leased=entry.leases,
    )


def key_scope(tenant: str, key: str) -> str:
    """Return the scope of the quotas that one *key* of a *tenant* has, by their names."""
    return f"{tenant}{_OF_KEY}{key}"


def quota_id(entry: QuotaEntry, scope: str) -> str:
    """Return the id of *entry*: ``"acme.tokens_per_minute_by_key"``, or as named."""
    return f"{scope}.{entry.name or _derived_name(entry, scope)}"


def _axis(entry: QuotaEntry) -> Axis:
    if entry.tokens_per_minute is not None:
        return _COUNTED_AXES[entry.counts or "total"]
    return Axis(entry.axis)


def _partition(entry: QuotaEntry, scope: str) -> tuple[str, ...]:
    parts = {*(entry.partition or ()), *_implied(scope)}
    if parts & _TENANTS_OWN:
        parts.add("tenant")
    return tuple(part for part in PARTITION_KEYS if part in parts)


def _implied(scope: str) -> tuple[str, ...]:
    """Return what every quota of *scope* is kept apart by."""
    if scope == EVERY_TENANT:
        return ()
    return ("tenant", "key") if _OF_KEY in scope else ("tenant",)


def _derived_name(entry: QuotaEntry, scope: str) -> str:
    name, partition = _axis(entry).value, _partition(entry, scope)
    if entry.per:
        name = f"{name}_per_{entry.per}"
    implied = _implied(scope)
    if partition in (("tenant",), implied):
        return name
    told = "_".join(part for part in partition if part not in implied)
    return f"{name}_by_{told}"


def _budget(entry: QuotaEntry) -> Budget:
    anchor = entry.anchor or AnchorEntry()
    follows = entry.on_exceeded or OnExceededEntry()
    on_exceeded = OnExceeded.BLOCK
    if follows.downgrade_to:
        on_exceeded = OnExceeded.DOWNGRADE
    elif follows.throttle_percent:
        on_exceeded = OnExceeded.THROTTLE
    return Budget(
        Calendar(
            Per(entry.per or ""),
            entry.time_zone or ZoneInfo("UTC"),
            anchor.hour,
            WEEKDAYS.index(anchor.weekday or "monday"),
            anchor.day or 1,
        ),
        on_exceeded,
        tuple(follows.downgrade_to or ()),
        follows.throttle_percent or 100,
        follows.hard_limit_usd or follows.hard_limit_tokens,
        THRESHOLDS if entry.alerts is None else tuple(sorted(set(entry.alerts))),
    )
