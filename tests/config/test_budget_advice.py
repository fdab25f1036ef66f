"""What is probably not meant about a budget is said."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.config.advice import advise
from tokenweir.config.budget_advice import BudgetAdvice
from tokenweir.config.compile import compile_policy
from tokenweir.config.schema import PolicyFile
from tokenweir.core.policy import Policy

DAY: dict[str, Any] = {"budget_usd": 5, "per": "day"}
NOTHING_CHEAPER = (
    "downgrades to no other models than those that it is for, so to nothing cheaper"
)


def policy(
    *quotas: dict[str, Any],
    top: list[dict[str, Any]] | None = None,
    models: list[str] | None = None,
    only: list[str] | None = None,
    **tenants: Any,
) -> Policy:
    """Return a policy of *only* some models, whose tenant acme may call *models*."""
    entries = {"big": "o", "small": "o", "claude-*": "a", "haiku": "a"}
    acme = {"quotas": list(quotas), **({"models": models} if models else {})}
    return compile_policy(
        PolicyFile.model_validate(
            {
                "version": 1,
                "providers": {
                    "o": {"base_url": "https://a", "dialect": "openai"},
                    "a": {"base_url": "https://b", "dialect": "anthropic"},
                },
                "models": {
                    name: {"provider": entries[name]} for name in only or entries
                },
                "tenants": {"acme": acme, **tenants},
                "quotas": top or [],
                "single_tenant": "acme",
            }
        ),
        "d",
        {},
    )


def lines(*quotas: dict[str, Any], **others: Any) -> list[str]:
    """Return what is said of the first of *quotas*."""
    name = policy(*quotas, **others).tenants["acme"].quotas[0].id
    return [
        line.removeprefix(f"quota {name}: ")
        for line in advise(policy(*quotas, **others))
        if line.startswith(f"quota {name}: ")
    ]


def to(*chain: str) -> dict[str, Any]:
    """Return a budget that downgrades to *chain*."""
    return {**DAY, "on_exceeded": {"downgrade_to": list(chain), "hard_limit_usd": 9}}


@pytest.mark.parametrize(
    "quota",
    [
        DAY,
        {**DAY, "alerts": []},
        to("small", "haiku"),
        {**to("small"), "models": ["big", "s*"]},
        {**to("small"), "routes": ["chat_completions"]},
        {**DAY, "on_exceeded": {"throttle_percent": 10, "hard_limit_usd": 9}},
    ],
)
def test_a_budget_to_be_content_with(quota: dict[str, Any]) -> None:
    """Nothing is said of it."""
    assert lines(quota) == []


def test_what_is_no_budget() -> None:
    """Other quotas are not looked at."""
    snapshot = policy({"concurrency": 1})
    acme = snapshot.tenants["acme"]

    assert list(BudgetAdvice(snapshot).of(acme.quotas[0], [acme], [])) == []


def test_budgets_that_can_never_match() -> None:
    """No budget is for what costs nothing, or for what nobody may call."""
    never = "can never match, so it limits nothing: "
    routes = "no request on models, opaque has what it counts, or passes. Change its `routes`"
    names = "nobody who has it may call big. Name models that they may"

    assert lines({**DAY, "routes": ["models", "opaque"]}) == [never + routes]
    assert lines({**to("x"), "models": ["big"]}, models=["small"]) == [never + names]


def test_shadow_mode() -> None:
    """A budget that does nothing should at least tell."""
    refuses_nobody = "is in shadow mode, so it refuses nobody"

    assert lines({**DAY, "mode": "shadow"}) == [refuses_nobody]
    assert lines({**DAY, "mode": "shadow", "alerts": []}) == [
        refuses_nobody,
        "has no `alerts`, so that in shadow mode nothing shows that it is spent",
    ]


@pytest.mark.parametrize(
    ("other", "blocks"),
    [
        ({}, True),
        ({"budget_usd": 4}, True),
        ({"budget_usd": 6}, False),
        ({"per": "month"}, True),
        ({"time_zone": "UTC"}, True),
        ({"time_zone": "Asia/Tokyo"}, False),
        ({"anchor": {"hour": 1}}, False),
        ({"partition": ["key"]}, False),
        ({"mode": "shadow"}, False),
        ({"models": ["big"]}, False),
        ({"routes": ["messages"]}, False),
        ({"on_exceeded": {"downgrade_to": "small", "hard_limit_usd": 9}}, False),
    ],
)
def test_budgets_that_are_never_spent(other: dict[str, Any], blocks: bool) -> None:
    """Where another budget blocks first, nothing is ever downgraded."""
    text = "is never spent: acme.other blocks first. Lower it, raise that, or remove it"

    assert lines(to("small", "haiku"), {**DAY, "name": "other", **other}) == (
        [text] if blocks else []
    )


def test_a_shared_budget_that_is_spent_by_some() -> None:
    """What blocks one tenant sooner is no matter if it is not there for another."""
    top = [{**to("small", "haiku"), "partition": ["tenant"], "name": "x"}]
    own = {**DAY, "name": "other"}
    first = policy(own, top=top, b={})
    both = policy(top=[*top, {**own, "partition": ["tenant"]}], b={})

    assert not [line for line in advise(first) if line.startswith("quota *.x")]
    assert [line for line in advise(both) if line.startswith("quota *.x")] == [
        "quota *.x: is never spent: *.other blocks first. Lower it, raise that, or remove it"
    ]


@pytest.mark.parametrize(
    ("quota", "others"),
    [
        ({**to("big"), "models": ["big"]}, {}),
        ({**to("small", "big"), "models": ["big", "small"]}, {}),
        (to("big"), {"models": ["big"]}),
        (to("big"), {"only": ["big"]}),
    ],
)
def test_chains_to_nothing_cheaper(quota: dict[str, Any], others: Any) -> None:
    """A chain of the very models that can be called is no way out."""
    assert lines(quota, **others) == [NOTHING_CHEAPER]


@pytest.mark.parametrize(
    ("quota", "others"),
    [
        ({**to("small"), "models": ["big", "small"]}, {}),
        ({**to("big", "small"), "models": ["big", "small", "gpt-*"]}, {}),
        (to("small"), {"models": ["big", "small"]}),
        (to("small"), {"only": ["big", "small"]}),
    ],
)
def test_chains_to_something_cheaper(quota: dict[str, Any], others: Any) -> None:
    """That some of the models are in the chain is as it should be."""
    assert lines(quota, **others) == []


def test_models_that_the_tenant_may_not_call() -> None:
    """They can't answer for those that it may."""
    assert lines(to("small", "big"), models=["big"]) == [
        "downgrades to small, which tenant acme may not call"
    ]


def test_many_tenants_that_may_not_call_it() -> None:
    """One line tells of all of them."""
    top = [{**to("small"), "partition": ["tenant"]}]
    limited = {"models": ["big"]}
    found = advise(policy(top=top, models=["big"], b=limited, c=limited, d={}))

    assert [line for line in found if "to small" in line] == [
        (
            "quota *.budget_usd_per_day: downgrades to small, which tenant acme may not call "
            "(nor 2 more)"
        )
    ]


def test_models_that_the_budget_is_not_for() -> None:
    """It pays for them where they answer in the place of those that it is for."""
    assert lines({**to("big", "small"), "models": ["big"]}) == []


@pytest.mark.parametrize(
    ("models", "barred"),
    [
        ([["small"], ["big", "small"], None], ""),
        ([["big", "small"], ["big"]], "b"),
        ([["big"], ["b*"], ["*"]], "a (nor 1 more)"),
        ([["claude-*"]], ""),
    ],
)
def test_keys_that_may_call_nothing_cheaper(
    models: list[list[str] | None], barred: str
) -> None:
    """They are told, unless the budget is not for what they call anyway."""
    keys = [
        {"id": name, "sha256": name * 64, **({"models": names} if names else {})}
        for name, names in zip("abc", models, strict=False)
    ]
    quota = {**to("small"), "models": ["big", "small"]}
    found = advise(policy(other={"keys": keys, "quotas": [quota]}))

    assert [line for line in found if "key" in line] == (
        [
            (
                "quota other.budget_usd_per_day: downgrades to no model that key "
                f"{barred.partition(' ')[0]} may call{barred[1:]}"
            )
        ]
        if barred
        else []
    )


def test_models_that_speak_another_dialect() -> None:
    """A caller of one API gets no answer from a model of another."""
    assert lines({**to("small", "haiku"), "models": ["big"]}) == [
        (
            "downgrades to haiku, which speaks anthropic: none of the models that it is for "
            "does, so nothing is ever downgraded to that"
        )
    ]
    assert lines({**to("claude-3"), "routes": ["chat_completions"]}) == [
        (
            "downgrades to claude-3, which speaks anthropic: none of the models that it is "
            "for does, so nothing is ever downgraded to that"
        ),
        (
            "downgrades to no model that speaks openai: once it is spent, callers of that "
            "API are refused"
        ),
    ]


def test_callers_that_are_left_alone() -> None:
    """Two APIs need a chain with models of both."""
    assert lines(to("small")) == [
        (
            "downgrades to no model that speaks anthropic: once it is spent, callers of that "
            "API are refused"
        )
    ]
