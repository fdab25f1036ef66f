"""Prices for cases, in litellm's form: easy to compute with, and nobody's list prices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# US dollars a token: thousands of nano-USD.
LARGE = {
    "input_cost_per_token": 4e-6,
    "cache_read_input_token_cost": 1e-6,
    "output_cost_per_token": 20e-6,
    "input_cost_per_audio_token": 30e-6,
    "output_cost_per_audio_token": 80e-6,
    "input_cost_per_token_flex": 2e-6,
    "cache_read_input_token_cost_flex": 0.5e-6,
    "output_cost_per_token_flex": 10e-6,
}
SMALL = {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}
FREE = {"input_cost_per_token": 0, "output_cost_per_token": 0}
SONNET = {
    "input_cost_per_token": 3e-6,
    "cache_creation_input_token_cost": 4e-6,
    "cache_read_input_token_cost": 0.3e-6,
    "output_cost_per_token": 15e-6,
}
# In fractions of a nano-USD.
FINE = {
    "input_cost_per_token": 0.1234567e-6,
    "cache_read_input_token_cost": 0.0123456e-6,
    "output_cost_per_token": 0.7654321e-6,
}
MODELS = {
    "gpt-4o": LARGE,
    "gpt-4o-mini": SMALL,
    "free": FREE,
    "fine": FINE,
    "claude-sonnet-5": SONNET,
    "claude-small": SMALL,
    "empty": {"mode": "chat"},
}


def overlay(folder: Path) -> str:
    """Write them to a file in *folder*; return its path."""
    path = folder / "prices.json"
    path.write_text(json.dumps(MODELS))
    return str(path)


def add_models(content: dict[str, Any], *names: str) -> None:
    """Add models of openai to a policy."""
    for name in names:
        content["models"][name] = {"provider": "openai", "max_output_tokens": 1000}
