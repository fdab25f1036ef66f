"""Envelopes and signing keys for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tokenweir.governance.envelope import POLICY, Envelope, sign

# Fixed, so that tests are the same each time.
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = PRIVATE.public_key()
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))

NOON_MS = 1_796_040_000_000


def draft(version: int = 1, content: str = "version: 1\n", **changes: Any) -> Envelope:
    """Return an envelope that nobody has signed."""
    plain = Envelope(POLICY, version, content, NOON_MS, "ann", "why not")
    return replace(plain, **changes)


def signed(version: int = 1, content: str = "version: 1\n", **changes: Any) -> Envelope:
    """Return an envelope that is signed with `PRIVATE`."""
    return sign(draft(version, content, **changes), PRIVATE)
