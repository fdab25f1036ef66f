"""
Secrets by reference: where one is, never what it is.

A policy is copied, reviewed and kept in version control, so a secret in it is
refused, by a message that does not repeat it.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tokenweir.config.files import Files, UnreadableFileError
from tokenweir.core.policy import Secret

# Far above any key or token, below any file that was named by mistake.
MAX_SECRET_BYTES = 64 * 1024

_REFERENCE = re.compile(
    r"env:(?P<variable>[A-Za-z_][A-Za-z0-9_]{0,255})|file:(?P<path>/[^\x00-\x1f\x7f]+)"
)

# It is sent as the value of a header.
_VISIBLE_ASCII = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class SecretReference:
    """
    Where a secret is.

    Attributes:
        kind: ``"env"`` or ``"file"``.
        name: The variable's name, or the absolute path.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_reference(value: object) -> SecretReference:
    """
    Read ``env:NAME`` or ``file:/path``.

    Raises:
        ValueError: It is neither. The text repeats no part of *value*.
    """
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(
            "must say where the secret is, as env:OPENAI_API_KEY or "
            "file:/run/secrets/openai; the secret itself has no place in a policy"
        )
    if match["variable"]:
        return SecretReference("env", match["variable"])
    return SecretReference("file", match["path"])


def resolve(reference: SecretReference, env: Mapping[str, str], files: Files) -> Secret:
    """
    Fetch the secret that *reference* names. One newline at a file's end is no part of it.

    Raises:
        ValueError: There is none, or it can't be sent. The text names the
            reference, and has no part of the secret.
    """
    value = (
        _from_environment(reference, env)
        if reference.kind == "env"
        else _from_file(reference, files)
    )
    if not value:
        raise ValueError(f"{reference} is empty")
    if not _VISIBLE_ASCII.fullmatch(value):
        raise ValueError(
            f"{reference} holds a space, a control character or a letter outside "
            "of ASCII: a credential is one word"
        )
    return Secret(value)


def _from_environment(reference: SecretReference, env: Mapping[str, str]) -> str:
    value = env.get(reference.name)
    if value is None:
        raise ValueError(f"environment variable {reference.name} is not set")
    return value


def _from_file(reference: SecretReference, files: Files) -> str:
    try:
        content = files.read(pathlib.Path(reference.name), MAX_SECRET_BYTES)
    except UnreadableFileError as error:
        raise ValueError(f"{reference} {error}") from None
    # Bytes outside of ASCII become characters that `resolve` refuses.
    text = content.decode("latin-1")
    return text.removesuffix("\n").removesuffix("\r")
