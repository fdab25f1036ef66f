"""Caps that change nothing are told."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.config.cap_advice import cap_advice
from tokenweir.config.compile import compile_policy
from tokenweir.config.schema import PolicyFile

CONTENT: dict[str, Any] = {
    "version": 1,
    "providers": {
        "o": {"base_url": "https://a", "dialect": "openai"},
        "a": {"base_url": "https://b", "dialect": "anthropic"},
    },
    "models": {
        "gpt-4o": {"provider": "o", "max_output_tokens": 1_000},
        "gpt-5*": {"provider": "o"},
        "claude": {"provider": "a", "max_output_tokens": 2_000},
    },
    "tenants": {"acme": {}, "small": {"models": ["claude", "gpt-5*"]}},
}


def advice(**cap: Any) -> list[str]:
    """Return what is said of a policy with one cap."""
    content = CONTENT | {"caps": [cap]}
    return [*cap_advice(compile_policy(PolicyFile.model_validate(content), "d", {}))]


@pytest.mark.parametrize(
    "cap",
    [
        {"output_tokens": 300},
        {"output_tokens": 999, "models": ["gpt-4o"]},
        {"output_tokens": 1_999, "models": ["gpt-4o", "claude"]},
        {"output_tokens": 90_000, "models": ["gpt-5*"]},
        {"output_tokens": 300, "routes": ["messages"]},
        {"output_tokens": 300, "tenants": ["small"], "models": ["gpt-*"]},
        {"output_tokens": 300, "models": ["gpt-5-mini"]},
    ],
)
def test_caps_to_be_content_with(cap: dict[str, Any]) -> None:
    """Each lowers what somebody may ask for."""
    assert advice(**cap) == []


@pytest.mark.parametrize(
    "cap",
    [
        {"models": ["claude"], "routes": ["chat_completions"]},
        {"models": ["gpt-*"], "routes": ["messages"]},
        {"models": ["gpt-4o"], "tenants": ["small"]},
    ],
)
def test_caps_that_never_apply(cap: dict[str, Any]) -> None:
    """No tenant that it is for may call such a model by such a route."""
    assert advice(output_tokens=300, **cap) == [
        "caps.0: can never apply, so it caps nothing"
    ]


def test_caps_above_what_models_can_generate() -> None:
    """They lower nothing; what would be set is bounded by the model."""
    [lowers] = advice(output_tokens=1_000, models=["gpt-4o"])
    [sets] = advice(if_unset=2_001, models=["claude"])

    assert lowers.startswith("caps.0.output_tokens: is no less than")
    assert "1,000" in lowers
    assert sets.startswith("caps.0.if_unset: is above")
    assert "2,000" in sets
