"""A name in a quota that only a family stands for may be a slip of another."""

from __future__ import annotations

import pytest

from tokenweir.config.load import parse_policy
from tokenweir.config.slip import MAX_TRIED, Slips

POLICY = """
version: 1
providers:
  openai: {base_url: "https://api.openai.com", dialect: openai}
  own: {base_url: "http://localhost:8000", dialect: openai}
models:
  gpt-*: {provider: openai}
  llama-chat: {provider: own}
  llama-8: {provider: own}
  llama-*: {provider: own}
  team-*: {provider: own, upstream_model: llama-chat}
tenants: {t: {}}
"""


@pytest.fixture(name="slips", scope="module")
def _slips() -> Slips:
    return Slips(parse_policy(POLICY.encode(), {}))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpt-4o-mni", "gpt-4o-mini"),  # price lists know it
        ("gpt-4o-minni", "gpt-4o-mini"),
        ("gpt-4o-mimi", "gpt-4o-mini"),
        ("gpt-4o-mnii", "gpt-4o-mini"),
        ("llama-cat", "llama-chat"),  # the policy has it
        ("llama-chat", None),
        ("gpt-4o-mini", None),
        ("gpt-4", None),  # one letter away from gpt-4o, and another model
        ("llama-9", None),  # digits make another model
        ("llama-coder", None),
        ("llama-ca*", None),
        ("gpt", None),
        ("team-chat", None),
        ("claude-3", None),  # nothing stands for it: the policy is refused for that
    ],
)
def test_slips(slips: Slips, name: str, meant: str | None) -> None:
    """It is taken for one if nobody knows it, and somebody knows a name beside it."""
    assert slips.meant(name) == meant
    assert slips.meant(name) == meant  # the same when asked again


def test_only_so_many_are_looked_for() -> None:
    """Who names that many models of their own knows what they are; entries still count."""
    slips = Slips(parse_policy(POLICY.encode(), {}))
    for number in range(MAX_TRIED):
        assert slips.meant(f"llama-of-our-own-{number}") is None

    assert slips.meant("gpt-4o-mni") is None
    assert slips.meant("llama-cat") == "llama-chat"
