"""A key that no sidecar would take is noticed when it is issued."""

from __future__ import annotations

import pytest

from tests.config.policies import SMALL
from tokenweir.config.key_advice import key_advice


def test_keys_that_work() -> None:
    """Of a known tenant, under an id of its own."""
    assert list(key_advice(SMALL, "acme", "app")) == []


def test_keys_that_are_ignored() -> None:
    """Of no tenant, or under an id that the policy itself has."""
    [no_tenant] = key_advice(SMALL, "amce", "app")
    [same_id] = key_advice(SMALL, "acme", "acme-ci")

    assert "no tenant amce" in no_tenant
    assert "has a key of this id, of tenant acme" in same_id


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "tenants: {acme: 5}",
        "tenants: {acme: {keys: 5}}",
        "tenants: {acme: {keys: [5]}}",
    ],
)
def test_policies_that_are_none(text: str) -> None:
    """They are told by others."""
    assert list(key_advice(text, "acme", "app")) == []


@pytest.mark.parametrize("text", ["", "5", "tenants: 5"])
def test_policies_without_tenants(text: str) -> None:
    """What has none has not this one either."""
    assert len(list(key_advice(text, "acme", "app"))) == 1
