"""Quotas without effect are found, by a closed list of reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.config.policies import KEY_A
from tokenweir.config.compile import compile_policy
from tokenweir.config.ineffective import Why, ineffective
from tokenweir.config.schema import PolicyFile
from tokenweir.core.policy import Policy
from tokenweir.core.price import flat_price
from tokenweir.core.pricing import Pricing

USD = {"budget_usd": 5, "per": "day"}
RPM = {"requests_per_minute": 2}
MODELS: dict[str, Any] = {
    "gpt": {"provider": "o", "max_output_tokens": 100},
    "gpt-x": {"provider": "o", "max_output_tokens": 50},
    "claude": {"provider": "a"},
    "fam-*": {"provider": "o", "upstream_model": "gpt"},
}


def policy(
    *quotas: dict[str, Any], key: dict[str, Any] | None = None, **fields: Any
) -> Policy:
    """Return a policy whose tenant has *quotas*, and a key with the members of *key*."""
    keys = [{"id": "k", "sha256": KEY_A, **(key or {})}]
    content = {
        "version": 1,
        "providers": {
            "o": {"base_url": "https://a", "dialect": "openai"},
            "a": {"base_url": "https://b", "dialect": "anthropic"},
        },
        "models": MODELS,
        "tenants": {"t": {"keys": keys, "quotas": list(quotas)}},
        **fields,
    }
    return compile_policy(PolicyFile.model_validate(content), "d", {})


def found(made: Policy, *, prices: bool = True) -> dict[str, Why]:
    """Return why quotas have no effect, by their ids."""
    return {each.quota.id: each.why for each in ineffective(made, prices=prices)}


def test_effective() -> None:
    """Most quotas do something."""
    assert found(policy(RPM, {"tokens_per_minute": 5}, {"concurrency": 1})) == {}


def test_nobody_can_call() -> None:
    """A tenant without keys. Where all are one tenant, others are nobody's concern."""
    tenants = {"t": {"quotas": [RPM]}, "u": {"quotas": [RPM]}}

    assert found(policy(tenants=tenants, single_tenant="t")) == {}
    assert found(policy(tenants=tenants)) == {
        "t.requests_per_minute": Why.NO_KEYS,
        "u.requests_per_minute": Why.NO_KEYS,
    }


def test_never_matches() -> None:
    """Model and route of different APIs, whoever calls."""
    quota = {**RPM, "models": ["claude"], "routes": ["chat_completions"]}

    assert found(policy(quota)) == {"t.requests_per_minute": Why.NEVER_MATCHES}


@pytest.mark.parametrize("key", [{"models": ["gpt"]}, {"routes": ["models"]}])
def test_keys_may_not(key: dict[str, Any]) -> None:
    """The tenant might, but none of its keys may."""
    quota = {"tokens_per_minute": 5, "models": ["claude"]}

    assert found(policy(quota, key=key)) == {"t.tokens_per_minute": Why.KEYS_MAY_NOT}


def test_outdone() -> None:
    """Another one refuses first."""
    made = policy(RPM, {**RPM, "models": ["gpt"], "name": "more"})
    [one] = ineffective(made)

    assert (one.quota.id, one.why) == ("t.more", Why.OUTDONE)
    assert one.text.startswith(
        "never decides: t.requests_per_minute refuses whatever it would. "
    )


@pytest.mark.parametrize(
    ("output", "models", "out_of_reach"),
    [
        (201, ["gpt"], True),
        (200, ["gpt"], False),
        (150, ["gpt-x"], True),
        (201, ["gpt", "gpt-x"], True),
        (10**9, ["claude"], False),  # nobody has said how much it can generate
        (10**9, ["gpt", "claude"], False),
    ],
)
def test_above_the_models_maximum(
    output: int, models: list[str], out_of_reach: bool
) -> None:
    """So many requests can't generate as much as a limit lets them."""
    quota = {"output_tokens_per_minute": output, "models": models}
    expected = {"t.output_tokens_per_minute": Why.OUT_OF_REACH} if out_of_reach else {}

    assert found(policy(RPM, quota)) == expected
    assert found(policy(quota)) == {}
    assert found(policy({**RPM, "capacity": 10**9}, quota)) == {}
    assert found(policy({**RPM, "mode": "shadow"}, quota)) == {}


def test_without_a_price() -> None:
    """A budget of money for nothing that has a price; of families nobody knows."""
    quota = {**USD, "models": ["gpt", "claude"]}
    unpriced = policy(quota)
    ceiling = replace(
        unpriced, pricing=Pricing(ceiling=flat_price("any", "policy", (1, 1)))
    )

    assert found(unpriced) == {"t.budget_usd_per_day": Why.UNPRICED}
    assert found(unpriced, prices=False) == {}
    assert found(ceiling) == {}
    family = {"fam-*": {"provider": "o"}}
    assert found(policy(USD, models=family)) == {}


def test_without_cost() -> None:
    """A budget of money for what costs nothing is never spent."""
    free, dear = (Pricing(ceiling=flat_price("any", "p", (at, 0))) for at in (0, 1))
    quota = {**USD, "models": ["gpt", "claude"]}
    other = {"budget_tokens": 5, "per": "day"}

    assert found(replace(policy(quota), pricing=free)) == {
        "t.budget_usd_per_day": Why.FREE
    }
    assert found(replace(policy(quota), pricing=dear)) == {}
    assert found(replace(policy(quota), pricing=free), prices=False) == {}
    assert found(replace(policy(other), pricing=free)) == {}


def test_misspelt() -> None:
    """All names of a quota are slips of others; or one is right."""
    models = {**MODELS, "fam-*": {"provider": "o"}, "fam-mini": {"provider": "o"}}
    slips = {**RPM, "models": ["fam-mni", "fam-minii"]}
    [one] = ineffective(policy(slips, models=models))

    assert (one.quota.id, one.why) == ("t.requests_per_minute", Why.MISSPELT)
    assert "did you mean fam-mini or fam-mini?" in one.text
    half = {**slips, "models": ["fam-mni", "gpt"]}
    assert found(policy(half, models=models)) == {}


@pytest.mark.parametrize(
    ("quota", "text"),
    [
        ({"models": ["claude"]}, "nobody who has it may call claude. "),
        (
            {"routes": ["opaque"]},
            "no request on opaque has what it counts, or passes. ",
        ),
        (
            {"routes": ["messages"], "models": ["gpt"]},
            "no model that it is for is called by messages. ",
        ),
    ],
)
def test_why_it_never_matches(quota: dict[str, Any], text: str) -> None:
    """What excludes what is told, and what to change."""
    keys = [{"id": "k", "sha256": KEY_A}]
    tenant = {"keys": keys, "models": ["gpt"], "quotas": [{**RPM, **quota}]}
    [one] = ineffective(policy(tenants={"t": tenant}))

    assert one.text.startswith(f"can never match, so it limits nothing: {text}")


def test_shadow_quotas() -> None:
    """They are looked at like others, but none is outdone by one of them."""
    shadow = {**RPM, "mode": "shadow", "name": "s"}

    assert found(policy({**RPM, "requests_per_minute": 1}, shadow)) == {
        "t.s": Why.OUTDONE
    }
    assert found(policy(shadow, {**RPM, "requests_per_minute": 9})) == {}


def test_keys_own_quotas() -> None:
    """They are looked at beside their tenant's."""
    made = policy(RPM, key={"quotas": [{"requests_per_minute": 9}]})

    assert found(made) == {"t/k.requests_per_minute": Why.OUTDONE}
