"""
How issued keys are shown, to people and to machines.

Of a hash only the beginning is shown: enough to tell by `tokenweir keys hash` which key
an app has, and no use to anybody else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tokenweir.cli.table import table
from tokenweir.config.issued_keys import IssuedKeyEntry
from tokenweir.config.key_states import KeyState, State
from tokenweir.config.moment import moment_text

SHOWN_DIGITS = 8
_HEAD = (
    "key",
    "tenant",
    "state",
    "may use",
    "expires",
    "created",
    "rotated",
    "sha256",
)


def as_table(states: Iterable[KeyState], *, bold: bool) -> str:
    """Return a line for each key, under a head that is *bold* or not."""
    rows = [
        (
            state.entry.id,
            state.entry.tenant,
            _state(state),
            _scopes(state.entry),
            _moment(state.entry.expires_at) or "never",
            _moment(state.entry.created_at) or "",
            _moment(state.entry.rotated_at) or "-",
            _hash(state.entry) + "…",
        )
        for state in states
    ]
    return table(_HEAD, rows, bold=bold)


def as_json(states: Iterable[KeyState], document: str | None) -> list[object]:
    """Return the same as values that JSON has; *document* is what they are from."""
    written = json.loads(document)["keys"] if document else []
    quotas = {key["sha256"]: key.get("quotas", []) for key in written}
    return [_object(state, quotas[state.entry.sha256]) for state in states]


def _object(state: KeyState, quotas: object) -> dict[str, object]:
    entry = state.entry
    return {
        "id": entry.id,
        "tenant": entry.tenant,
        "state": state.state,
        "models": entry.models,
        "routes": entry.routes,
        "quotas": quotas,
        "expires_at": _moment(entry.expires_at),
        "created_at": _moment(entry.created_at),
        "rotated_at": _moment(entry.rotated_at),
        "old_secret_until": _moment(state.old_until_ms),
        "revoked_at": _moment(entry.revoked_at),
        "sha256_begins": _hash(entry),
    }


def _state(state: KeyState) -> str:
    if state.state is State.ROTATING:
        return f"old secret works until {_moment(state.old_until_ms)}"
    if state.state is State.REVOKED:
        return f"revoked {_moment(state.entry.revoked_at)}"
    return state.state


def _scopes(entry: IssuedKeyEntry) -> str:
    """Return what binds the key besides its tenant, in a few words."""
    parts = []
    if entry.models:
        parts.append(f"models {', '.join(entry.models)}")
    if entry.routes:
        parts.append(f"routes {', '.join(entry.routes)}")
    if entry.quotas:
        count = len(entry.quotas)
        parts.append(f"{count} own {'quota' if count == 1 else 'quotas'}")
    return "; ".join(parts) or "as its tenant"


def _moment(at_ms: int | None) -> str | None:
    return None if at_ms is None else moment_text(at_ms)


def _hash(entry: IssuedKeyEntry) -> str:
    return entry.sha256[:SHOWN_DIGITS].lower()
