"""A policy and requests to ask about."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from tests.cases.priced import overlay
from tokenweir.config.load import load_policy
from tokenweir.core.bucket import Bucket
from tokenweir.core.calibration import Learned
from tokenweir.core.hold import Limit
from tokenweir.core.levels import Levels
from tokenweir.core.policy import Policy
from tokenweir.explain.question import Question, question_of, with_key_id
from tokenweir.ledger.calibration import Spot
from tokenweir.ledger.levels_reader import LevelSource

KEY, CREDENTIAL = "sk-tw-CANARY-app", "sk-provider-CANARY"
NOW_MS = 1_767_268_800_000
ENV = {"CREDENTIAL": CREDENTIAL}
CHEAPER = {
    "budget_usd": 0.05,
    "per": "day",
    "on_exceeded": {"downgrade_to": "gpt-4o-mini", "hard_limit_usd": 0.06},
}
QUOTAS: list[dict[str, Any]] = [
    {"requests_per_minute": 2},
    {"tokens_per_minute": 6_000, "capacity": 4_000},
    {"concurrency": 8, "models": ["claude-*"]},
    {"input_tokens_per_minute": 10, "mode": "shadow"},
    {"requests_per_minute": 9, "routes": ["messages"], "name": "messages"},
    CHEAPER,
]


def content(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return a policy; *changes* replace top-level members."""
    secret = hashlib.sha256(KEY.encode()).hexdigest()
    key = {"id": "ci", "sha256": secret, "models": ["gpt-*", "claude-*"]}
    made: dict[str, Any] = {
        "version": 1,
        "providers": {
            "openai": {
                "base_url": "https://api.openai.com",
                "dialect": "openai",
                "credential": "env:CREDENTIAL",
            },
            "claude": {"base_url": "https://api.anthropic.com", "dialect": "anthropic"},
        },
        "models": {
            "gpt-4o": {"provider": "openai", "max_output_tokens": 3_000},
            "gpt-4o-mini": {"provider": "openai"},
            "renamed": {"provider": "openai", "upstream_model": "gpt-4o"},
            "claude-*": {"provider": "claude"},
        },
        "tenants": {"acme": {"keys": [key], "quotas": QUOTAS}},
        "prices": {"overlays": [overlay(folder)]},
    }
    return made | changes


def write(folder: Path, **changes: Any) -> Path:
    """Return the path of a policy file."""
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(content(folder, **changes)))
    return path


def policy(folder: Path, **changes: Any) -> Policy:
    """Return it, loaded."""
    return load_policy(write(folder, **changes), ENV)


def body(**members: Any) -> bytes:
    """Return a request of OpenAI's API, with *members* changed; None: gone."""
    made = {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "PROMPT-CANARY, hello"}],
        "max_tokens": 1_000,
        **members,
    }
    return json.dumps({k: v for k, v in made.items() if v is not None}).encode()


def ask(asked: Policy, data: bytes, **more: Any) -> Question:
    """Return what is asked by the key ``ci``."""
    return with_key_id(question_of(asked, data, **more), "ci")


class Source(LevelSource):
    """Levels that a test has made, at a moment of its choice."""

    def __init__(self, levels: Levels | None = None, now_ms: int = NOW_MS) -> None:
        self.made = levels or Levels()
        self.moment = now_ms
        self.asked: list[tuple[str, int]] = []
        self.known: dict[Spot, Learned] = {}

    async def now_ms(self) -> int:
        return self.moment

    async def levels(self, tag: str, limits: Any, now_ms: int) -> Levels:
        assert all(isinstance(limit, Limit) for limit in limits)
        self.asked.append((tag, now_ms))
        return self.made

    async def learned(self, tenant: str) -> dict[Spot, Learned]:
        return {
            spot: found
            for spot, found in self.known.items()
            if spot[0].tenant == tenant
        }


def used_up() -> Source:
    """Return levels of which ``acme.requests_per_minute`` has nothing left."""
    name = "acme.requests_per_minute|requests_per_minute|tenant=acme"
    return Source(Levels(buckets={name: Bucket(0, NOW_MS, 0, 2, 2)}))


class Raising(Source):
    """Raises *error* instead."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def levels(self, tag: str, limits: Any, now_ms: int) -> Levels:
        await super().levels(tag, limits, now_ms)
        raise self.error
