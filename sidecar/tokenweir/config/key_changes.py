"""
Changes to the document of issued keys: from its text to its next text.

Each change reads the document as it is, and says why it can't be made. Nothing is
published here, and no secret is seen: keys come as their SHA-256.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenweir.config.issued_keys import (
    IssuedKeyEntry,
    parse_issued_keys,
    replaced_digests,
)
from tokenweir.config.moment import moment_text, parse_moment_ms
from tokenweir.core.errors import PolicyError, TokenweirError

# How long a replaced secret that has ended is told as that, and not as unknown.
KEPT_ENDED_MS = 30 * 24 * 3_600_000
# What an entry has that is of one secret, and not of the key.
_OF_THE_SECRET = frozenset({"sha256", "rotated_from", "rotated_at", "revoked_at"})

Fields = dict[str, Any]


class KeyChangeError(TokenweirError):
    """A change can't be made. The text says why, and what to do."""


def issue(document: str | None, key: Mapping[str, object], now_ms: int) -> str:
    """
    Return *document* (None: there is none yet) with one *key* more.

    *key* has the fields of an entry, but `created_at`.

    Raises:
        KeyChangeError: Its id is in use.
        PolicyError: The document is broken, or *key* is wrong: each problem begins
            with the path inside of *key*.
    """
    fields, entries = _read(document)
    if any(entry.id == key.get("id") for entry in entries):
        raise KeyChangeError(
            "This id is in use, or was: ids of keys are never used again, since limits "
            "and records go by them. Choose another one (`tokenweir keys list` shows "
            "all), or `tokenweir keys rotate` for a new secret."
        )
    made = {**key, "created_at": moment_text(now_ms)}
    return _written([*fields, made], prefix=f"keys.{len(fields)}.")


def rotate(
    document: str | None,
    key_id: str,
    sha256: str,
    now_ms: int,
    *,
    grace_ms: int,
    expires_at: str | None = None,
) -> str:
    """
    Return *document* with a new secret for a key.

    Args:
        document: None: there is none yet.
        key_id: Which key.
        sha256: Of the new secret, in hex.
        now_ms: The moment.
        grace_ms: How long the secrets that the key has had still work, at most.
        expires_at: When the new one expires, RFC 3339; None: when the old one would.

    Raises:
        KeyChangeError: There is no such key, or it is over.
        PolicyError: The document is broken.
    """
    fields, entries = _read(document)
    old = _current(entries, key_id)
    if old.revoked_at is not None:
        raise KeyChangeError(
            f"Key {key_id} was revoked at {moment_text(old.revoked_at)}, which is for "
            "good: issue one under another id."
        )
    if expires_at is None and old.expires_at is not None and old.expires_at <= now_ms:
        raise KeyChangeError(
            f"Key {key_id} has expired at {moment_text(old.expires_at)}, and so would "
            "its new secret: say how long that is to last, with --expires."
        )
    replaced = replaced_digests(entries)
    kept = [
        _ending(each, now_ms + grace_ms) if entry.id == key_id else each
        for each, entry in zip(fields, entries, strict=True)
        if not (entry.sha256.lower() in replaced and _is_long_over(entry, now_ms))
    ]
    source = fields[entries.index(old)]
    made = {name: v for name, v in source.items() if name not in _OF_THE_SECRET}
    if expires_at is not None:
        made["expires_at"] = expires_at
    made |= {
        "sha256": sha256,
        "rotated_from": old.sha256.lower(),
        "rotated_at": moment_text(now_ms),
    }
    return _written([*kept, made], prefix=f"keys.{len(kept)}.")


def revoke(document: str | None, key_id: str, now_ms: int) -> str:
    """
    Return *document* with a key refused from *now_ms* on, with all of its secrets.

    Raises:
        KeyChangeError: There is no such key, or it is revoked already.
        PolicyError: The document is broken.
    """
    fields, entries = _read(document)
    old = _current(entries, key_id)
    if old.revoked_at is not None:
        raise KeyChangeError(
            f"Key {key_id} is revoked already, since {moment_text(old.revoked_at)}."
        )
    revoked_at = moment_text(now_ms)
    return _written(
        [
            {**each, "revoked_at": revoked_at} if each["id"] == key_id else each
            for each in fields
        ]
    )


def _read(document: str | None) -> tuple[list[Fields], Sequence[IssuedKeyEntry]]:
    if document is None:
        return [], ()
    entries = parse_issued_keys(document)
    return json.loads(document)["keys"], entries


def _current(entries: Sequence[IssuedKeyEntry], key_id: str) -> IssuedKeyEntry:
    replaced = replaced_digests(entries)
    for entry in entries:
        if entry.id == key_id and entry.sha256.lower() not in replaced:
            return entry
    raise KeyChangeError(
        "There is no issued key of this id: `tokenweir keys list` shows all. A key of "
        "the policy file is changed there."
    )


def _ending(fields: Fields, end_ms: int) -> Fields:
    """Return *fields* with an end: at *end_ms*, or before if there is one already."""
    known = fields.get("expires_at")
    if known is not None and parse_moment_ms(known) <= end_ms:
        return fields
    return {**fields, "expires_at": moment_text(end_ms)}


def _is_long_over(entry: IssuedKeyEntry, now_ms: int) -> bool:
    """Tell if *entry*, which was replaced, is of a secret that nobody means any more."""
    return (
        entry.revoked_at is None
        and entry.expires_at is not None
        and entry.expires_at + KEPT_ENDED_MS < now_ms
    )


def _written(fields: Sequence[Mapping[str, object]], prefix: str = "") -> str:
    """Return the document, an entry a line, once it was checked as a reader does."""
    lines = ",\n".join(json.dumps(each, separators=(", ", ": ")) for each in fields)
    document = f'{{"version": 1, "keys": [\n{lines}\n]}}\n'
    try:
        parse_issued_keys(document)
    except PolicyError as error:
        told = [problem.removeprefix(prefix) for problem in error.problems]
        raise PolicyError(told) from None
    return document
