"""
The demo's policy: what `tokenweir up` runs when it is given none.

`demo-policy.yaml` is a policy like any other; only the mock provider's port is
not known before the stack runs.
"""

from __future__ import annotations

from importlib.resources import files

DEMO_KEY = "sk-tokenweir-demo"
# Of a tenant whose only limit is small enough to be hit with three calls.
TOUR_KEY = "sk-tokenweir-tour"
OPENAI_MODEL = "gpt-4o-mini"
ANTHROPIC_MODEL = "claude-sonnet-5"

_MOCK_IN_FILE = "127.0.0.1:8000"


def demo_policy(mock_port: int) -> str:
    """Return the text of the policy, for a mock provider on *mock_port*."""
    text = files("tokenweir.stack").joinpath("demo-policy.yaml").read_text()
    return text.replace(_MOCK_IN_FILE, f"127.0.0.1:{mock_port}")
