"""What is right but probably not meant is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from tests.config.policies import KEY_A
from tokenweir.config.advice import advise
from tokenweir.config.compile import compile_policy
from tokenweir.config.scalar import RouteName
from tokenweir.config.schema import PolicyFile
from tokenweir.core.dialects import METERED_FORMS, METERED_PATHS
from tokenweir.core.events import RequestHead
from tokenweir.core.identify import entry_of
from tokenweir.core.policy import Policy, Secret
from tokenweir.core.price import flat_price
from tokenweir.core.pricing import Pricing

KEYS = [{"id": "k", "sha256": KEY_A}]
PROVIDERS: dict[str, Any] = {
    "o": {"base_url": "https://a", "dialect": "openai"},
    "a": {"base_url": "https://b", "dialect": "anthropic"},
}
SECRETS = {"o": Secret("sk-1"), "a": Secret("sk-2")}


def policy(secrets: dict[str, Secret] = SECRETS, **fields: Any) -> Policy:
    """Return a policy with *fields*; `quota` is that of its one tenant."""
    quota = fields.pop("quota", {"concurrency": 1})
    models = fields.pop("tenant_models", None)
    tenant = {"keys": KEYS, "quotas": [quota]} | ({"models": models} if models else {})
    content = {
        "version": 1,
        "providers": PROVIDERS,
        "models": {"gpt-*": {"provider": "o"}, "claude": {"provider": "a"}},
        "tenants": {"acme": tenant},
        **fields,
    }
    return compile_policy(PolicyFile.model_validate(content), "d", secrets)


def test_a_policy_to_be_content_with() -> None:
    """Nothing is said of it."""
    assert advise(policy()) == ()


def test_providers_without_credential() -> None:
    """They are sent the app's own key, unless there is only one app, whose key it is."""
    half = {"o": Secret("sk-1")}

    assert advise(policy(half)) == (
        (
            "providers.a: has no credential, so the key that an app sends to Tokenweir "
            "is passed on to it"
        ),
    )
    assert advise(policy(half), credentials=False) == ()
    assert advise(policy(half, single_tenant="acme")) == ()


def test_tenants() -> None:
    """Nobody can be a tenant without keys, and nothing limits one without quotas."""
    tenants = {"a": {"keys": KEYS}, "b": {"quotas": [{"concurrency": 1}]}}

    assert advise(policy(tenants=tenants)) == (
        "tenants.a: has no quota, so nothing limits it",
        (
            "tenants.b: has no keys here: only one that is issued can call as it, so "
            "until then nobody is limited by b.concurrency"
        ),
    )
    assert advise(policy(tenants=tenants, single_tenant="b")) == (
        "tenants.a: has no quota, so nothing limits it",
        "single_tenant: no tenant but b is ever used",
    )


def test_shadow_mode() -> None:
    """A quota that refuses nobody is named, once for all tenants."""
    shared = {"concurrency": 1, "mode": "shadow", "partition": ["tenant"]}
    tenants = {"a": {"keys": KEYS}, "b": {"keys": [{"id": "l", "sha256": "b" * 64}]}}

    assert advise(policy(quotas=[shared], tenants=tenants)) == (
        "quota *.concurrency: is in shadow mode, so it refuses nobody",
    )


@pytest.mark.parametrize(
    ("quota", "told"),
    [
        ({"budget_usd": 5, "per": "day"}, ["claude"]),
        ({"budget_usd": 5, "per": "day", "routes": ["messages"]}, ["claude"]),
        ({"budget_usd": 5, "per": "day", "routes": ["chat_completions"]}, []),
        ({"budget_usd": 5, "per": "day", "mode": "shadow"}, []),
        ({"budget_tokens": 5, "per": "day"}, []),
    ],
)
def test_models_without_a_price(quota: dict[str, Any], told: list[str]) -> None:
    """An enforced budget of money refuses them, if it is for them."""
    unpriced = policy(quota=quota)
    price = flat_price("any", "policy", (1, 1))
    priced = replace(unpriced, pricing=Pricing(ceiling=price))
    text = (
        "has no price, so where a budget in USD applies it is refused: give it one in an "
        "overlay, or set `prices.ceiling`"
    )

    found = [line for line in advise(unpriced) if line.startswith("models.")]
    assert found == [f"models.{name}: {text}" for name in told]
    assert not [line for line in advise(priced) if line.startswith("models.")]
    assert "no price" not in "".join(advise(unpriced, credentials=False))


@pytest.mark.parametrize(
    ("quota", "tenant_models", "can_match"),
    [
        ({"concurrency": 1}, ["claude"], True),
        ({"tokens_per_minute": 1}, ["claude"], True),
        ({"concurrency": 1, "models": ["gpt-*"]}, ["claude"], False),
        ({"concurrency": 1, "models": ["gpt-4"]}, ["gpt-5"], False),
        ({"concurrency": 1, "models": ["gpt-4"]}, ["gpt-*"], True),
        ({"concurrency": 1, "models": ["*"]}, ["gpt-5"], True),
        ({"concurrency": 1, "routes": ["models"]}, None, True),
        ({"concurrency": 1, "routes": ["opaque"]}, None, False),
        ({"requests_per_minute": 1, "routes": ["other", "opaque"]}, None, True),
        ({"tokens_per_minute": 1, "routes": ["models"]}, None, False),
        ({"tokens_per_minute": 1, "routes": ["count_tokens"]}, None, False),
        ({"tokens_per_minute": 1, "routes": ["messages"]}, None, True),
        ({"tokens_per_minute": 1, "routes": ["messages"]}, ["gpt-5"], False),
        ({"concurrency": 1, "routes": ["messages"], "models": ["gpt-5"]}, None, False),
        ({"concurrency": 1, "routes": ["models"], "models": ["gpt-5"]}, None, False),
        ({"concurrency": 1, "routes": ["models"], "models": ["*"]}, None, True),
        ({"concurrency": 1, "routes": ["chat_completions"]}, ["gpt-5"], True),
    ],
)
def test_quotas_that_can_never_match(
    quota: dict[str, Any], tenant_models: list[str] | None, can_match: bool
) -> None:
    """A limit on what never comes is told before anybody relies on it."""
    lines = advise(policy(quota=quota, tenant_models=tenant_models))

    assert all("can never match, so it limits nothing: " in line for line in lines)
    assert len(lines) == (not can_match)


@pytest.mark.parametrize(
    ("key", "can_match"),
    [
        ({}, True),
        ({"models": ["gpt-4o"]}, True),
        ({"models": ["claude"]}, False),
    ],
)
def test_quotas_of_keys_that_can_never_match(
    key: dict[str, Any], can_match: bool
) -> None:
    """What a key may call is what its own limits are for, and its tenant's."""
    own = {"tokens_per_minute": 1, "models": ["gpt-*"]}
    quota = {"tokens_per_minute": 2, "models": ["gpt-*"]}
    tenant = {"keys": [{**KEYS[0], **key, "quotas": [own]}], "quotas": [quota]}
    lines = advise(policy(tenants={"acme": tenant}))

    texts = (
        (
            "quota acme.tokens_per_minute: is for what none of its tenants' keys may "
            "call, so it limits nothing: widen a key's `models` or `routes`, or remove it"
        ),
        (
            "quota acme/k.tokens_per_minute: can never match, so it limits nothing: "
            "nobody who has it may call gpt-*. Name models that they may"
        ),
    )
    assert lines == (() if can_match else texts)


def test_a_quota_that_never_decides() -> None:
    """A limit of a key that its tenant's makes vain is told, and still looked at."""
    own = {"tokens_per_minute": 9, "mode": "shadow"}
    keys = [{**KEYS[0], "quotas": [own]}]
    tenants = {"acme": {"keys": keys, "quotas": [{"tokens_per_minute": 9}]}}

    assert advise(policy(tenants=tenants)) == (
        (
            "quota acme/k.tokens_per_minute: never decides: acme.tokens_per_minute "
            "refuses whatever it would. Lower it, raise that, or remove it"
        ),
        "quota acme/k.tokens_per_minute: is in shadow mode, so it refuses nobody",
    )


def test_one_slip_among_right_names() -> None:
    """It is told, though the quota has an effect."""
    models = {"gpt-*": {"provider": "o"}, "gpt-mini": {"provider": "o"}}
    quota = {"concurrency": 1, "models": ["gpt-mni", "gpt-mini"]}

    assert advise(policy(models=models, quota=quota)) == (
        (
            "quota acme.concurrency: is for gpt-mni, which nobody knows: did you mean "
            "gpt-mini?"
        ),
    )


def test_quotas_without_room_for_a_whole_answer() -> None:
    """Who asks for all that a model can do is refused for good, and that is told."""
    models = {"gpt": {"provider": "o", "max_output_tokens": 100}}
    [line] = advise(policy(models=models, quota={"tokens_per_minute": 99}))

    assert line.startswith("quota acme.tokens_per_minute: has room for 99 tokens, and ")


def test_many_quotas_of_a_tenant_without_keys() -> None:
    """The first few are named, so that it stays one line."""
    quotas = [{"concurrency": at, "name": f"q{at}"} for at in range(7, 0, -1)]
    [line] = advise(policy(tenants={"t": {"quotas": quotas}}))

    assert line.endswith("limited by t.q7, t.q6, t.q5, t.q4, t.q3 and 2 more")


def test_issued_keys() -> None:
    """Where they are known, a tenant without any is nobody; nor is one whose key ended."""
    key = {**KEYS[0], "expires_at": "1970-01-01T00:00:01Z"}
    made = policy(tenants={"t": {"keys": [key], "quotas": [{"concurrency": 1}]}})

    assert advise(made, issued=True, now_ms=999) == ()
    assert advise(made, issued=True, now_ms=1_000) == (
        (
            "tenants.t: has no keys that work, here or issued: nobody can call as it, so "
            "until then nobody is limited by t.concurrency"
        ),
    )


def test_without_prices() -> None:
    """What nobody has looked up is not judged; what has no price is told of models."""
    shadow = {"budget_usd": 5, "per": "day", "mode": "shadow", "models": ["claude"]}
    enforced = {**shadow, "mode": "enforce"}

    assert "no price, so it counts nothing" in advise(policy(quota=shadow))[0]
    assert [line for line in advise(policy(quota=enforced)) if "quota" in line] == []
    assert advise(policy(quota=enforced), credentials=False) == ()


def test_opaque_requests_can_come_if_a_provider_takes_them() -> None:
    """A quota on that route is only in vain if all providers refuse."""
    opaque = {"o": {**PROVIDERS["o"], "unknown_paths": "opaque"}, "a": PROVIDERS["a"]}
    quota = {"concurrency": 1, "routes": ["opaque"]}

    assert advise(policy(quota=quota, providers=opaque)) == ()


def test_a_shared_quota_matches_if_it_does_for_one_tenant() -> None:
    """It is only in vain if it is so for all."""
    shared = {"concurrency": 1, "partition": ["tenant"], "models": ["claude"]}

    assert advise(policy(quotas=[{**shared, "name": "x"}])) == ()
    assert advise(
        policy(quotas=[{**shared, "name": "x"}], tenant_models=["gpt-5"])
    ) == (
        (
            "quota *.x: can never match, so it limits nothing: nobody who has it may "
            "call claude. Name models that they may"
        ),
    )


def test_every_route_is_known_here() -> None:
    """A route is one that a dialect reads, or one of those that nobody reads."""
    for route in get_args(RouteName):
        quota = {"concurrency": 1, "routes": [route]}

        nobodys = {"opaque", "generate_content", "embed_content"}
        nobodys |= {"converse", "invoke_model"}
        assert (advise(policy(quota=quota)) == ()) is (route not in nobodys)


@pytest.mark.parametrize("route", ["generate_content", "embed_content", "count_tokens"])
def test_routes_of_gemini(route: str) -> None:
    """A quota on Gemini's routes applies where a model speaks it."""
    google = {"base_url": "https://g", "dialect": "gemini"}
    quota = {"concurrency": 1, "routes": [route]}
    found = policy(
        {"g": Secret("k")},
        quota=quota,
        providers={"g": google},
        models={"m": {"provider": "g"}},
    )

    assert advise(found) == ()


@pytest.mark.parametrize(
    ("dialect", "route", "applies"),
    [
        ("anthropic", "count_tokens", True),
        ("openai", "count_tokens", True),
        ("openai", "moderations", True),
        ("anthropic", "moderations", False),
        ("gemini", "moderations", False),
    ],
)
def test_routes_that_cost_no_tokens(dialect: str, route: str, applies: bool) -> None:
    """A quota on such a route applies where a model's provider has paths of it."""
    found = policy(
        {"p": Secret("k")},
        quota={"concurrency": 1, "routes": [route]},
        providers={"p": {"base_url": "https://p", "dialect": dialect}},
        models={"m": {"provider": "p"}},
    )

    assert (advise(found) == ()) is applies


@pytest.mark.parametrize("route", ["converse", "invoke_model", "count_tokens"])
def test_routes_of_bedrock(route: str) -> None:
    """A quota on Bedrock's routes applies where a model speaks it."""
    amazon = {"base_url": "https://b", "dialect": "bedrock"}
    quota = {"concurrency": 1, "routes": [route]}
    found = policy(
        {"b": Secret("k")},
        quota=quota,
        providers={"b": amazon},
        models={"us.a-v1:0": {"provider": "b"}},
    )

    assert advise(found) == ()


def test_every_route_that_there_is_can_be_named() -> None:
    """What an exchange calls its route, a quota can say."""
    forms = (form.text.format(model="m") for form in METERED_FORMS)
    paths = {*METERED_PATHS, *forms, "/v1/messages/count_tokens"}
    heads = [RequestHead(method, path, ()) for method in ("GET", "POST")
             for path in (*paths, "/v1/models", "/v1/other")]  # fmt: skip

    assert {entry_of(head).route for head in heads} == set(get_args(RouteName))
