"""What is spent comes to an end somewhere, or the policy is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.config.budget_stop import endless
from tokenweir.config.salvage import LeftOut
from tokenweir.config.scalar import TOKEN_ROUTES
from tokenweir.config.schema import PolicyFile

DAY: dict[str, Any] = {"budget_usd": 5, "per": "day"}
BLOCK: dict[str, Any] = {"budget_usd": 100, "per": "month"}
CHEAPER: dict[str, Any] = {**DAY, "on_exceeded": {"downgrade_to": "small"}}
SLOWER: dict[str, Any] = {**DAY, "on_exceeded": {"throttle_percent": 10}}
RATE: dict[str, Any] = {"tokens_per_minute": 600}

NO_END = "tenants.acme.quotas.0.on_exceeded.hard_limit_usd"
NO_RATE = "tenants.acme.quotas.0.on_exceeded.throttle_percent"


def lines(
    *quotas: dict[str, Any],
    top: list[dict[str, Any]] | None = None,
    models: list[str] | None = None,
    left_out: LeftOut | None = None,
    **tenants: Any,
) -> list[str]:
    """Return what is told of *quotas* of a tenant that may call *models*."""
    acme = {"quotas": list(quotas), **({"models": models} if models else {})}
    file = PolicyFile.model_validate(
        {
            "version": 1,
            "providers": {"o": {"base_url": "https://a", "dialect": "openai"}},
            "models": {name: {"provider": "o"} for name in ("small", "big", "gpt-*")},
            "tenants": {"acme": acme, **tenants},
            "quotas": top or [],
        }
    )
    return [str(problem) for problem in endless(file, left_out or LeftOut())]


def places(*quotas: dict[str, Any], **others: Any) -> list[str]:
    """Return only where something is told."""
    return [line.partition(":")[0] for line in lines(*quotas, **others)]


def test_a_budget_alone() -> None:
    """What would stop it is said, in its own unit."""
    tokens = {
        "budget_tokens": 5,
        "per": "day",
        "on_exceeded": {"downgrade_to": "small"},
    }
    text = (
        "is missing, and nothing else stops these calls: set it, or add a budget that "
        "blocks and is for the same models and routes, such as"
    )

    assert lines(CHEAPER) == [f"{NO_END}: {text} {{budget_usd: 1000, per: month}}"]
    assert lines(tokens) == [
        (
            f"{NO_END.replace('usd', 'tokens')}: {text} "
            "{budget_tokens: 100000000, per: month}"
        )
    ]


@pytest.mark.parametrize(
    "budget",
    [
        DAY,
        {**DAY, "on_exceeded": "block"},
        {**CHEAPER, "mode": "shadow"},
        {**DAY, "on_exceeded": {"downgrade_to": "small", "hard_limit_usd": 6}},
        RATE,
    ],
)
def test_what_needs_no_other(budget: dict[str, Any]) -> None:
    """It blocks, has a limit of its own, or does nothing at all."""
    assert not lines(budget)


@pytest.mark.parametrize(
    ("fields", "stops"),
    [
        ({}, True),
        ({"on_exceeded": "block"}, True),
        ({"budget_usd": None, "budget_tokens": 5}, True),
        ({"on_exceeded": {"downgrade_to": "big", "hard_limit_usd": 200}}, True),
        ({"mode": "shadow"}, False),
        ({"partition": ["tenant"]}, True),
        ({"partition": ["key", "model"]}, True),
        ({"partition": ["user"]}, False),
        ({"routes": ["chat_completions"]}, False),
        ({"routes": sorted(TOKEN_ROUTES)}, True),
        ({"models": ["*"]}, True),
        ({"models": ["big"]}, False),
        ({"models": ["big", "small", "gpt-*"]}, True),
        ({"models": ["big", "small", "gpt-4*"]}, False),
    ],
)
def test_other_budgets(fields: dict[str, Any], stops: bool) -> None:
    """One that blocks stops what it applies to, and all of that is needed."""
    other = {name: value for name, value in {**BLOCK, **fields}.items() if value}
    top = {"partition": ["tenant"], **other}

    assert places(CHEAPER, other) == ([] if stops else [NO_END])
    assert places(other, CHEAPER) == ([] if stops else [NO_END.replace("0", "1")])
    assert places(CHEAPER, top=[top]) == ([] if stops else [NO_END])


def test_two_that_never_block() -> None:
    """They don't stop each other, and a rate stops neither."""
    other = {**CHEAPER, "per": "month"}

    assert places(CHEAPER, other, RATE) == [NO_END, NO_END.replace("0", "1")]


@pytest.mark.parametrize(
    ("mine", "models", "its", "stops"),
    [
        ({"models": ["big"]}, None, {"models": ["big"]}, True),
        ({"models": ["gpt-4*"]}, None, {"models": ["big", "gpt-*"]}, True),
        ({"models": ["gpt-*"]}, None, {"models": ["gpt-4*"]}, False),
        ({}, ["big"], {"models": ["big"]}, True),
        ({"models": ["*"]}, ["big"], {"models": ["big"]}, True),
        ({}, ["big", "small"], {"models": ["big"]}, False),
        ({"routes": ["messages"]}, None, {"routes": ["messages"]}, True),
        ({"routes": ["messages", "models"]}, None, {"routes": ["messages"]}, True),
        ({"routes": ["messages"]}, None, {"routes": ["chat_completions"]}, False),
        ({"partition": ["user"]}, None, {"partition": ["user"]}, True),
        ({"partition": ["key"]}, None, {"partition": ["user"]}, False),
    ],
)
def test_what_a_budget_is_for(
    mine: dict[str, Any], models: list[str] | None, its: dict[str, Any], stops: bool
) -> None:
    """The other need not be for more than the budget, or than the tenant may call."""
    assert places({**CHEAPER, **mine}, {**BLOCK, **its}, models=models) == (
        [] if stops else [NO_END]
    )


def test_at_the_top() -> None:
    """A budget of every tenant is told once, for the first that has nothing else."""
    budget = {**CHEAPER, "partition": ["tenant"]}
    found = lines(BLOCK, top=[budget], b={}, c={})

    assert len(found) == 1
    assert found[0].startswith(
        "quotas.0.on_exceeded.hard_limit_usd: is missing, and nothing else stops these "
        "calls of tenant b: set it, or add"
    )
    assert not lines(BLOCK, top=[budget])


@pytest.mark.parametrize(
    ("rate", "found"),
    [
        (RATE, True),
        ({"requests_per_minute": 5, "partition": ["model"]}, True),
        ({"tokens_per_minute": 5, "models": ["big"]}, True),
        ({"tokens_per_minute": 5, "routes": ["messages"]}, True),
        ({"requests_per_minute": 5, "routes": ["models"]}, False),
        ({"tokens_per_minute": 5, "mode": "shadow"}, False),
        ({"concurrency": 5}, False),
        (BLOCK, False),
    ],
)
def test_there_is_something_to_throttle(rate: dict[str, Any], found: bool) -> None:
    """A share of nothing is nothing: some limit per minute has to apply."""
    budget = {**DAY, "on_exceeded": {"throttle_percent": 10, "hard_limit_usd": 9}}

    assert places(budget, rate) == ([] if found else [NO_RATE])


def test_rates_that_tenants_share() -> None:
    """They can be throttled for one of them alone."""
    assert not places(SLOWER, BLOCK, top=[{**RATE, "partition": ["provider"]}])


def test_rates_of_other_models() -> None:
    """They don't count."""
    rate = {**RATE, "models": ["small"]}
    budget = {**SLOWER, "models": ["big"], "routes": ["messages"]}

    assert lines(budget, rate, BLOCK) == [
        (
            f"{NO_RATE}: has nothing to throttle: add a limit per minute that is for the "
            "same models and routes, such as {tokens_per_minute: 60000}"
        )
    ]
    assert places(budget, {**RATE, "routes": ["chat_completions"]}, BLOCK) == [NO_RATE]


def of_key(
    *quotas: dict[str, Any], models: list[str] | None = None, **others: Any
) -> list[str]:
    """Return where something is told of the *quotas* of a key that may call *models*."""
    key = {"id": "k", "sha256": "a" * 64, "quotas": list(quotas)}
    keys = [
        {"id": "j", "sha256": "b" * 64},
        key | ({"models": models} if models else {}),
    ]
    tenant = {"keys": keys, "quotas": others.pop("tenant", [])}
    return places(**{"globex": tenant, **others})


def test_budgets_of_keys() -> None:
    """What stops a key's budget may be its own, its tenant's or everybody's."""
    no_end = "tenants.globex.keys.1.quotas.0.on_exceeded.hard_limit_usd"
    no_rate = no_end.replace("hard_limit_usd", "throttle_percent")
    everybody = {**BLOCK, "partition": ["tenant"]}

    assert of_key(CHEAPER) == [no_end]
    assert not of_key(CHEAPER, BLOCK)
    assert not of_key(CHEAPER, tenant=[BLOCK])
    assert not of_key(CHEAPER, top=[everybody])
    assert of_key(SLOWER, BLOCK) == [no_rate]
    assert not of_key(SLOWER, tenant=[BLOCK, RATE])
    assert of_key(CHEAPER, tenant=[{**BLOCK, "models": ["small"]}]) == [no_end]
    assert not of_key(
        CHEAPER, models=["small"], tenant=[{**BLOCK, "models": ["small"]}]
    )


def test_what_a_key_has_stops_no_other() -> None:
    """A tenant's budget is not stopped by one of a single key."""
    key = {"id": "k", "sha256": "a" * 64, "quotas": [BLOCK]}
    place = NO_END.replace("acme", "globex")

    assert places(globex={"keys": [key], "quotas": [CHEAPER]}) == [place]


def test_what_is_left_out_of_a_key() -> None:
    """It may be what stops the rest of it; another key's may not."""
    place = ("tenants", "globex", "keys")
    quotas = (*place, 1, "quotas")
    gone = LeftOut(frozenset({(*quotas, 1)}))
    # The first key is gone: the second is what is left.
    moved = LeftOut(frozenset({(*place, 0), (*place, 2, "quotas", 1)}), {place: (1, 2)})

    assert not of_key(CHEAPER, left_out=gone)
    assert of_key(CHEAPER, left_out=LeftOut(frozenset({(*place, 0, "quotas", 1)})))
    assert not of_key(CHEAPER, left_out=moved)


def test_what_is_left_out_may_be_what_is_missing() -> None:
    """One mistake is not told twice."""
    own = LeftOut(frozenset({("tenants", "acme", "quotas", 1)}))
    top = LeftOut(frozenset({("quotas", 0)}))
    elsewhere = LeftOut(frozenset({("tenants", "other", "quotas", 1)}))

    assert not lines(CHEAPER, left_out=own)
    assert not lines(CHEAPER, left_out=top)
    assert not lines(CHEAPER, left_out=LeftOut(frozenset({("quotas",)})))
    assert places(CHEAPER, left_out=elsewhere) == [NO_END]
