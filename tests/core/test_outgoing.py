"""What a request looks like on its way to the provider."""

from collections.abc import Iterable

import pytest

from tests.examples import CHAT, NOW_MS, PROVIDER_KEY, head, hold, policy
from tests.wire import chat
from tokenweir.core.admission import Plan, Target
from tokenweir.core.hold import Granted
from tokenweir.core.identify import entry_of
from tokenweir.core.outgoing import (
    CLUSTER_HEADER,
    TIMEOUT_HEADER,
    Admitted,
    Incoming,
    forward,
    outgoing_headers,
)
from tokenweir.core.policy import Model, OnLedgerFailure, Secret

POLICY = policy()


def target_of(provider: str, model: str | None = None) -> Target:
    """Return a target of the policy."""
    return Target(POLICY.providers[provider], POLICY.models[model] if model else None)


def revealed(headers: Iterable[tuple[str, str | Secret]]) -> dict[str, str]:
    """Return *headers* as they are sent."""
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in headers
    }


@pytest.mark.parametrize(
    ("provider", "header", "value", "removed"),
    [
        ("openai", "authorization", f"Bearer {PROVIDER_KEY}", {"x-api-key", "api-key"}),
        ("anthropic", "x-api-key", PROVIDER_KEY, {"authorization", "api-key"}),
    ],
)
def test_credential(provider: str, header: str, value: str, removed: set[str]) -> None:
    """The provider gets its own credential, and no header that could hold the app's."""
    changes, removals = outgoing_headers(POLICY, target_of(provider), "messages")

    assert revealed(changes)[header] == value
    assert set(removals) == removed
    assert PROVIDER_KEY not in repr(changes)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("name", ["authorization", "x-api-key", "api-key"])
def test_apps_key_is_not_forwarded(provider: str, name: str) -> None:
    """Every header that may prove who pays is replaced or taken out."""
    changes, removals = outgoing_headers(POLICY, target_of(provider), "messages")
    replaced = {header for header, _ in changes}

    assert (name in replaced) != (name in removals)


def test_without_credential() -> None:
    """Without a credential of its own the sidecar leaves the app's headers alone."""
    changes, removals = outgoing_headers(POLICY, target_of("own"), "chat_completions")

    own = POLICY.providers["own"].cluster
    assert revealed(changes) == {CLUSTER_HEADER: own, TIMEOUT_HEADER: "slow"}
    assert removals == ()


@pytest.mark.parametrize(
    ("model", "route", "timeout"),
    [
        ("fast", "chat_completions", "quick"),
        ("gpt-4o-mini", "chat_completions", "slow"),
        ("gpt-4o-mini", "messages", "default"),
        (None, "chat_completions", "slow"),
        (None, "models", "default"),
    ],
)
def test_timeout_class(model: str | None, route: str, timeout: str) -> None:
    """The model's timeout class, else the route's, else the default."""
    changes, _ = outgoing_headers(POLICY, target_of("openai", model), route)

    assert revealed(changes)[TIMEOUT_HEADER] == timeout
    assert revealed(changes)[CLUSTER_HEADER] == POLICY.providers["openai"].cluster


def test_app_cannot_choose_the_route() -> None:
    """Our routing headers are always set, so that an app's own never count."""
    for provider in POLICY.providers.values():
        changes, _ = outgoing_headers(POLICY, Target(provider), "other")

        assert {CLUSTER_HEADER, TIMEOUT_HEADER} <= {name for name, _ in changes}


@pytest.mark.parametrize(
    ("known", "sent"), [(True, b'"max_tokens":1000'), (False, b'"max_tokens":5000')]
)
def test_a_cheaper_model_gets_a_cap_that_it_can_take(known: bool, sent: bytes) -> None:
    """If the policy says what it can generate; an app's own choice is its own."""
    model = Model("cheap", "openai", None, 1_000, 400, maximum_is_known=known)
    body = chat()[:-1] + b',"max_tokens":5000}'
    request_head = head("POST", CHAT)
    entry = entry_of(request_head)
    request = entry.errors.parse_request(body)
    incoming = Incoming(request_head, entry, NOW_MS, request, body)

    def body_to(name: str) -> bytes:
        target = Target(POLICY.providers["openai"], model, name)
        plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED)
        admitted = Admitted(POLICY, plan, hold(), Granted("1"))
        return forward(incoming, admitted).body or body

    assert sent in body_to("cheap")
    assert b'"max_tokens":5000' in body_to(request.model)
