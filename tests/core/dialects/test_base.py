"""Values that dialects give and take."""

from __future__ import annotations

from tokenweir.core.dialects.base import Edits


def test_edits() -> None:
    """Edits are true if there is anything to change."""
    assert not Edits()
    assert Edits(model="gpt-4o-mini")
    assert Edits(include_usage=True)
