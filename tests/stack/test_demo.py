"""The demo's policy."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tokenweir.config.load import load_policy
from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.core.cost import Demand, worst_cost_nanousd
from tokenweir.core.policy import Axis, Policy
from tokenweir.stack.demo import (
    ANTHROPIC_MODEL,
    DEMO_KEY,
    OPENAI_MODEL,
    TOUR_KEY,
    demo_policy,
)
from tokenweir.stack.tour.limit_stops import MOST_TOKENS


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """The policy for a mock provider on port 4321."""
    path = tmp_path / "policy.yaml"
    path.write_text(demo_policy(4321))
    return load_policy(path, {})


def test_the_mock_answers_both_apis(policy: Policy) -> None:
    """Both providers are the mock, under the path that it has for each."""
    addresses = {
        (provider.dialect, provider.port, provider.path_prefix)
        for provider in policy.providers.values()
    }

    assert addresses == {("openai", 4321, ""), ("anthropic", 4321, "/anthropic")}


def test_the_key_is_known_by_its_hash_only(policy: Policy) -> None:
    """The demo's key is the tenant's, and its text is in no value."""
    key = policy.keys[hashlib.sha256(DEMO_KEY.encode()).hexdigest()]

    assert key.tenant == "demo"
    assert DEMO_KEY not in repr(policy)


def test_the_tour_has_a_limit_that_is_soon_hit(policy: Policy) -> None:
    """Its tenant has one limit, small and quickly full again, that no other uses."""
    key = policy.keys[hashlib.sha256(TOUR_KEY.encode()).hexdigest()]
    (quota,) = policy.tenants[key.tenant].quotas

    assert key.tenant == "tour"
    assert (quota.axis, quota.rate, quota.capacity) == (Axis.TOKENS, 600, 600)
    assert quota.capacity <= MOST_TOKENS


def test_the_models_that_newcomers_are_told_of_are_there(policy: Policy) -> None:
    """What the welcome calls is answered, and relatives of it too."""
    assert OPENAI_MODEL in policy.models
    assert ANTHROPIC_MODEL in policy.models
    assert policy.model("gpt-next") is not None
    assert policy.model("claude-next") is not None


def test_its_limits_can_be_reached_in_a_minute(policy: Policy) -> None:
    """The tenant has each kind of limit, and the welcome's 70 calls hit one."""
    limits = {quota.axis: quota.capacity for quota in policy.tenants["demo"].quotas}

    assert limits == {
        Axis.REQUESTS: 60,
        Axis.TOKENS: 60_000,
        Axis.CONCURRENCY: 8,
        Axis.BUDGET_USD: 5 * NANOUSD_PER_USD,
    }


def test_its_budget_refuses_no_call_for_want_of_a_price(policy: Policy) -> None:
    """The models that newcomers call have list prices, all others the ceiling."""
    pricing = policy.pricing

    assert pricing.prices.find("openai", OPENAI_MODEL) is not None
    assert pricing.prices.find("anthropic", ANTHROPIC_MODEL) is not None
    assert pricing.price("openai", "gpt-next") is not None


def test_its_budget_is_never_what_a_first_call_meets(policy: Policy) -> None:
    """A minute's tokens of the dearest kind cost a third of a day's money at most."""
    limits = {quota.axis: quota.capacity for quota in policy.tenants["demo"].quotas}
    ceiling = policy.pricing.ceiling

    assert ceiling is not None
    demand = Demand(0, limits[Axis.TOKENS])
    worst = worst_cost_nanousd(demand, ceiling, 0)
    assert isinstance(worst, int)
    assert worst * 3 <= limits[Axis.BUDGET_USD]
