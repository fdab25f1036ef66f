"""
Keys that are known by their hashes, and found in constant time.

A key is 256 random bits, and only its SHA-256 is kept. Whoever can measure how long a
look-up takes learns something about hashes, not about keys: to steer the hash of what
they send towards one that is known, they would have to invert SHA-256. So a look-up by
hash gives nothing useful away. What is compared in full is compared in constant time
all the same, so that nobody has to rely on that:

- The look-up goes by the hash's first 32 bits alone. All that its time may tell is
  whether some key's hash begins like that of what was sent.
- Every hash that begins so, as a rule one or none, is compared as a whole by
  `hmac.compare_digest`, which takes as long whether and wherever they differ. If there
  is none, a comparison with a stand-in is done in its place.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Generic, TypeVar

Held = TypeVar("Held")

# Of hex digits. Of 10,000 keys, two begin alike with odds of 1 in 100.
_PREFIX_CHARS = 8
_NO_DIGEST = "0" * 64


class KeyRing(Generic[Held]):
    """
    What stands behind keys.

    Args:
        held: By the lower-case hex SHA-256 of the key.
    """

    def __init__(self, held: Mapping[str, Held]) -> None:
        self._alike: dict[str, list[tuple[str, Held]]] = {}
        for digest, value in held.items():
            alike = self._alike.setdefault(digest[:_PREFIX_CHARS], [])
            alike.append((digest, value))

    def find(self, key: str) -> Held | None:
        """Return what stands behind the *key* as it was sent, or None."""
        digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
        alike = self._alike.get(digest[:_PREFIX_CHARS])
        found: Held | None = None
        if alike is None:
            hmac.compare_digest(digest, _NO_DIGEST)
            return None
        for known, value in alike:
            if hmac.compare_digest(digest, known):
                found = value
        return found
