"""Policies to begin from, and what is wrong with others."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import pytest

from tokenweir.config.load import load_policy
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy

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
