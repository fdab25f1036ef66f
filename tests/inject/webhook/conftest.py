"""A pair of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inject.webhook.pairs import Pair


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Return a good pair."""
    made = Pair(tmp_path)
    made.issue()
    return made
