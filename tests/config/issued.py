"""Documents of issued keys for tests."""

from __future__ import annotations

import json
from typing import Any

from tests.config.policies import KEY_A

NOON = "2026-01-01T12:00:00Z"
NOON_MS = 1_767_268_800_000


def entry(**fields: Any) -> dict[str, Any]:
    """Return an entry of key *ci* of tenant *acme*, with *fields*; None: without it."""
    known = {
        "id": "ci",
        "tenant": "acme",
        "sha256": KEY_A,
        "created_at": NOON,
        **fields,
    }
    return {name: value for name, value in known.items() if value is not None}


def document(*entries: dict[str, Any]) -> str:
    """Return the document that has *entries*."""
    return json.dumps({"version": 1, "keys": list(entries)})
