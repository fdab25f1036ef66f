"""Policies to begin from, and what is wrong with others."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import pytest

from tokenweir.config.load import load_policy
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy

# Hashes of keys.
KEY_A = "a" * 64
KEY_B = "b" * 64

# A value that no message, repr or traceback may ever hold.
CANARY = "sk-canary-5d41402abc4b2a76"

ENV = {"OPENAI_API_KEY": CANARY}

SMALL = f"""\
version: 1
providers:
  openai: {{base_url: "https://api.openai.com", dialect: openai, credential: "env:OPENAI_API_KEY"}}
  claude: {{base_url: "https://api.anthropic.com", dialect: anthropic}}
models:
  gpt-4o-mini: {{provider: openai}}
  claude-*: {{provider: claude}}
tenants:
  acme:
    keys:
      - {{id: acme-ci, sha256: "{KEY_A}"}}
    quotas:
      - {{requests_per_minute: 600}}
      - {{tokens_per_minute: 60000}}
"""

# Every field that there is, but for the other axes.
FULL = f"""\
version: 1
providers:
  openai:
    base_url: https://api.openai.com/v1
    dialect: openai
    credential: env:OPENAI_API_KEY
    unknown_paths: opaque
    output_cap_field: max_tokens
    version_path: /v4
    ask_for_usage: false
    priced_as: azure
  local: {{base_url: "http://10.0.0.5:8000", dialect: openai, allow_plaintext: true, http2: true}}
  claude: {{base_url: "https://api.anthropic.com", dialect: anthropic}}
models:
  gpt-4o-mini:
    provider: openai
    upstream_model: gpt-4o-mini-2024-07-18
    max_output_tokens: 16384
    default_output_tokens: 1000
    tokenizer: o200k_base
    message_tokens: 5
    tokenize:
      url: https://vllm.internal/tokenize
      credential: env:OPENAI_API_KEY
      header: X-Api-Key
      deadline: 200ms
      min_bytes: 1000
      max_bytes: 200000
    calibration: true
    timeout_class: slow
  claude-*: {{provider: claude}}
tenants:
  acme:
    keys:
      - id: acme-ci
        sha256: "{KEY_A}"
        models: [gpt-4o-mini]
        routes: [chat_completions, models]
        expires_at: 2100-01-31T12:00:00+09:00
        quotas: [{{requests_per_minute: 60}}, {{budget_usd: 5, per: day}}]
    models: [gpt-*, claude-3]
    on_ledger_failure: open
    quotas:
      - {{requests_per_minute: 600, capacity: 10, name: burst, mode: shadow}}
      - {{tokens_per_minute: 60000, counts: input, partition: [key, model], stagger: true}}
      - {{concurrency: 8, models: ["*"], routes: [messages], on_ledger_failure: closed, leases: true}}
      - budget_usd: 0.25
        per: month
        time_zone: America/New_York
        anchor: {{day: 31, hour: 6}}
        on_exceeded: {{downgrade_to: [gpt-4o-mini, claude-3], hard_limit_usd: "0.5"}}
        alerts: [100, 50]
      - budget_tokens: 1000000
        per: week
        anchor: {{weekday: sunday}}
        on_exceeded: {{throttle_percent: 20, hard_limit_tokens: 2000000}}
  other: {{keys: [{{id: other, sha256: "{KEY_B}"}}]}}
quotas:
  - {{output_tokens_per_minute: 1000000, partition: [provider]}}
  - {{input_tokens_per_minute: 1000000, partition: [tenant]}}
caps:
  - {{output_tokens: 3000, if_unset: 1000, models: ["gpt-*"], routes: [chat_completions], tenants: [acme]}}
audit: {{prompts: true, prompts_of: [acme], keep_prompt_text: true, keep_prompt_text_of: [acme]}}
single_tenant: acme
default_providers: {{openai: local}}
timeouts: {{slow: {{total: 10m, idle: 30}}, default: {{idle: 500ms}}}}
route_timeouts: {{models: slow}}
responses: {{path: native, routes: {{embeddings: inspect}}}}
retries: 1
body_limit: 1MiB
on_ledger_failure: closed
prices:
  ceiling: {{input_usd_per_million: 20, output_usd_per_million: "99.5"}}
  marginal: true
notifications:
  webhook: {{url: "https://ops.example/x", secret: "env:OPENAI_API_KEY", timeout: 2s}}
"""


def edited(old: str, new: str, text: str = SMALL) -> str:
    """Return *text* with its one *old* replaced."""
    assert text.count(old) == 1
    return text.replace(old, new)


def write(folder: pathlib.Path, text: str) -> pathlib.Path:
    """Return the path of a policy file that holds *text*."""
    path = folder / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def load(
    folder: pathlib.Path, text: str = SMALL, env: Mapping[str, str] = ENV
) -> Policy:
    """Return the policy that *text* is."""
    return load_policy(write(folder, text), env)


def problems(
    folder: pathlib.Path, text: str, env: Mapping[str, str] = ENV
) -> list[str]:
    """Return what is wrong with *text*."""
    with pytest.raises(PolicyError) as caught:
        load(folder, text, env)
    return list(caught.value.problems)
