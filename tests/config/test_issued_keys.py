"""Issued keys are checked as a whole, and take their place beside those of the file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.issued import NOON, NOON_MS, document, entry
from tests.config.policies import CANARY, KEY_A, KEY_B
from tokenweir.config.compile import compile_policy
from tokenweir.config.issued_keys import (
    MAX_DOCUMENT_BYTES,
    merged,
    parse_issued_keys,
    with_issued_keys,
)
from tokenweir.config.schema import PolicyFile
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import ApiKey, Axis, KeyEnd, OnLedgerFailure, Policy

KEY_C = "c" * 64
LATER, LATER_MS = "2026-01-02T12:00:00Z", NOON_MS + 86_400_000
ROTATED = (
    entry(expires_at=LATER),
    entry(sha256=KEY_B, created_at=LATER, rotated_from=KEY_A.upper()),
)


def policy(*keys: dict[str, Any]) -> Policy:
    """Return a policy of one tenant with *keys* in its file."""
    content = {
        "version": 1,
        "providers": {"o": {"base_url": "https://a", "dialect": "openai"}},
        "models": {"m": {"provider": "o"}},
        "tenants": {"acme": {"keys": list(keys), "on_ledger_failure": "open"}},
    }
    return compile_policy(PolicyFile.model_validate(content), "d1", {})


def added(*entries: dict[str, Any], file: Policy | None = None) -> tuple[Any, Any]:
    """Return the keys by hash, and what was ignored."""
    made, ignored = merged(file or policy(), parse_issued_keys(document(*entries)))
    return dict(made.keys), ignored


def problems(text: str) -> list[str]:
    """Return what is wrong with *text*."""
    with pytest.raises(PolicyError) as caught:
        parse_issued_keys(text)
    return list(caught.value.problems)


# === what they become =============================================================


def test_a_key() -> None:
    """Without more it may do what its tenant may, and does not end."""
    keys, ignored = added(entry())

    assert keys == {KEY_A: ApiKey("ci", "acme")}
    assert ignored == ()


def test_scopes() -> None:
    """They are those of a key of the file; silence of the ledger is the tenant's."""
    fields = {"models": ["m"], "routes": ["messages"], "expires_at": LATER}
    keys, _ = added(entry(sha256="A" * 64, quotas=[{"concurrency": 2}], **fields))

    key = keys[KEY_A]
    assert (key.models, key.routes, key.ends_at_ms) == (("m",), ("messages",), LATER_MS)
    assert key.end is KeyEnd.EXPIRED
    [quota] = key.quotas
    assert (quota.id, quota.axis) == ("acme/ci.concurrency", Axis.CONCURRENCY)
    assert quota.on_ledger_failure is OnLedgerFailure.OPEN


def test_a_rotated_key() -> None:
    """Both secrets are the same key; the old one ends because it was rotated."""
    keys, _ = added(*ROTATED)

    assert keys == {
        KEY_A: ApiKey("ci", "acme", ends_at_ms=LATER_MS, end=KeyEnd.ROTATED),
        KEY_B: ApiKey("ci", "acme"),
    }


def test_a_revoked_key() -> None:
    """It stays, as one that ended when it was revoked."""
    keys, _ = added(entry(revoked_at=LATER, expires_at=NOON))

    revoked = ApiKey("ci", "acme", ends_at_ms=LATER_MS, end=KeyEnd.REVOKED)
    assert keys == {KEY_A: revoked}


def test_the_whole_policy() -> None:
    """Nothing of it changes but the keys, which are found by what is sent."""
    file = policy({"id": "own", "sha256": KEY_B})
    made = with_issued_keys(file, document(entry()))

    assert made.keys.keys() == {KEY_A, KEY_B}
    assert made.tenants is file.tenants
    assert file.keys.keys() == {KEY_B}
    assert KEY_A not in repr(made)
    assert with_issued_keys(file, document()) == file


# === beside the file ==============================================================


def test_an_unknown_tenant() -> None:
    """Its keys are ignored, revoked or not, and that is told once a key."""
    twice = [entry(**{**each, "tenant": "globex"}) for each in ROTATED]
    keys, ignored = added(*twice)

    assert keys == {}
    assert ignored == (
        "issued key ci: the policy has no tenant globex, so it is ignored",
    )


@pytest.mark.parametrize(
    ("own", "what"),
    [
        ({"id": "own", "sha256": KEY_A.upper()}, "key of the same hash"),
        ({"id": "ci", "sha256": KEY_B}, "key of this id"),
    ],
)
def test_the_file_counts(own: dict[str, Any], what: str) -> None:
    """A hash or id that both have is the file's, and that is told."""
    file = policy(own)
    keys, ignored = added(entry(models=["m"]), file=file)

    assert keys == file.keys
    assert ignored == (
        f"issued key ci: the policy file has a {what}, so it is ignored",
    )


@pytest.mark.parametrize("own_id", ["own", "ci"])
def test_what_was_revoked_is_revoked(own_id: str) -> None:
    """No file brings a revoked secret back."""
    file = policy({"id": own_id, "sha256": KEY_A})
    keys, ignored = added(entry(revoked_at=LATER), file=file)

    assert keys[KEY_A].end is KeyEnd.REVOKED
    assert ignored == ()


# === what is wrong ================================================================

NAME = (
    "must begin with a letter or digit, and have no other characters than those and ._- "
    "(at most 63)"
)


CIRCLE = (
    "{}.rotated_from: goes round in a circle: no secret of this key is the last one"
)


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([entry(id="a/b", tenant=5)], [f"0.id: {NAME}", "0.tenant: must be text: put it in quotes"]),
        ([entry(created_at=None)], ["0.created_at: is missing"]),
        ([entry(expires="90d")], ["0.expires: is unknown; did you mean `expires_at`?"]),
        ([entry(), entry(id="b", sha256=KEY_A.upper())], ["1.sha256: is that of another entry too"]),
        ([entry(), entry(sha256=KEY_B)], ["1.id: is the id of another key too"]),
        ([entry(), ROTATED[1]], ["0.expires_at: is missing: another secret has taken this one's place"]),
        (
            [*ROTATED, entry(id="x", sha256=KEY_C, rotated_from=KEY_A)],
            [
                "2.rotated_from: is that of another entry too: a secret is replaced once",
            ],
        ),
        (
            [entry(expires_at=LATER), entry(id="x", sha256=KEY_B, rotated_from=KEY_A)],
            ["1.rotated_from: is of another key or tenant: a key keeps its id and tenant"],
        ),
        ([entry(expires_at=LATER, rotated_from=KEY_A)], [CIRCLE.format(0)]),
        (
            [
                entry(expires_at=LATER, rotated_from=KEY_B),
                entry(sha256=KEY_B, expires_at=LATER, rotated_from=KEY_A),
            ],
            [CIRCLE.format(0), CIRCLE.format(1)],
        ),
        (
            [entry(quotas=[{"concurrency": 1}, {"concurrency": 2}])],
            ["0.quotas.1.name: must be set and different: another quota of this key is alike"],
        ),
        (
            [entry(quotas=[{"budget_usd": 1}])],
            ["0.quotas.0.per: is missing: say `hour`, `day`, `week` or `month`"],
        ),
        (
            [entry(quotas=[{"budget_usd": 1, "per": "day", "on_exceeded": {"downgrade_to": "m"}}])],
            ["0.quotas.0.on_exceeded.hard_limit_usd: is missing: a key's own budget that does not block needs one"],
        ),
    ],
)  # fmt: skip
def test_problems(entries: list[dict[str, Any]], told: list[str]) -> None:
    """Each is told with its place, and all at once."""
    assert problems(document(*entries)) == [f"keys.{line}" for line in told]


@pytest.mark.parametrize(
    "fields",
    [
        {"revoked_at": LATER},
        {"rotated_from": KEY_C},
        {"quotas": [{"budget_usd": 1, "per": "day", "on_exceeded": "block"}]},
        {"quotas": [{"budget_tokens": 1, "per": "day", "on_exceeded": {"throttle_percent": 5, "hard_limit_tokens": 2}}]},
    ],
)  # fmt: skip
def test_what_is_right(fields: dict[str, Any]) -> None:
    """What ended long ago may be gone; budgets that end are right."""
    assert len(parse_issued_keys(document(entry(**fields)))) == 1


@pytest.mark.parametrize(
    "text",
    ["", "[", "null", "{}", '{"version": 2, "keys": []}', "[" * 100_000, "\ud800", " " * (MAX_DOCUMENT_BYTES + 1)],
)  # fmt: skip
def test_no_document(text: str) -> None:
    """What is no document of ours is refused, by a problem."""
    assert problems(text)


@given(st.dictionaries(st.sampled_from([*entry(), "quotas", "expires_at"]), st.text()))
def test_no_value_is_repeated(changes: dict[str, str]) -> None:
    """A secret that was put in the wrong place is not told."""
    broken = {name: f"{CANARY}{text}" for name, text in changes.items()}
    text = json.dumps({"version": 1, "keys": [entry(id=f"{CANARY}/", **{
        name: value for name, value in broken.items() if name != "id"
    })]})  # fmt: skip

    assert CANARY not in "\n".join(problems(text))
