"""A cap in words."""

from __future__ import annotations

import pytest

from tokenweir.cli.cap_text import cap_text
from tokenweir.core.cap import Cap


@pytest.mark.parametrize(
    ("cap", "text"),
    [
        (
            Cap(2_000),
            (
                "at most 2,000 output tokens, 2,000 set if the app sets no cap, for all "
                "models and all tenants"
            ),
        ),
        (
            Cap(None, 200, ("gpt-*", "o3"), ("messages",), ("acme",)),
            (
                "200 set if the app sets no cap, for models gpt-*, o3 and routes "
                "messages and tenants acme"
            ),
        ),
        (
            Cap(300, 200, tenants=("acme", "globex")),
            (
                "at most 300 output tokens, 200 set if the app sets no cap, for all "
                "models and tenants acme, globex"
            ),
        ),
    ],
)
def test_words(cap: Cap, text: str) -> None:
    """What it lowers, what it sets, and for whom."""
    assert cap_text(cap) == text
