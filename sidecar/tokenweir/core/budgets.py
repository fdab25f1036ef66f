"""Which budgets a policy has, and who is held against them."""

from __future__ import annotations

from collections.abc import Iterable

from tokenweir.core.policy import BUDGETS, Policy, Quota


class Budgets:
    """
    Those of a *policy*.

    Attributes:
        all: Each once.
    """

    def __init__(self, policy: Policy) -> None:
        self._tenants = {
            name: _budgets(tenant.quotas) for name, tenant in policy.tenants.items()
        }
        self._keys: dict[tuple[str, str], tuple[Quota, ...]] = {}
        for key in policy.keys.values():
            # One that was rotated is there twice, under one id.
            name = key.tenant, key.id
            self._keys[name] = _budgets((*self._keys.get(name, ()), *key.quotas))
        found = [*self._keys.values(), *self._tenants.values()]
        self.all = _budgets(quota for quotas in found for quota in quotas)
        self._shared = tuple(
            quota for quota in self.all if "tenant" not in quota.partition
        )

    def of(self, tenant: str, key: str) -> tuple[Quota, ...]:
        """Return those that count what *key* spends for *tenant*, one that is gone too."""
        quotas = self._tenants.get(tenant)
        if quotas is None:
            return self._shared
        return self._keys.get((tenant, key), ()) + quotas


def _budgets(quotas: Iterable[Quota]) -> tuple[Quota, ...]:
    return tuple({q.id: q for q in quotas if q.axis in BUDGETS}.values())
