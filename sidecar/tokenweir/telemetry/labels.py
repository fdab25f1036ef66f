"""Label values: those that the policy knows, and no other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from tokenweir.core.policy import ApiKey, Policy, Tenant

OTHER = "other"  # not in the policy
NONE = "none"  # the exchange has none
# A policy for a whole fleet must not make every sidecar's page megabytes long.
MAX_TENANTS = 1_000
MAX_QUOTAS = 2_000


class Labels:
    """The label values of one *policy*; before it is known, everything is other."""

    def __init__(self, policy: Policy | None = None) -> None:
        tenants = _tenants(policy) if policy else []
        self._policy = policy
        self._tenants = frozenset(tenant.name for tenant in tenants[:MAX_TENANTS])
        self.quotas = _bounded(
            chain(
                (quota.id for tenant in tenants for quota in tenant.quotas),
                (quota.id for key in _keys(policy) for quota in key.quotas),
            ),
            MAX_QUOTAS,
        )

    def tenant(self, name: str) -> str:
        """Return the label for a tenant."""
        return _known(name, self._tenants)

    def provider(self, name: str) -> str:
        """Return the label for a provider."""
        return _known(name, self._policy.providers if self._policy else ())

    def quota(self, quota: str) -> str:
        """Return the label for a quota's id."""
        return _known(quota, self.quotas)

    def model(self, name: str) -> str:
        """Return the label for a model: for a family of names, the family."""
        if not name:
            return NONE
        model = self._policy.model(name) if self._policy else None
        return OTHER if model is None else model.name


def _tenants(policy: Policy) -> list[Tenant]:
    if policy.single_tenant is not None:
        return [policy.tenants[policy.single_tenant]]
    return list(policy.tenants.values())


def _keys(policy: Policy | None) -> Iterable[ApiKey]:
    """Return those that count: none if every caller is one tenant."""
    return policy.keys.values() if policy and not policy.single_tenant else ()


def _known(name: str, names: Iterable[str]) -> str:
    if not name:
        return NONE
    return name if name in names else OTHER


def _bounded(names: Iterable[str], limit: int) -> frozenset[str]:
    distinct = dict.fromkeys(names)
    return frozenset(list(distinct)[:limit])
