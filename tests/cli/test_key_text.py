"""What a key may do is said in one line."""

from typing import Any

import pytest

from tokenweir.cli.key_text import key_text
from tokenweir.core.policy import ApiKey, KeyEnd

NOW_MS = 1_767_268_800_000
MOMENT = "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, None),
        ({"models": ("a",)}, "models a only"),
        (
            {"models": ("a", "b", "c"), "routes": ("messages",)},
            "models a, b and c only, routes messages only",
        ),
        ({"ends_at_ms": NOW_MS + 1_000}, "until 2026-01-01T12:00:01Z"),
        ({"ends_at_ms": NOW_MS}, f"expired since {MOMENT}"),
        ({"ends_at_ms": NOW_MS, "end": KeyEnd.ROTATED}, f"rotated since {MOMENT}"),
        (
            {"ends_at_ms": NOW_MS + 1_000, "end": KeyEnd.REVOKED},
            "revoked since 2026-01-01T12:00:01Z",
        ),
    ],
)
def test_key_text(fields: dict[str, Any], text: str | None) -> None:
    """Scopes, then until or since when."""
    assert key_text(ApiKey("k", "acme", **fields), NOW_MS) == text
