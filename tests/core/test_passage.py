"""What is told of an exchange of which nothing is known but that it goes on."""

from __future__ import annotations

from tests.examples import NOW_MS, ticket
from tokenweir.core.passage import Passage


def test_nothing_is_known() -> None:
    """It was sent, nothing came back, and nothing has passed."""
    passage = Passage(ticket(), NOW_MS, over=False)

    assert passage.sent
    assert passage.head is None
    assert passage.excerpt is None
    assert (passage.ended, passage.body_bytes) == (False, 0)
