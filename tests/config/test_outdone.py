"""A quota never decides if another one refuses first whatever it would refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.config.policies import KEY_A
from tokenweir.config.compile import compile_policy
from tokenweir.config.outdone import covers, outdone_by
from tokenweir.config.schema import PolicyFile
from tokenweir.core.policy import Quota, Tenant


def compiled(*own: dict[str, Any], every: list[dict[str, Any]] | None = None) -> Tenant:
    """Return a tenant with *own* quotas, named a, b, … in order, and *every* tenant's."""
    quotas = [{**quota, "name": "abc"[at]} for at, quota in enumerate(own)]
    content = {
        "version": 1,
        "providers": {"o": {"base_url": "https://a", "dialect": "openai"}},
        "models": {"gpt-*": {"provider": "o"}},
        "tenants": {"t": {"keys": [{"id": "k", "sha256": KEY_A}], "quotas": quotas}},
        "quotas": every or [],
    }
    return compile_policy(PolicyFile.model_validate(content), "d", {}).tenants["t"]


def beaten(tenant: Tenant) -> dict[str, str]:
    """Return which quotas never decide, and by which."""
    found = {quota.id: outdone_by(quota, [tenant]) for quota in tenant.quotas}
    return {name: other.id for name, other in found.items() if other is not None}


RPM: dict[str, Any] = {"requests_per_minute": 9}
DAY: dict[str, Any] = {"budget_usd": 9, "per": "day"}


@pytest.mark.parametrize(
    ("tight", "loose"),
    [
        (RPM, {"requests_per_minute": 10}),
        (RPM, {"requests_per_minute": 10, "mode": "shadow"}),
        (RPM, {**RPM, "models": ["gpt-4o"], "routes": ["messages"]}),
        (RPM, {**RPM, "partition": ["key"]}),
        ({**RPM, "models": ["gpt-*"]}, {**RPM, "models": ["gpt-4o", "gpt-5*"]}),
        ({**RPM, "routes": ["messages", "models"]}, {**RPM, "routes": ["models"]}),
        ({"concurrency": 2}, {"concurrency": 3}),
        ({"tokens_per_minute": 9}, {"output_tokens_per_minute": 9}),
        ({"tokens_per_minute": 9}, {"input_tokens_per_minute": 10}),
        (DAY, {**DAY, "budget_usd": 10}),
        ({**DAY, "per": "month"}, DAY),
        ({**DAY, "per": "week", "budget_usd": 8}, DAY),
        (DAY, {**DAY, "per": "hour"}),
        (DAY, {**DAY, "budget_usd": 10, "on_exceeded": {"downgrade_to": "gpt-4"}}),
    ],
)
def test_outdone(tight: dict[str, Any], loose: dict[str, Any]) -> None:
    """It counts as much, of all of it, and has no more room; wherever it stands."""
    assert beaten(compiled(tight, loose)) == {"t.b": "t.a"}
    assert beaten(compiled(loose, tight)) == {"t.a": "t.b"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RPM, {"tokens_per_minute": 10}),
        ({**RPM, "capacity": 20}, {"requests_per_minute": 10}),
        ({**RPM, "mode": "shadow"}, {"requests_per_minute": 10}),
        ({**RPM, "models": ["gpt-4"]}, {"requests_per_minute": 10}),
        ({**RPM, "models": ["gpt-4"]}, {**RPM, "models": ["gpt-*"], "capacity": 10}),
        ({**RPM, "routes": ["models"]}, {"requests_per_minute": 10}),
        ({**RPM, "partition": ["key"]}, {"requests_per_minute": 10}),
        ({"output_tokens_per_minute": 9}, {"tokens_per_minute": 10}),
        ({**DAY, "on_exceeded": {"downgrade_to": "gpt-4"}}, {**DAY, "budget_usd": 10}),
        ({**DAY, "time_zone": "Asia/Tokyo"}, {**DAY, "budget_usd": 10}),
        ({**DAY, "per": "month"}, {**DAY, "budget_usd": 8}),
        ({**DAY, "per": "month"}, {**DAY, "per": "week"}),
        ({**DAY, "per": "month", "anchor": {"hour": 5}}, DAY),
    ],
)
def test_each_decides(one: dict[str, Any], other: dict[str, Any]) -> None:
    """One counts something else, or less of it, or has more room at some time."""
    assert beaten(compiled(one, other)) == {}
    assert beaten(compiled(other, one)) == {}


def test_without_a_ledger() -> None:
    """A limit that must hold then does what one that need not does not."""
    lax = {**RPM, "on_ledger_failure": "open"}
    strict = {"requests_per_minute": 10}

    assert beaten(compiled(lax, strict)) == {}
    assert beaten(compiled(RPM, {**strict, "on_ledger_failure": "open"})) == {
        "t.b": "t.a"
    }
    assert beaten(compiled(lax, {**strict, "mode": "shadow"})) == {"t.b": "t.a"}


def test_the_first_of_two_that_are_alike() -> None:
    """One of them is in vain, not both."""
    assert beaten(compiled(RPM, RPM, RPM)) == {"t.b": "t.a", "t.c": "t.a"}


def test_what_every_tenant_has() -> None:
    """It is there for tenants to come: no tenant's own limit makes it vain."""
    shared = {"requests_per_minute": 20, "partition": ["tenant"]}
    tighter = {**shared, "requests_per_minute": 15, "name": "x"}

    assert beaten(compiled(RPM, every=[shared])) == {}
    assert beaten(compiled(every=[shared, tighter])) == {"*.requests_per_minute": "*.x"}
    assert beaten(compiled({"requests_per_minute": 30}, every=[shared])) == {
        "t.a": "*.requests_per_minute"
    }


def test_what_only_some_tenants_have() -> None:
    """A quota of many tenants is in vain only if it is so for all of them."""
    first, second = compiled(RPM), compiled({"concurrency": 1})
    quota = replace(first.quotas[0], id="t.z", rate=99, capacity=99)
    both = [replace(each, quotas=(*each.quotas, quota)) for each in (first, second)]

    assert outdone_by(quota, both[:1]) == first.quotas[0]
    assert outdone_by(quota, both) is None


def test_covering_is_not_by_chance() -> None:
    """Windows differ by their zone's name, not by its clock of today."""
    tokyo = compiled({**DAY, "time_zone": "Asia/Tokyo"}).quotas[0]
    budget = tokyo.budget
    assert budget is not None
    moved = replace(budget.calendar, zone=ZoneInfo("Asia/Seoul"))
    seoul: Quota = replace(tokyo, id="t.b", budget=replace(budget, calendar=moved))

    assert covers(tokyo, seoul)
    assert outdone_by(seoul, [Tenant("t", (tokyo, seoul))]) is None
