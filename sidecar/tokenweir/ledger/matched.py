"""Which quotas applied to anything: what the ledger has counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from tokenweir.core.policy import Policy, Quota
from tokenweir.core.tally import Tallied, tallied_in
from tokenweir.ledger.store import Readable
from tokenweir.ledger.usage import GroupBy, usage


async def tallied(
    store: Readable, first_hour: int, last_hour: int, *, tenant: str | None = None
) -> Tallied:
    """
    Return refusals by limit and matched quotas of a time range.

    Args:
        store: Where they were counted, by all processors.
        first_hour: Hours since 1970 (UTC), see `tokenweir.core.record.hour_of`.
        last_hour: Included.
        tenant: Only of this one; None: of all.

    Raises:
        LedgerUnavailableError: There was no answer in time.
    """
    sums = await usage(store, first_hour, last_hour, (), tenant=tenant)
    return tallied_in(sums.get((), {}))


async def quota_matches(
    store: Readable, first_hour: int, last_hour: int
) -> dict[str, int]:
    """
    Return how many exchanges each quota applied to, by its id, whatever was decided.

    What applied to none is not there, see `never_matched`. Processors write such
    counts every few seconds. Args and raises: see `tallied`.
    """
    return dict((await tallied(store, first_hour, last_hour)).matched)


def never_matched(policy: Policy, matches: Mapping[str, int]) -> tuple[str, ...]:
    """Return the ids of the quotas in force by *policy* that are not in *matches*."""
    ids = dict.fromkeys(quota.id for quota in _in_force(policy))
    return tuple(quota for quota in ids if not matches.get(quota))


@dataclass(frozen=True, slots=True)
class Idle:
    """
    A quota that matched nothing.

    Attributes:
        quota: Its id.
        calls: That those made who have it: of a tenant's all, of a key's own that key's.
    """

    quota: str
    calls: int


async def idle_quotas(
    store: Readable, policy: Policy, first_hour: int, last_hour: int
) -> tuple[Idle, ...]:
    """
    Return the quotas in force by *policy* that matched nothing, in its order.

    Where there were calls a quota is for something that did not come, or is named
    wrongly; where there were none nothing can be told. Args and raises: see `tallied`.
    """
    by = (GroupBy.TENANT, GroupBy.KEY)
    matches: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for (tenant, key), figures in (
        await usage(store, first_hour, last_hour, by)
    ).items():
        told = tallied_in(figures)
        matches.update(told.matched)
        count = figures.get("exchanges", 0) + told.refusals
        calls.update({f"{tenant}": count, f"{tenant}/{key}": count})
    having = _having(policy)
    return tuple(
        Idle(quota, sum(calls[name] for name in having[quota]))
        for quota in never_matched(policy, matches)
    )


def _having(policy: Policy) -> Mapping[str, set[str]]:
    """Return who has each quota: tenants, and keys as tenant/key (no name has a /)."""
    having: dict[str, set[str]] = {}
    for tenant in policy.tenants.values():
        for quota in tenant.quotas:
            having.setdefault(quota.id, set()).add(tenant.name)
    for key in policy.keys.values():
        for quota in key.quotas:
            having.setdefault(quota.id, set()).add(f"{key.tenant}/{key.id}")
    return having


def _in_force(policy: Policy) -> Iterable[Quota]:
    if policy.single_tenant is not None:
        return policy.tenants[policy.single_tenant].quotas
    of_tenants = (
        quota for tenant in policy.tenants.values() for quota in tenant.quotas
    )
    of_keys = (quota for key in policy.keys.values() for quota in key.quotas)
    return chain(of_tenants, of_keys)
