"""Keys are made at random, and known by their hash."""

import hashlib
import re

from tokenweir.cli.secret import new_secret, sha256_of


def test_secrets() -> None:
    """Each is another one, of 256 random bits."""
    made = {new_secret() for _ in range(100)}

    assert len(made) == 100
    assert all(re.fullmatch(r"sk-tw-[A-Za-z0-9_-]{43}", secret) for secret in made)


def test_hashes() -> None:
    """It is SHA-256 of what is sent."""
    assert sha256_of("sk-tw-x") == hashlib.sha256(b"sk-tw-x").hexdigest()
