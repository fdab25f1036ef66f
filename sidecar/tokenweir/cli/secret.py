"""New API keys, and what is kept of them."""

from __future__ import annotations

import hashlib
import secrets

KEY_PREFIX = "sk-tw-"

# 43 characters of base64: nobody finds a key by trying hashes.
_KEY_BYTES = 32


def new_secret() -> str:
    """Return a new key."""
    return KEY_PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def sha256_of(key: str) -> str:
    """Return the SHA-256 of *key*, in hex."""
    return hashlib.sha256(key.encode()).hexdigest()
