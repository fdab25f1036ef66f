"""What one entry says about another is true, or told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.config.policies import KEY_A, KEY_B
from tokenweir.config.references import RESERVED_PREFIX, References
from tokenweir.config.salvage import LeftOut
from tokenweir.config.schema import PolicyFile
from tokenweir.core.model_family import FAMILIES
from tokenweir.envoyconf.names import PROCESSOR_CLUSTER

PROVIDERS: dict[str, Any] = {
    "openai": {"base_url": "https://a", "dialect": "openai"},
    "claude": {"base_url": "https://b", "dialect": "anthropic"},
}
MODELS: dict[str, Any] = {
    "gpt-*": {"provider": "openai"},
    "o3": {"provider": "openai"},
}
LIMIT = {"concurrency": 1}


def told(left_out: LeftOut | None = None, **fields: Any) -> list[str]:
    """Return the problems of a file with *fields*."""
    content = {
        "version": 1,
        "providers": PROVIDERS,
        "models": MODELS,
        "tenants": {"acme": {}},
        **fields,
    }
    file = PolicyFile.model_validate(content)
    return [str(item) for item in References(file, left_out or LeftOut()).problems()]


def test_a_file_without_mistakes() -> None:
    """Nothing is told of what refers to what is there."""
    assert not told(
        single_tenant="acme",
        default_providers={"anthropic": "claude", "openai": "openai"},
        timeouts={"slow": {}},
        route_timeouts={"messages": "slow", "other": "default"},
        quotas=[{**LIMIT, "partition": ["model"], "models": ["gpt-4o", "o*"]}],
        models={**MODELS, "o1": {"provider": "openai", "timeout_class": "slow"}},
    )


@pytest.mark.parametrize(
    ("provider", "problem"),
    [
        ({"base_url": "http://a", "credential": "env:A"}, "base_url: would send the"),
        (
            {"base_url": "http://10.0.0.1", "credential": "env:A"},
            "base_url: would send",
        ),
        ({"base_url": "http://localhost", "ca_file": "/a"}, "ca_file: has no effect"),
        ({"base_url": "http://a"}, None),
        (
            {"base_url": "http://a", "credential": "env:A", "allow_plaintext": True},
            None,
        ),
        ({"base_url": "http://localhost", "credential": "env:A"}, None),
        ({"base_url": "https://a", "credential": "env:A", "ca_file": "/a"}, None),
        ({"base_url": "https://a", "cert_file": "/a", "key_file": "/b"}, None),
        ({"base_url": "https://a", "cert_file": "/a"}, "cert_file: only goes with key"),
        ({"base_url": "https://a", "key_file": "/a"}, "key_file: only goes with cert"),
    ],
)
def test_plain_text(provider: dict[str, Any], problem: str | None) -> None:
    """A credential leaves the machine encrypted, or as the author has said."""
    lines = told(providers={"openai": {**provider, "dialect": "openai"}})

    assert len(lines) == (problem is not None)
    if problem:
        assert lines[0].startswith(f"providers.openai.{problem}")


@pytest.mark.parametrize("name", ["tokenweir", "Tokenweir-processor"])
def test_names_of_our_own(name: str) -> None:
    """No provider takes the place of one of Envoy's clusters that are ours."""
    providers = {
        **PROVIDERS,
        name: PROVIDERS["openai"],
        "my-tokenweir": PROVIDERS["openai"],
    }

    assert PROCESSOR_CLUSTER.startswith(RESERVED_PREFIX)
    assert told(providers=providers) == [
        f"providers.{name}: has a name that is kept for Tokenweir's own parts"
    ]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"models": {"a": {"provider": "x"}}}, "models.a.provider"),
        ({"models": {"a": {"provider": "openai", "timeout_class": "x"}}}, "models.a.timeout_class"),
        ({"route_timeouts": {"other": "x"}}, "route_timeouts.other"),
        ({"default_providers": {"openai": "x"}}, "default_providers.openai"),
        ({"single_tenant": "x"}, "single_tenant"),
    ],
)  # fmt: skip
def test_names_that_refer_to_nothing(fields: dict[str, Any], path: str) -> None:
    """Each is told, unless what it refers to is only left out."""
    (line,) = told(**fields)
    section = line.removesuffix("`").rpartition("`")[2]

    assert line == f"{path}: is not among `{section}`"
    assert not told(LeftOut(frozenset({(section, "x")})), **fields)
    assert not told(LeftOut(frozenset({(section,)})), **fields)


def test_a_default_provider_speaks_its_dialect() -> None:
    """An app that speaks one wire format is not led to a provider of another."""
    assert told(default_providers={"anthropic": "openai"}) == [
        "default_providers.anthropic: is a provider that speaks openai"
    ]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"max_output_tokens": 100, "default_output_tokens": 101}, True),
        ({"max_output_tokens": 100, "default_output_tokens": 100}, False),
        ({"max_output_tokens": 100}, False),
    ],
)
def test_output_tokens(entry: dict[str, Any], problem: bool) -> None:
    """What is reserved is never more than what can come."""
    lines = told(models={"a": {"provider": "openai", **entry}})

    assert (
        lines
        == ["models.a.default_output_tokens: must be at most max_output_tokens, 100"]
        * problem
    )


def test_tokenizers() -> None:
    """A family that does not count is not silently replaced by another."""
    for family in FAMILIES:
        assert not told(models={"a": {"provider": "openai", "tokenizer": family}})
    lines = told(models={"a": {"provider": "openai", "tokenizer": "x"}})

    assert len(lines) == 1
    assert lines[0].startswith("models.a.tokenizer: is unknown; known are o200k_base,")


@pytest.mark.parametrize(
    ("patterns", "unknown"),
    [
        (["gpt-4o", "gpt-4*", "g*", "*", "o3"], []),
        (["gpt", "o4", "claude-*", "gpt-4o"], [0, 1, 2]),
    ],
)
def test_models_that_match_nothing(patterns: list[str], unknown: list[int]) -> None:
    """Wherever a list of models is, each of its names can mean something."""
    key = {"id": "a", "sha256": KEY_A, "models": patterns}
    quota = {**LIMIT, "models": patterns}
    lines = told(
        tenants={"acme": {"models": patterns, "keys": [key], "quotas": [quota]}},
        quotas=[{**quota, "partition": ["tenant"]}],
    )
    places = ("quotas.0.models", "tenants.acme.models", "tenants.acme.quotas.0.models",
              "tenants.acme.keys.0.models")  # fmt: skip

    assert lines == [
        f"{place}.{index}: matches no model of this policy"
        for place in places
        for index in unknown
    ]


def test_models_that_are_left_out_match() -> None:
    """A name is not wrong because the model's own entry is."""
    tenants = {"acme": {"models": ["o4"]}}

    assert told(tenants=tenants)
    assert not told(LeftOut(frozenset({("models", "o4")})), tenants=tenants)
    assert not told(LeftOut(frozenset({("models",)})), tenants=tenants)


@pytest.mark.parametrize(
    ("second", "twin"),
    [
        ({"concurrency": 2}, True),
        ({"concurrency": 2, "models": ["o3"]}, True),
        ({"concurrency": 2, "partition": ["tenant"]}, True),
        ({"concurrency": 2, "partition": ["key"]}, False),
        ({"concurrency": 2, "name": "other"}, False),
        ({"requests_per_minute": 2, "name": "concurrency"}, True),
        ({"requests_per_minute": 2}, False),
    ],
)
def test_quotas_with_one_id(second: dict[str, Any], twin: bool) -> None:
    """Two quotas never share levels: their author has to tell them apart."""
    lines = told(tenants={"acme": {"quotas": [LIMIT, second]}})

    assert [line.partition(":")[0] for line in lines] == [
        "tenants.acme.quotas.1.name"
    ] * twin


def test_shared_quotas_say_whose_they_are() -> None:
    """At the top there is no partition that everybody would expect."""
    lines = told(quotas=[LIMIT, {**LIMIT, "partition": ["model"]}] * 2)

    assert [line.partition(":")[0] for line in lines] == [
        "quotas.2.name",
        "quotas.3.name",
        "quotas.0.partition",
        "quotas.2.partition",
    ]


def test_budgets_with_one_id() -> None:
    """Another window makes another budget; another time zone needs a name."""
    day: dict[str, Any] = {"budget_usd": 5, "per": "day"}
    quotas = [day, {**day, "per": "hour"}, {"budget_tokens": 5, "per": "day"},
              {**day, "time_zone": "Asia/Tokyo"}]  # fmt: skip

    assert told(tenants={"acme": {"quotas": quotas}}) == [
        (
            "tenants.acme.quotas.3.name: must be set and different: another quota of this "
            "list has the same axis, `per` and partition, or this name"
        )
    ]


def test_budgets() -> None:
    """What does not fit together is told where it stands, at the top and in tenants."""
    budget = {
        "budget_usd": 5,
        "anchor": {"day": 5},
        "on_exceeded": {"downgrade_to": ["gpt-4o", "gpt", "o3"]},
    }
    lines = told(
        tenants={"acme": {"quotas": [LIMIT, budget]}},
        quotas=[{**budget, "partition": ["tenant"]}],
    )

    assert [line.partition(":")[0] for line in lines] == [
        "quotas.0.per",
        "quotas.0.on_exceeded.downgrade_to.1",
        "tenants.acme.quotas.1.per",
        "tenants.acme.quotas.1.on_exceeded.downgrade_to.1",
        "tenants.acme.quotas.1.on_exceeded.hard_limit_usd",
        "quotas.0.on_exceeded.hard_limit_usd",
    ]


def test_cheaper_models_that_are_left_out() -> None:
    """A name in a chain is not wrong because the model's own entry is."""
    follows = {"downgrade_to": "o4", "hard_limit_usd": 6}
    quotas = [{"budget_usd": 5, "per": "day", "on_exceeded": follows}]
    tenants = {"acme": {"quotas": quotas}}

    assert told(tenants=tenants) == [
        (
            "tenants.acme.quotas.0.on_exceeded.downgrade_to.0: matches no model of this "
            "policy"
        )
    ]
    assert not told(LeftOut(frozenset({("models", "o4")})), tenants=tenants)


def test_keys_are_unique_in_the_policy() -> None:
    """One key, or one id, can't be two tenants'; upper case makes no other hash."""
    keys = [{"id": "a", "sha256": KEY_A}, {"id": "b", "sha256": KEY_B}]
    twins = [{"id": "c", "sha256": KEY_A.upper()}, {"id": "b", "sha256": "c" * 64}]
    lines = told(tenants={"acme": {"keys": keys}, "other": {"keys": twins}})

    assert lines == [
        "tenants.other.keys.0.sha256: is that of another key too, of tenant acme",
        "tenants.other.keys.1.id: is the id of another key too, of tenant acme",
    ]


def test_quotas_of_keys() -> None:
    """They are looked at as those of tenants are."""
    quotas = [LIMIT, LIMIT, {"concurrency": 2, "name": "x", "models": ["o9"]}]
    key = {"id": "a", "sha256": KEY_A, "quotas": quotas}
    lines = told(tenants={"acme": {"keys": [key], "quotas": [LIMIT]}})

    place = "tenants.acme.keys.0.quotas"
    assert lines == [
        (
            f"{place}.1.name: must be set and different: another quota of this list has "
            "the same axis and partition, or this name"
        ),
        f"{place}.2.models.0: matches no model of this policy",
    ]


@pytest.mark.parametrize("section", ["providers", "models", "tenants"])
def test_sections_have_entries(section: str) -> None:
    """An empty section is told, unless its entries are only left out."""
    problem = f"{section}: must have at least one entry"
    empty: dict[str, Any] = {section: {}}

    assert problem in told(**empty)
    assert problem not in told(LeftOut(frozenset({(section, "x")})), **empty)
    assert problem not in told(LeftOut(frozenset({(section,)})), **empty)


def test_whom_caps_are_for() -> None:
    """A name that is not there would leave answers as long as before."""
    caps = [{"output_tokens": 9, "models": ["o3", "nope"], "tenants": ["acme", "acne"]}]

    assert told(caps=caps) == [
        "caps.0.models.1: matches no model of this policy",
        "caps.0.tenants.1: is not among `tenants`",
    ]


def test_where_a_cap_is_set() -> None:
    """Only one of the APIs has two names for it."""
    claude = {**PROVIDERS["claude"], "output_cap_field": "max_tokens"}

    assert told(providers={**PROVIDERS, "claude": claude}) == [
        "providers.claude.output_cap_field: only goes with the OpenAI API: remove it"
    ]


def test_who_is_asked_for_usage() -> None:
    """The other APIs report it without being asked."""
    claude = {**PROVIDERS["claude"], "ask_for_usage": False}

    assert told(providers={**PROVIDERS, "claude": claude}) == [
        "providers.claude.ask_for_usage: only goes with the OpenAI API: remove it"
    ]


def test_whose_prompts_are_audited() -> None:
    """A name that is not there would leave somebody's text where it should not be."""
    audit = {
        "prompts_of": ["acne"],
        "keep_prompt_text": True,
        "keep_prompt_text_of": ["nobody"],
    }

    assert told(audit=audit) == [
        "audit.prompts_of.0: is not among `tenants`",
        "audit.keep_prompt_text_of.0: is not among `tenants`",
    ]
