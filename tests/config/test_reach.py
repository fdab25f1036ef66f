"""Limits above what another one lets come are found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.config.policies import KEY_A
from tokenweir.config.compile import compile_policy
from tokenweir.config.reach import out_of_reach
from tokenweir.config.schema import PolicyFile
from tokenweir.core.policy import Model, Tenant

MONTH: dict[str, Any] = {"budget_tokens": 10**9, "per": "month"}
KNOWN = Model("m", "o", max_output_tokens=100, maximum_is_known=True)
UNKNOWN = Model("u", "o", max_output_tokens=1)


def tenant(*quotas: dict[str, Any]) -> Tenant:
    """Return a tenant with *quotas*, named a, b, … in order."""
    named = [{"name": "abc"[at], **quota} for at, quota in enumerate(quotas)]
    content = {
        "version": 1,
        "providers": {"o": {"base_url": "https://a", "dialect": "openai"}},
        "models": {"m": {"provider": "o"}},
        "tenants": {"t": {"keys": [{"id": "k", "sha256": KEY_A}], "quotas": named}},
    }
    return compile_policy(PolicyFile.model_validate(content), "d", {}).tenants["t"]


def found(*quotas: dict[str, Any], models: tuple[Model, ...] = (KNOWN,)) -> str | None:
    """Return why the first of *quotas* is out of reach."""
    one = tenant(*quotas)
    return out_of_reach(one.quotas[0], [one], models)


def test_output_by_requests() -> None:
    """So many requests can't generate as much as the limit lets them."""
    requests = {"requests_per_minute": 2}

    assert found({"output_tokens_per_minute": 201}, requests) == (
        "t.b lets 2 requests a minute pass, of at most 100 output tokens "
        "(`max_output_tokens`) for each choice"
    )
    assert found({"output_tokens_per_minute": 200}, requests) is None
    assert found({"output_tokens_per_minute": 201, "capacity": 9}, requests) is None
    for models in ((), (UNKNOWN,), (KNOWN, UNKNOWN)):
        assert found({"output_tokens_per_minute": 201}, requests, models=models) is None


@pytest.mark.parametrize(
    ("budget", "rate", "reached"),
    [
        ({}, {"tokens_per_minute": 20_000}, False),
        ({}, {"tokens_per_minute": 20_000, "capacity": 10**9}, True),
        ({}, {"tokens_per_minute": 30_000}, True),
        ({"per": "week"}, {"tokens_per_minute": 30_000}, False),
        ({"per": "hour", "budget_tokens": 120}, {"tokens_per_minute": 1}, True),
        ({"per": "hour", "budget_tokens": 122}, {"tokens_per_minute": 1}, False),
        ({}, {"tokens_per_minute": 1, "mode": "shadow"}, True),
        ({}, {"tokens_per_minute": 1, "models": ["m"]}, True),
        ({}, {"tokens_per_minute": 1, "partition": ["user"]}, True),
        ({}, {"input_tokens_per_minute": 1}, True),
        ({}, {"requests_per_minute": 1}, True),
    ],
)
def test_budgets_by_a_rate(
    budget: dict[str, Any], rate: dict[str, Any], reached: bool
) -> None:
    """Its window is over before so many tokens have passed, however long it is."""
    text = found({**MONTH, **budget}, rate)

    assert (text is None) is reached
    assert reached or "tokens a minute pass, which is less in its whole window" in str(
        text
    )


def test_what_only_some_tenants_have() -> None:
    """A quota of many tenants is out of reach only if it is so for all of them."""
    first = tenant(MONTH, {"tokens_per_minute": 1})
    second = tenant(MONTH)

    assert out_of_reach(first.quotas[0], [first, second], [KNOWN]) is None
    assert out_of_reach(first.quotas[0], [first, first], [KNOWN]) is not None


def test_other_axes() -> None:
    """Of those it is not known."""
    assert found({"concurrency": 1000}, {"requests_per_minute": 1}) is None
