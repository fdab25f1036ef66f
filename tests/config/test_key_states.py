"""Each key stands somewhere, whatever secrets it has had."""

from __future__ import annotations

from typing import Any

import pytest

from tests.config.issued import NOON_MS, document, entry
from tests.config.policies import KEY_B
from tokenweir.config.issued_keys import parse_issued_keys
from tokenweir.config.key_changes import revoke, rotate
from tokenweir.config.key_states import State, key_states

LATER = "2026-01-01T12:00:01Z"
KEY_C = "c" * 64


def states(text: str, now_ms: int = NOON_MS) -> list[tuple[str, State, int | None]]:
    """Return id, state and until when an older secret works, of each key."""
    found = key_states(parse_issued_keys(text), now_ms)
    return [(each.entry.id, each.state, each.old_until_ms) for each in found]


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, State.ACTIVE),
        ({"expires_at": LATER}, State.ACTIVE),
        ({"expires_at": "2026-01-01T12:00:00Z"}, State.EXPIRED),
        ({"revoked_at": LATER}, State.REVOKED),
        ({"revoked_at": LATER, "expires_at": "2026-01-01T12:00:00Z"}, State.REVOKED),
    ],
)
def test_one_secret(fields: dict[str, Any], state: State) -> None:
    """It works until it expires, or was revoked."""
    assert states(document(entry(**fields))) == [("ci", state, None)]


def test_more_secrets() -> None:
    """A key is one line; while an older secret works that is told, and until when."""
    other = entry(id="b", sha256="d" * 64)
    once = rotate(document(entry(), other), "ci", KEY_B, NOON_MS, grace_ms=9_000)
    twice = rotate(once, "ci", KEY_C, NOON_MS + 1_000, grace_ms=60_000)

    active = ("b", State.ACTIVE, None)
    until_ms = NOON_MS + 61_000
    assert states(twice) == [active, ("ci", State.ROTATING, until_ms)]
    assert states(twice, until_ms) == [active, ("ci", State.ACTIVE, None)]
    assert states(revoke(twice, "ci", NOON_MS)) == [active, ("ci", State.REVOKED, None)]
