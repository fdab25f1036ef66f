"""
Files of signing keys.

A private key is PEM (PKCS 8, as `openssl genpkey -algorithm ed25519` makes it too). A
public key is a line ``ed25519:BASE64``, which fits into a ConfigMap or a variable.
A file may hold several public ones: while the signing key is changed, both count.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import pathlib
from collections.abc import Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from tokenweir.config.files import Files, UnreadableFileError
from tokenweir.config.secret_reference import parse_reference
from tokenweir.core.errors import TokenweirError

MAX_KEY_FILE_BYTES = 64 * 1024
# More than are ever changed at once; each costs every bad signature a verification.
MAX_PUBLIC_KEYS = 16
_PREFIX = "ed25519:"
_COMMENT = "#"


class KeyFileError(TokenweirError):
    """A key can't be used. The text says what is wanted, and has no part of a key."""


def write_private_key(path: pathlib.Path, key: Ed25519PrivateKey) -> None:
    """
    Write *key* to the new file *path*, for its owner only.

    Raises: OSError, also if there is such a file: no key is ever overwritten.
    """
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - it is open already
        file.write(pem)


def public_text(key: Ed25519PublicKey) -> str:
    """Return the line that stands for *key*."""
    return _PREFIX + base64.b64encode(key.public_bytes_raw()).decode()


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return twelve hex digits that people can compare."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:12]


def private_key(reference: str, env: Mapping[str, str]) -> Ed25519PrivateKey:
    """
    Return the private key that *reference* (``file:/path`` or ``env:NAME``) names.

    Raises: KeyFileError.
    """
    pem = _content(reference, env, "signing key")
    wanted = f"{reference} must hold an Ed25519 private key in PEM, without password; "
    hint = "`tokenweir policy keygen` makes one"
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError(wanted + hint) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(wanted + hint)
    return key


def public_keys(reference: str, env: Mapping[str, str]) -> tuple[Ed25519PublicKey, ...]:
    """
    Return the public keys that *reference* (``file:/path`` or ``env:NAME``) names.

    Raises: KeyFileError, if there is none or one is wrong.
    """
    content = _content(reference, env, "governance key")
    lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
    keys = tuple(
        _public_key(line, reference)
        for line in lines
        if line and not line.startswith(_COMMENT)
    )
    if not 0 < len(keys) <= MAX_PUBLIC_KEYS:
        raise KeyFileError(
            f"{reference} must hold 1 to {MAX_PUBLIC_KEYS} public keys, each a line "
            f"{_PREFIX}BASE64 as `tokenweir policy keygen` prints it"
        )
    return keys


def _public_key(line: str, reference: str) -> Ed25519PublicKey:
    if "PRIVATE KEY" in line:
        raise KeyFileError(
            f"{reference} holds a private key: sidecars get the public one only"
        )
    with contextlib.suppress(binascii.Error, ValueError):
        # What people add behind a key is theirs.
        encoded = line.split(maxsplit=1)[0].removeprefix(_PREFIX)
        raw = base64.b64decode(encoded, validate=True)
        if line.startswith(_PREFIX):
            return Ed25519PublicKey.from_public_bytes(raw)
    raise KeyFileError(
        f"{reference} holds a line that is no public key: {_PREFIX}BASE64 is wanted"
    )


def _content(reference: str, env: Mapping[str, str], what: str) -> bytes:
    try:
        parsed = parse_reference(_absolute(reference))
    except ValueError:
        raise KeyFileError(
            f"{what}: must say where the key is, as file:PATH or env:NAME"
        ) from None
    if parsed.kind == "env":
        if parsed.name not in env:
            raise KeyFileError(f"{what}: the variable {parsed.name} is not set")
        return env[parsed.name].encode("utf-8", "replace")
    try:
        return Files().read(pathlib.Path(parsed.name), MAX_KEY_FILE_BYTES)
    except UnreadableFileError as error:
        raise KeyFileError(f"{what}: {reference} {error}") from None


def _absolute(reference: str) -> str:
    # On a command line, unlike in a policy, it is clear what a path is relative to.
    kind, separator, path = reference.partition(":")
    if kind == "file" and separator and path:
        return f"file:{pathlib.Path(path).absolute()}"
    return reference
