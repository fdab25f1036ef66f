"""How issued keys stand: one line for each key, whatever secrets it has had."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tokenweir.config.issued_keys import IssuedKeyEntry, replaced_digests


class State(enum.StrEnum):
    """What becomes of who sends the key."""

    ACTIVE = "active"
    ROTATING = "rotating"  # an older secret works too
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class KeyState:
    """
    One key.

    Attributes:
        entry: Of the secret that it has now.
        state: How it stands.
        old_until_ms: Until when an older secret works, since 1970; None: none does.
    """

    entry: IssuedKeyEntry
    state: State
    old_until_ms: int | None = None


def key_states(entries: Sequence[IssuedKeyEntry], now_ms: int) -> Iterator[KeyState]:
    """Yield the keys that *entries* are of, as they stand at *now_ms*, in order."""
    replaced = replaced_digests(entries)
    old_until: dict[str, int] = {}
    for entry in entries:
        end_ms = entry.expires_at
        works = entry.revoked_at is None and end_ms is not None and end_ms > now_ms
        if entry.sha256.lower() in replaced and works and end_ms is not None:
            old_until[entry.id] = max(end_ms, old_until.get(entry.id, 0))
    for entry in entries:
        if entry.sha256.lower() not in replaced:
            until_ms = old_until.get(entry.id)
            yield KeyState(entry, _state(entry, now_ms, until_ms), until_ms)


def _state(entry: IssuedKeyEntry, now_ms: int, old_until_ms: int | None) -> State:
    if entry.revoked_at is not None:
        return State.REVOKED
    if entry.expires_at is not None and entry.expires_at <= now_ms:
        return State.EXPIRED
    return State.ACTIVE if old_until_ms is None else State.ROTATING
