"""Issued keys are shown without what they are known by."""

from __future__ import annotations

import json

from tests.config.issued import NOON, NOON_MS, document, entry
from tests.config.policies import KEY_A, KEY_B
from tokenweir.cli.key_list import as_json, as_table
from tokenweir.config.issued_keys import parse_issued_keys
from tokenweir.config.key_changes import revoke, rotate
from tokenweir.config.key_states import KeyState, key_states

QUOTAS = [{"budget_usd": 0.5, "per": "day", "time_zone": "Asia/Tokyo"}]
PLAIN = document(
    entry(),
    entry(id="b", sha256=KEY_B, models=["x", "y*"], routes=["messages"], quotas=QUOTAS),
    entry(id="c", sha256="c" * 64, quotas=QUOTAS * 1, expires_at=NOON),
)
DOCUMENT = revoke(
    rotate(PLAIN, "ci", "d" * 64, NOON_MS, grace_ms=5_000), "b", NOON_MS + 1_000
)


def states() -> list[KeyState]:
    """Return how they stand."""
    return list(key_states(parse_issued_keys(DOCUMENT), NOON_MS + 2_000))


def test_a_table() -> None:
    """One line for each key: how it stands, what it may use, and since when."""
    head, *lines = as_table(states(), bold=False).splitlines()

    assert head.split() == [
        "key", "tenant", "state", "may", "use", "expires", "created", "rotated", "sha256",
    ]  # fmt: skip
    assert [line.split("  ") for line in _narrow(lines)] == [
        ["b", "acme", "revoked 2026-01-01T12:00:01Z", "models x, y*; routes messages; 1 own quota", "never", NOON, "-", "bbbbbbbb…"],
        ["c", "acme", "expired", "1 own quota", NOON, NOON, "-", "cccccccc…"],
        ["ci", "acme", "old secret works until 2026-01-01T12:00:05Z", "as its tenant", "never", NOON, NOON, "dddddddd…"],
    ]  # fmt: skip


def _narrow(lines: list[str]) -> list[str]:
    """Return *lines* with two blanks between columns."""
    return [
        "  ".join(part.strip() for part in line.split("  ") if part.strip())
        for line in lines
    ]


def test_json() -> None:
    """Machines read the same, and quotas as they were written."""
    made = as_json(states(), DOCUMENT)

    assert made[0] == {
        "id": "b",
        "tenant": "acme",
        "state": "revoked",
        "models": ["x", "y*"],
        "routes": ["messages"],
        "quotas": QUOTAS,
        "expires_at": None,
        "created_at": NOON,
        "rotated_at": None,
        "old_secret_until": None,
        "revoked_at": "2026-01-01T12:00:01Z",
        "sha256_begins": "bbbbbbbb",
    }
    assert as_json([], None) == []


def test_no_hash_is_shown() -> None:
    """Neither has more of a hash than its beginning."""
    shown = as_table(states(), bold=True) + json.dumps(as_json(states(), DOCUMENT))

    assert not [digest for digest in (KEY_A, KEY_B, "d" * 64) if digest[:9] in shown]
