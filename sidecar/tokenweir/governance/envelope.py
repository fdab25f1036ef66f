"""
A published document, and the proof of who published it.

The signature covers name and version too: what was signed as "keys" can't be passed
off as a "policy", nor an old version as a new one. It does not cover for which fleet
it was: fleets that must not obey each other's documents have signing keys of their own.

`encoded` is how an envelope is stored, in the ledger and on disk: JSON, with the
content compressed if that makes it shorter. Nothing in it can be trusted before
`verify`, so `decoded` is bounded in every direction.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from tokenweir.core.errors import TokenweirError

POLICY = "policy"
KEYS = "keys"
NAMES = (POLICY, KEYS)

# As much as a policy file may have.
MAX_CONTENT_BYTES = 4 * 1024 * 1024
# Of the stored form: what can't be compressed grows by a third, and quotes double.
MAX_STORED_BYTES = 9 * 1024 * 1024
# Lua and JSON readers count no further.
MAX_VERSION = 2**53 - 1
MAX_BY_CHARS = 100
MAX_COMMENT_CHARS = 500

# Nothing else that anybody signs with the same key begins so.
_DOMAIN = b"tokenweir/governance/1"
_LENGTH_BYTES = 8
_FORMAT = 1


class EnvelopeError(TokenweirError):
    """An envelope can't be used. The text says why, and has none of its content."""


class BadSignatureError(EnvelopeError):
    """An envelope was not signed by anybody who may."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """
    One version of a document.

    Attributes:
        name: What it is: `POLICY` or `KEYS`.
        version: From 1, only ever up; gaps are allowed.
        content: The document, as its author wrote it.
        published_at_ms: By the publisher's clock.
        by: Who published it, as they say.
        comment: Why.
        signature: Base64 of Ed25519 over all of the others; ``""``: none yet.
    """

    name: str
    version: int
    content: str
    published_at_ms: int
    by: str
    comment: str
    signature: str = ""


def sign(envelope: Envelope, private_key: Ed25519PrivateKey) -> Envelope:
    """Return *envelope* signed. Raises: EnvelopeError, if it has no valid shape."""
    signature = private_key.sign(_signed(envelope))
    return replace(envelope, signature=base64.b64encode(signature).decode())


def verify(envelope: Envelope, public_keys: Sequence[Ed25519PublicKey]) -> None:
    """
    Return if *envelope* was signed with the private twin of one of *public_keys*.

    Raises:
        BadSignatureError: It was not.
        EnvelopeError: It has no valid shape.
    """
    signed = _signed(envelope)
    try:
        signature = base64.b64decode(envelope.signature, validate=True)
    except (binascii.Error, ValueError):
        raise BadSignatureError("the signature is not one") from None
    for key in public_keys:
        try:
            key.verify(signature, signed)
        except InvalidSignature:
            continue
        return
    raise BadSignatureError(
        "is not signed by the holder of any governance key that is known here"
    )


class _Stored(msgspec.Struct):
    """The stored form; *text* or *packed* (zlib) is the content."""

    format: int
    name: str
    version: int
    published_at_ms: int
    by: str
    comment: str
    signature: str
    text: str = ""
    packed: bytes = b""


def encoded(envelope: Envelope) -> bytes:
    """Return the stored form of *envelope*. Raises: EnvelopeError."""
    content = _checked(envelope).content
    packed = zlib.compress(content.encode(), 9)
    shorter = len(packed) * 4 // 3 < len(content)
    return msgspec.json.encode(
        _Stored(
            format=_FORMAT,
            name=envelope.name,
            version=envelope.version,
            published_at_ms=envelope.published_at_ms,
            by=envelope.by,
            comment=envelope.comment,
            signature=envelope.signature,
            text="" if shorter else content,
            packed=packed if shorter else b"",
        )
    )


def decoded(data: bytes) -> Envelope:
    """Return the envelope that is stored as *data*, unverified. Raises: EnvelopeError."""
    if len(data) > MAX_STORED_BYTES:
        raise EnvelopeError(f"has more than {MAX_STORED_BYTES} bytes")
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise EnvelopeError("is damaged, or no envelope") from None
    if stored.format != _FORMAT:
        raise EnvelopeError("has a format that this release can't read")
    envelope = Envelope(
        name=stored.name,
        version=stored.version,
        content=_unpacked(stored.packed) if stored.packed else stored.text,
        published_at_ms=stored.published_at_ms,
        by=stored.by,
        comment=stored.comment,
        signature=stored.signature,
    )
    return _checked(envelope)


def _unpacked(packed: bytes) -> str:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(packed, MAX_CONTENT_BYTES + 1)
        if not stream.eof:
            raise EnvelopeError(
                f"is cut off, or has more than {MAX_CONTENT_BYTES} bytes"
            )
        return content.decode()
    except (zlib.error, UnicodeDecodeError):
        raise EnvelopeError("is damaged: its content can't be unpacked") from None


def _checked(envelope: Envelope) -> Envelope:
    """Return *envelope* if a publisher could have meant it. Raises: EnvelopeError."""
    for field, limit in (("by", MAX_BY_CHARS), ("comment", MAX_COMMENT_CHARS)):
        text = getattr(envelope, field)
        if len(text) > limit or not text.isprintable():
            raise EnvelopeError(
                f"{field}: must be one line of at most {limit} printable characters"
            )
    if envelope.name not in NAMES:
        raise EnvelopeError(f"name: must be one of {', '.join(NAMES)}")
    if not 0 < envelope.version <= MAX_VERSION:
        raise EnvelopeError(f"version: must be 1 to {MAX_VERSION}")
    if not 0 <= envelope.published_at_ms <= MAX_VERSION:
        raise EnvelopeError("published_at_ms: must be a time after 1970")
    try:
        size_bytes = len(envelope.content.encode())
    except UnicodeEncodeError:
        raise EnvelopeError("content: must be text") from None
    if size_bytes > MAX_CONTENT_BYTES:
        raise EnvelopeError(f"content: must have at most {MAX_CONTENT_BYTES} bytes")
    return envelope


def _signed(envelope: Envelope) -> bytes:
    """Return what is signed: each part behind its length, so that no two run together."""
    _checked(envelope)
    parts = (
        _DOMAIN,
        envelope.name.encode(),
        str(envelope.version).encode(),
        str(envelope.published_at_ms).encode(),
        envelope.by.encode(),
        envelope.comment.encode(),
        envelope.content.encode(),
    )
    return b"".join(len(part).to_bytes(_LENGTH_BYTES, "big") + part for part in parts)
