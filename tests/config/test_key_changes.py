"""A change to issued keys is made as a whole, or it is said why not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.config.issued import NOON, NOON_MS, document, entry
from tests.config.policies import KEY_A, KEY_B
from tokenweir.config.issued_keys import parse_issued_keys
from tokenweir.config.key_changes import (
    KEPT_ENDED_MS,
    KeyChangeError,
    issue,
    revoke,
    rotate,
)
from tokenweir.config.moment import moment_text
from tokenweir.core.errors import PolicyError

KEY_C = "c" * 64
HOUR_MS = 3_600_000
ONE = document(entry(models=["m"], quotas=[{"concurrency": 2}], expires_at=None))


def keys_of(text: str) -> list[dict[str, Any]]:
    """Return the entries of a document that is right."""
    assert parse_issued_keys(text) is not None
    keys: list[dict[str, Any]] = json.loads(text)["keys"]
    return keys


def at(offset_ms: int) -> str:
    """Return the moment *offset_ms* after noon."""
    return moment_text(NOON_MS + offset_ms)


# === issue ========================================================================


def test_the_first_key() -> None:
    """Where there is no document it begins one."""
    made = issue(None, {"id": "ci", "tenant": "acme", "sha256": KEY_A}, NOON_MS + 999)

    assert keys_of(made) == [entry()]


def test_one_key_more() -> None:
    """What was there stays as it was, in its order."""
    new = {"id": "b", "tenant": "globex", "sha256": KEY_B, "models": ["x*"]}
    made = issue(ONE, new, NOON_MS)

    assert keys_of(made) == [*keys_of(ONE), {**new, "created_at": NOON}]


@pytest.mark.parametrize("document_", [ONE, revoke(ONE, "ci", NOON_MS)])
def test_ids_are_never_used_again(document_: str) -> None:
    """Not of a key that is there, nor of one that was revoked."""
    with pytest.raises(KeyChangeError, match="never used again"):
        issue(document_, {"id": "ci", "tenant": "b", "sha256": KEY_B}, NOON_MS)


def test_a_key_that_is_wrong() -> None:
    """Each problem has its place in the key, not in the document."""
    key = {"id": "b", "tenant": "a", "sha256": KEY_A, "quotas": [{"budget_usd": 1}]}
    with pytest.raises(PolicyError) as caught:
        issue(ONE, key, NOON_MS)

    assert caught.value.problems == (
        "sha256: is that of another entry too",
        "quotas.0.per: is missing: say `hour`, `day`, `week` or `month`",
    )


def test_a_broken_document() -> None:
    """Nothing is made of what can't be read."""
    with pytest.raises(PolicyError):
        issue("{}", {"id": "b"}, NOON_MS)
    with pytest.raises(PolicyError):
        rotate("{}", "ci", KEY_B, NOON_MS, grace_ms=0)
    with pytest.raises(PolicyError):
        revoke("{}", "ci", NOON_MS)


# === rotate =======================================================================


def test_a_new_secret() -> None:
    """It has all that the old one has, which works until the grace is over."""
    made = rotate(ONE, "ci", KEY_B, NOON_MS + 500, grace_ms=HOUR_MS)
    [old] = keys_of(ONE)

    assert keys_of(made) == [
        {**old, "expires_at": at(HOUR_MS)},
        {**old, "sha256": KEY_B, "rotated_from": KEY_A, "rotated_at": NOON},
    ]


def test_without_grace() -> None:
    """Every secret that the key has had ends now."""
    once = rotate(ONE, "ci", KEY_B, NOON_MS, grace_ms=HOUR_MS)
    twice = rotate(once, "ci", KEY_C, NOON_MS + 1_000, grace_ms=0)

    ends = [key.get("expires_at") for key in keys_of(twice)]
    assert ends == [at(1_000), at(1_000), None]
    assert keys_of(twice)[2]["rotated_from"] == KEY_B


def test_a_grace_makes_nothing_longer() -> None:
    """A secret that would end before the grace does, does so."""
    expiring = document(entry(expires_at=at(HOUR_MS)))
    made = rotate(expiring, "ci", KEY_B, NOON_MS, grace_ms=24 * HOUR_MS)

    assert [key["expires_at"] for key in keys_of(made)] == [at(HOUR_MS)] * 2


def test_a_new_expiry() -> None:
    """An expired key goes on by a new secret, if it is said how long that lasts."""
    expired = document(entry(expires_at=at(-HOUR_MS), created_at=at(-2 * HOUR_MS)))
    with pytest.raises(KeyChangeError, match="--expires"):
        rotate(expired, "ci", KEY_B, NOON_MS, grace_ms=0)
    made = rotate(expired, "ci", KEY_B, NOON_MS, grace_ms=0, expires_at=at(HOUR_MS))

    ends = [key["expires_at"] for key in keys_of(made)]
    assert ends == [at(-HOUR_MS), at(HOUR_MS)]


def test_secrets_that_are_long_over_go() -> None:
    """A month after its end a replaced secret is forgotten, and no other is."""
    other = entry(id="b", sha256="d" * 64, expires_at=at(1_000))
    gone = entry(id="x", sha256="e" * 64, revoked_at=at(1_000))
    once = rotate(document(entry(), other, gone), "ci", KEY_B, NOON_MS, grace_ms=0)
    kept = rotate(once, "ci", KEY_C, NOON_MS + KEPT_ENDED_MS, grace_ms=0)
    later = NOON_MS + KEPT_ENDED_MS + 2_000
    made = rotate(once, "ci", KEY_C, later, grace_ms=0)

    assert len(keys_of(kept)) == 5
    assert [key["sha256"][0] for key in keys_of(made)] == ["d", "e", "b", "c"]


def test_what_can_not_be_rotated() -> None:
    """A key that is not there, and one that is revoked."""
    with pytest.raises(KeyChangeError, match="no issued key"):
        rotate(None, "ci", KEY_B, NOON_MS, grace_ms=0)
    with pytest.raises(KeyChangeError, match="for good"):
        rotate(revoke(ONE, "ci", NOON_MS), "ci", KEY_B, NOON_MS, grace_ms=0)


# === revoke =======================================================================


def test_all_secrets_are_revoked() -> None:
    """The old one too, also while its grace lasts; other keys are left alone."""
    other = entry(id="b", sha256="d" * 64)
    once = rotate(document(entry(), other), "ci", KEY_B, NOON_MS, grace_ms=HOUR_MS)
    made = revoke(once, "ci", NOON_MS + 1_000)

    revoked = [key.get("revoked_at") for key in keys_of(made)]
    assert revoked == [at(1_000), None, at(1_000)]


def test_what_can_not_be_revoked() -> None:
    """A key that is not there, and one that is revoked already."""
    with pytest.raises(KeyChangeError, match="no issued key"):
        revoke(ONE, "b", NOON_MS)
    with pytest.raises(KeyChangeError, match="already, since 2026-01-01T12:00:00Z"):
        revoke(revoke(ONE, "ci", NOON_MS), "ci", NOON_MS + 1_000)
