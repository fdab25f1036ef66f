"""Names of models, secrets that do not show, and what Envoy is told."""

import traceback
from dataclasses import replace
from typing import Any

import pytest

from tests.examples import PROVIDER_KEY, policy
from tokenweir.core.policy import Provider, Secret, TimeoutClass

OWN = Provider("own", "openai", "https", "a.example", 443, "/x")


def test_secret_does_not_show() -> None:
    """A secret is shown by none of the ways in which values get into logs."""
    secret = Secret(PROVIDER_KEY)
    try:
        raise ValueError(secret)  # noqa: TRY301
    except ValueError as error:
        shown = "".join(traceback.format_exception(error))

    assert PROVIDER_KEY not in f"{secret} {secret!r} {(secret,)} {secret!s}" + shown
    assert secret.reveal() == PROVIDER_KEY
    assert not hasattr(secret, "__dict__")


def test_secrets_are_values() -> None:
    """Secrets are equal by value, so that an unchanged policy can be told."""
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"


def test_policy_does_not_show_keys() -> None:
    """The repr of a policy has neither keys nor the hashes of keys in it."""
    shown = repr(policy())

    assert "CANARY" not in shown
    assert not any(digest in shown for digest in policy().keys)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("local-x", "local-*"),
        ("local-large-1", "local-large-*"),
        ("local-", "local-*"),
        ("local", None),
        ("gpt-4o-mini-2024", None),
        ("gpt-4o-min", None),
        ("GPT-4o-mini", None),
        ("", None),
        ("*", None),
    ],
)
def test_model_by_name(name: str, model: str | None) -> None:
    """The exact entry wins, then the longest family; nothing else is a model."""
    found = policy().model(name)

    assert (found.name if found else None) == model


@pytest.mark.parametrize(
    ("asked", "passes"),
    [
        ("POST /v1/vector_stores", True),
        ("GET /v1/vector_stores", False),
        ("POST /v1/vector_stores/", False),
        ("POST /v1/Embeddings", False),
        ("GET /v1/files/", True),
        ("GET /v1/files/file-1/content", True),
        ("GET /v1/files", False),
        ("HEAD /v1/files/f", False),
        ("DELETE /v1/files/f", False),
        ("GET /v1/files/..", False),
        ("GET /v1/files/../organization/admin_api_keys", False),
        ("GET /v1/files/./f", False),
        ("GET /v1/files/..f", True),
        ("GET /v1/files/%2e%2e/organization", False),
        ("GET /v1/files/..;/organization", False),
        ("GET /v1/files/..\\organization", False),
        ("GET /v1/files/f\n", False),
    ],
)
def test_paths_that_pass(asked: str, passes: bool) -> None:
    """What is listed passes, and nothing that a server could read as another path."""
    method, _, path = asked.partition(" ")
    listed = replace(OWN, opaque_paths=("POST /v1/vector_stores", "GET /v1/files/*"))

    assert listed.lets_pass(method, path) is passes
    assert replace(OWN, opaque_paths=("*",)).lets_pass(method, path)
    assert not OWN.lets_pass(method, path)


# === what Envoy is rendered from ==================================================


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"scheme": "http"},
        {"host": "b.example"},
        {"port": 444},
        {"path_prefix": ""},
        {"ca_file": "/ca.pem"},
        {"cert_file": "/c.pem", "key_file": "/k.pem"},
        {"http2": True},
    ],
)
def test_a_provider_that_is_another(change: dict[str, Any]) -> None:
    """Whatever Envoy is told of a provider is in the name of its cluster."""
    other = replace(OWN, **change)

    assert other.cluster != OWN.cluster
    assert other.cluster.startswith(f"{other.name}-")


def test_a_provider_that_is_the_same() -> None:
    """What Envoy is not told, such as a credential, leaves the cluster as it is."""
    assert OWN.cluster == "own-2ec720a74f"
    assert replace(OWN, credential=Secret("sk-x")).cluster == OWN.cluster
    assert replace(OWN, files_digest="x").cluster == OWN.cluster


def test_rendering() -> None:
    """Of each part that Envoy is rendered from, a change is seen, by its path."""
    first = policy()
    slow = TimeoutClass("slow")
    providers = {**first.providers, "own": replace(first.providers["own"], port=1)}
    second = replace(
        first,
        providers=providers,
        timeout_classes={"default": TimeoutClass("default", 1), "slow": slow},
        retries=5,
        body_limit_bytes=1,
        tenants={},
        models={},
    )
    known = set(first.rendering.values())
    changed = [path for path, it in second.rendering.items() if it not in known]

    assert changed == [
        *("providers.own", "timeouts.default", "timeouts.slow"),
        *("retries", "body_limit"),
    ]
    assert replace(first, tenants={}, models={}).rendering == first.rendering
