"""Keys are found by what they hash to, as a whole, in constant time."""

import hmac
from hashlib import sha256

import pytest

from tokenweir.core.key_ring import KeyRing

SECRET = "sk-CANARY-1"
DIGEST = sha256(SECRET.encode()).hexdigest()


def test_what_is_known_is_found() -> None:
    """Each key finds what stands behind it, and no other key anything."""
    keys = [f"sk-{number}" for number in range(100)]
    ring = KeyRing({sha256(key.encode()).hexdigest(): key for key in keys})

    assert [ring.find(key) for key in keys] == keys
    assert ring.find("sk-100") is None
    assert ring.find("") is None


def test_no_keys() -> None:
    """Where no key is known none is found."""
    assert KeyRing[str]({}).find(SECRET) is None


def test_what_begins_alike_is_not_the_same() -> None:
    """A hash that differs behind its first digits is another key's."""
    other = DIGEST[:-1] + ("0" if DIGEST[-1] != "0" else "1")

    assert KeyRing({other: 1}).find(SECRET) is None
    assert KeyRing({other: 1, DIGEST: 2}).find(SECRET) == 2
    assert KeyRing({DIGEST: 2, other: 1}).find(SECRET) == 2


def test_no_text_that_can_not_be_written() -> None:
    """Half a surrogate pair is no key, and no error."""
    assert KeyRing({DIGEST: 1}).find("\ud800") is None


@pytest.mark.parametrize(
    ("known", "compared"), [([], 1), ([DIGEST], 1), ([DIGEST, DIGEST[:-2] + "zz"], 2)]
)
def test_hashes_are_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, known: list[str], compared: int
) -> None:
    """Whole hashes only ever meet in `hmac.compare_digest`, also if none begins so."""
    pairs = []

    def compare(one: str, other: str) -> bool:
        pairs.append((one, other))
        return hmac_compare(one, other)

    hmac_compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    KeyRing(dict.fromkeys(known, 1)).find(SECRET)

    assert len(pairs) == compared
    assert all(one == DIGEST and len(other) == 64 for one, other in pairs)
