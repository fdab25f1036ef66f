"""Who is held against which budgets of a policy."""

from dataclasses import replace

from tests.core.spenders import DAY, SHARED, budget, policy
from tokenweir.core.budgets import Budgets
from tokenweir.core.policy import ApiKey, Axis, Quota

RATE = Quota("acme.rpm", Axis.REQUESTS, 1, 1)
KEYS_OWN = budget("acme.ci.day", partition=("tenant", "key"))


def test_a_tenants_budgets_are_its_own_and_everybodys() -> None:
    """What is no budget is left out."""
    budgets = Budgets(policy(DAY, RATE, SHARED))

    assert budgets.of("acme", "ci") == (DAY, SHARED)
    assert set(budgets.all) == {DAY, SHARED}


def test_a_key_has_its_own_besides() -> None:
    """Also one that was rotated, and is there twice."""
    made = policy(DAY)
    key = ApiKey("ci", "acme", quotas=(KEYS_OWN,))
    made = replace(made, keys={"0": key, "1": key, "2": ApiKey("dev", "acme")})
    budgets = Budgets(made)

    assert budgets.of("acme", "ci") == (KEYS_OWN, DAY)
    assert budgets.of("acme", "dev") == (DAY,)
    assert set(budgets.all) == {KEYS_OWN, DAY}


def test_a_tenant_that_is_gone_spent_what_is_shared() -> None:
    """A budget that is not kept apart by tenant counts what it had used."""
    assert Budgets(policy(DAY, SHARED)).of("gone", "ci") == (SHARED,)
