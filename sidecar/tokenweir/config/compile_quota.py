"""
Quotas as the core works with them.

Ids are made from what a quota limits, not from where it stands: an id is the name
of levels in the ledger, and reordering a file must not swap them.
"""

from __future__ import annotations

from tokenweir.config.schema import QuotaEntry
from tokenweir.core.policy import PARTITION_KEYS, Axis, OnLedgerFailure, Quota

# Scope of the quotas that every tenant has; no tenant can have this name.
EVERY_TENANT = "*"

_COUNTED_AXES = {
    "total": Axis.TOKENS,
    "input": Axis.INPUT_TOKENS,
    "output": Axis.OUTPUT_TOKENS,
}

# An id is only unique within its tenant: two tenants' users may share one.
_TENANTS_OWN = frozenset({"tenant", "key", "user"})


def compile_quota(
    entry: QuotaEntry, scope: str, on_ledger_failure: OnLedgerFailure
) -> Quota:
    """
    Return the quota that *entry* describes.

    *scope* is the tenant's name or `EVERY_TENANT`, *on_ledger_failure* what holds
    if the entry does not say.
    """
    axis, amount = _axis(entry), int(getattr(entry, entry.axis))
    return Quota(
        id=quota_id(entry, scope),
        axis=axis,
        rate=0 if axis is Axis.CONCURRENCY else amount,
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
    )


def quota_id(entry: QuotaEntry, scope: str) -> str:
    """Return the id of *entry*: ``"acme.tokens_per_minute_by_key"``, or as named."""
    return f"{scope}.{entry.name or _derived_name(entry, scope)}"


def _axis(entry: QuotaEntry) -> Axis:
    if entry.tokens_per_minute is not None:
        return _COUNTED_AXES[entry.counts or "total"]
    return Axis(entry.axis)


def _partition(entry: QuotaEntry, scope: str) -> tuple[str, ...]:
    parts = set(entry.partition or ())
    if scope != EVERY_TENANT or parts & _TENANTS_OWN:
        parts.add("tenant")
    return tuple(part for part in PARTITION_KEYS if part in parts)


def _derived_name(entry: QuotaEntry, scope: str) -> str:
    axis, partition = _axis(entry), _partition(entry, scope)
    if partition == ("tenant",):
        return axis.value
    implied = () if scope == EVERY_TENANT else ("tenant",)
    told = "_".join(part for part in partition if part not in implied)
    return f"{axis.value}_by_{told}"
