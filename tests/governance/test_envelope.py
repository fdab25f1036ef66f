"""An envelope proves who published what, and as which version."""

from __future__ import annotations

import base64
import contextlib
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.governance.documents import NOON_MS, PRIVATE, PUBLIC, STRANGER, draft, signed
from tokenweir.governance.envelope import (
    MAX_CONTENT_BYTES,
    MAX_STORED_BYTES,
    MAX_VERSION,
    BadSignatureError,
    Envelope,
    EnvelopeError,
    decoded,
    encoded,
    sign,
    verify,
)

LINE = st.text(st.characters(categories=["L", "N", "P"]), max_size=100)
CONTENT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def stored(**changes: Any) -> bytes:
    """Return a stored form that somebody has tampered with."""
    return json.dumps(json.loads(encoded(signed())) | changes).encode()


def test_the_public_key_knows_what_was_signed() -> None:
    """What was signed is verified, by any of several public keys."""
    verify(signed(), [PUBLIC])
    verify(signed(), [STRANGER.public_key(), PUBLIC])


@pytest.mark.parametrize(
    "change",
    [
        {"name": "keys"},
        {"version": 2},
        {"content": "version: 1"},
        {"published_at_ms": NOON_MS + 1},
        {"by": "bob"},
        {"comment": ""},
        {"signature": ""},
        {"signature": "no base64"},
        {"signature": "é"},
        {"signature": base64.b64encode(bytes(64)).decode()},
    ],
    ids=lambda change: "-".join(map(str, change.items()))[:30],
)
def test_nothing_of_it_can_be_changed(change: dict[str, Any]) -> None:
    """Name, version, content, time, author and comment are all under the signature."""
    with pytest.raises(BadSignatureError):
        verify(replace(signed(), **change), [PUBLIC])


def test_parts_can_not_run_together() -> None:
    """A character that moves from one part to the next is another document."""
    moved = replace(signed(by="ann", comment="b"), by="an", comment="nb")

    with pytest.raises(BadSignatureError):
        verify(moved, [PUBLIC])


def test_strangers_can_not_sign() -> None:
    """Another key's signature does not count, and without any key nothing does."""
    forged = sign(draft(), STRANGER)

    with pytest.raises(BadSignatureError, match="not signed by"):
        verify(forged, [PUBLIC])
    with pytest.raises(BadSignatureError):
        verify(signed(), [])


def test_what_is_signed_stays_what_it_is() -> None:
    """
    The bytes that are signed are the same in each release.

    A release that signs other bytes would have its policies refused by the others.
    """
    assert signed().signature == (
        "vJat+JypWd3ftMcmiXgBRmqBHKlomh10j/LrSwUWx5vzqDIw1c2FAXBfFMRU/mjasL8H0WjJNGCcMpTuVn5mCQ=="
    )


@given(CONTENT, LINE, LINE, st.integers(1, MAX_VERSION))
def test_it_is_stored_and_read_back(
    content: str, by: str, comment: str, version: int
) -> None:
    """Whatever is published is read back as it was, and its signature holds."""
    envelope = signed(version, content, by=by, comment=comment)

    verify(decoded(encoded(envelope)), [PUBLIC])
    assert decoded(encoded(envelope)) == envelope


def test_long_contents_are_compressed() -> None:
    """A policy takes much less space than its text, and short ones stay legible."""
    content = "tenants: {acme: {}}\n" * 10_000

    assert len(encoded(signed(content=content))) < len(content) / 50
    assert b"version: 1" in encoded(signed())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": "prices"}, "name"),
        ({"version": 0}, "version"),
        ({"version": MAX_VERSION + 1}, "version"),
        ({"published_at_ms": -1}, "published_at_ms"),
        ({"by": "a" * 101}, "by"),
        ({"by": "ann\x1b[2J"}, "by"),
        ({"comment": "two\nlines"}, "comment"),
        ({"content": "a" * (MAX_CONTENT_BYTES + 1)}, "content"),
        ({"content": "\ud800"}, "content"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_shapes_that_nobody_publishes(change: dict[str, Any], text: str) -> None:
    """They can't be signed, verified or stored."""
    wrong = replace(signed(), **change)

    with pytest.raises(EnvelopeError, match=f"^{text}"):
        sign(wrong, PRIVATE)
    with pytest.raises(EnvelopeError, match=f"^{text}"):
        verify(wrong, [PUBLIC])
    with pytest.raises(EnvelopeError, match=f"^{text}"):
        encoded(wrong)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"format": 1, "name": "\xff"}',
        stored(format=2),
        stored(version="1"),
        stored(version=10**30),
        stored(name="other"),
        stored(by="\u2028"),
        stored(packed="!"),
        stored(packed=base64.b64encode(b"no zlib").decode()),
        stored(packed=base64.b64encode(zlib.compress(b"a" * 1_000)[:-5]).decode()),
        stored(packed=base64.b64encode(zlib.compress(b"\xff")).decode()),
        stored(packed=base64.b64encode(zlib.compress(bytes(5 << 20))).decode()),
        b" " * (MAX_STORED_BYTES + 1),
        encoded(signed())[:-1],
    ],
    ids=range(16),
)
def test_what_is_no_envelope(data: bytes) -> None:
    """Anything else is refused by name: damaged, cut off, or a bomb."""
    with pytest.raises(EnvelopeError):
        decoded(data)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """Whatever is stored, it is an envelope or an `EnvelopeError`."""
    with contextlib.suppress(EnvelopeError):
        assert isinstance(decoded(data), Envelope)
