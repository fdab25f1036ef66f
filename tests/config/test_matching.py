"""What a quota can apply to follows from what its callers may call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.config.policies import KEY_A, KEY_B
from tokenweir.config.compile import compile_policy
from tokenweir.config.matching import Held, Matching, Scope, without_ended_keys
from tokenweir.config.schema import PolicyFile
from tokenweir.core.policy import Policy


def policy(**fields: Any) -> Policy:
    """Return a policy of two providers, with *fields*."""
    content = {
        "version": 1,
        "providers": {
            "o": {"base_url": "https://a", "dialect": "openai"},
            "a": {"base_url": "https://b", "dialect": "anthropic"},
        },
        "models": {"gpt-*": {"provider": "o"}, "claude": {"provider": "a"}},
        "tenants": {"t": {}},
        **fields,
    }
    return compile_policy(PolicyFile.model_validate(content), "d", {})


def tenant(quota: dict[str, Any], *keys: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return tenants: one with *quota* and *keys*."""
    entries = [
        {"id": f"k{at}", "sha256": (KEY_A, KEY_B)[at], **key}
        for at, key in enumerate(keys)
    ]
    return {"t": {"keys": entries, "quotas": [quota], **more}}


def held(**fields: Any) -> tuple[Matching, Held]:
    """Return the first quota of a policy, and what looks at it."""
    matching = Matching(policy(**fields))
    return matching, next(matching.quotas())


@pytest.mark.parametrize(
    ("quota", "keys", "matches"),
    [
        ({"concurrency": 1}, ({},), True),
        ({"concurrency": 1}, (), False),
        ({"concurrency": 1, "models": ["claude"]}, ({"models": ["gpt-*"]},), False),
        ({"concurrency": 1, "models": ["claude"]}, ({"models": ["gpt-4"]}, {}), True),
        ({"concurrency": 1}, ({"models": ["gpt-4"]},), True),
        ({"tokens_per_minute": 1}, ({"routes": ["models"]},), False),
        ({"concurrency": 1}, ({"routes": ["models"]},), True),
        ({"concurrency": 1, "routes": ["messages"]}, ({"routes": ["models"]},), False),
        ({"concurrency": 1}, ({"routes": ["opaque"]},), False),
        (
            {"tokens_per_minute": 1, "models": ["claude"]},
            ({"routes": ["chat_completions"]},),
            False,
        ),
        (
            {"tokens_per_minute": 1, "routes": ["messages", "chat_completions"]},
            ({"routes": ["messages"], "models": ["claude"]},),
            True,
        ),
        ({"tokens_per_minute": 1}, ({"routes": ["count_tokens"]},), False),
        ({"requests_per_minute": 1}, ({"routes": ["count_tokens"]},), True),
    ],
)
def test_what_keys_may_call(
    quota: dict[str, Any], keys: tuple[dict[str, Any], ...], matches: bool
) -> None:
    """Models and routes of at least one key go together with the quota's."""
    matching, one = held(tenants=tenant(quota, *keys))

    assert matching.can_match(one.quota, one.scopes) is matches
    assert matching.can_match(one.quota, one.widest)


def test_who_has_a_quota() -> None:
    """Each once: a tenant's, what every tenant has, a key's own."""
    key = {"id": "k", "sha256": KEY_A, "models": ["gpt-4"], "quotas": [RPM]}
    tenants = {"t": {"keys": [key], "models": ["gpt-*"]}, "u": {}}
    shared = {"concurrency": 2, "partition": ["tenant"]}
    every, own = Matching(policy(tenants=tenants, quotas=[shared])).quotas()

    scope = Scope((("gpt-*",), ("gpt-4",)))
    assert (every.quota.id, len(every.tenants)) == ("*.concurrency", 2)
    assert every.widest == {Scope(), Scope((("gpt-*",),))}
    assert every.scopes == own.scopes == {scope}
    assert own.quota.id == "t/k.requests_per_minute"
    assert own.tenants[0].models == ("gpt-4",)
    assert own.tenants[0].quotas == (own.quota, every.quota)


RPM = {"requests_per_minute": 1}


def test_a_single_tenant() -> None:
    """Whoever calls is that one, without a key; no other can be called as."""
    key = {"id": "k", "sha256": KEY_A, "quotas": [RPM], "models": ["gpt-4"]}
    tenants = {"t": {"quotas": [RPM]}, "u": {"keys": [key], "quotas": [RPM]}}
    found = Matching(policy(tenants=tenants, single_tenant="t")).quotas()

    assert {one.quota.id: one.scopes for one in found} == {
        "t.requests_per_minute": {Scope()},
        "u.requests_per_minute": frozenset(),
        "u/k.requests_per_minute": frozenset(),
    }


def test_models() -> None:
    """Those that a caller may call under a quota."""
    quota = {"concurrency": 1, "models": ["gpt-4o", "claude"]}
    matching, one = held(tenants=tenant(quota, {}, models=["gpt-*"]))

    assert [model.name for model in matching.models(one.quota, one.scopes)] == ["gpt-*"]


def test_lists_that_only_meet_in_pairs() -> None:
    """A name has to be in all of them at once."""
    key = {"models": ["gpt-b", "gpt-c"]}
    quota = {"concurrency": 1, "models": ["gpt-a", "gpt-b"]}
    matching, one = held(tenants=tenant(quota, key, models=["gpt-a", "gpt-c"]))

    assert not matching.can_match(one.quota, one.scopes)
    assert matching.names_meet(one.quota, one.widest)
    assert not matching.names_meet(one.quota, one.scopes)


@pytest.mark.parametrize(
    ("name", "matches"),
    [("gpt-4o", False), ("gpt-4*", False), ("gpt-5", True), ("gpt-*", True)],
)
def test_the_closest_entry_is_what_a_name_means(name: str, matches: bool) -> None:
    """A family is not called by what has an entry of its own, or a closer family."""
    models = {
        "gpt-*": {"provider": "o"},
        "gpt-4*": {"provider": "a"},
        "gpt-4o": {"provider": "a"},
    }
    quota = {"concurrency": 1, "models": [name], "routes": ["chat_completions"]}
    matching, one = held(models=models, tenants=tenant(quota, {}))

    assert matching.can_match(one.quota, one.scopes) is matches


def test_a_key_that_is_rotated_has_each_quota_once() -> None:
    """Old and new secret have one id, and so one limit."""
    made = policy(
        tenants={"t": {"keys": [{"id": "k", "sha256": KEY_A, "quotas": [RPM]}]}}
    )
    [key] = made.keys.values()
    twice = replace(made, keys={KEY_A: key, KEY_B: replace(key, models=("claude",))})
    [one] = Matching(twice).quotas()

    assert one.scopes == {Scope(), Scope((("claude",),))}


def test_keys_that_have_ended_are_none() -> None:
    """Neither can they call, nor are limits of their own missed."""
    key = {
        "id": "k",
        "sha256": KEY_A,
        "quotas": [RPM],
        "expires_at": "2026-01-01T00:00:00Z",
    }
    made = policy(tenants={"t": {"keys": [key], "quotas": [RPM]}})
    [ends_at_ms] = [each.ends_at_ms for each in made.keys.values()]
    assert ends_at_ms is not None

    assert without_ended_keys(made, ends_at_ms - 1) is made
    [one] = Matching(without_ended_keys(made, ends_at_ms)).quotas()
    assert (one.quota.id, one.scopes) == ("t.requests_per_minute", frozenset())


def test_opaque_requests() -> None:
    """They come if a provider lets them pass."""
    quota = {"concurrency": 1, "routes": ["opaque"]}
    providers = {
        "o": {"base_url": "https://a", "dialect": "openai", "unknown_paths": "opaque"},
        "a": {"base_url": "https://b", "dialect": "anthropic"},
    }
    for fields, matches in (({}, False), ({"providers": providers}, True)):
        matching, one = held(tenants=tenant(quota, {}), **fields)

        assert matching.can_match(one.quota, one.scopes) is matches
