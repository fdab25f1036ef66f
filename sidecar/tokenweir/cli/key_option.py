"""
`--key`: an API key, or where one is.

What stands on a command line is seen by everybody on the machine and kept in the
shell's history. So a key is named by where it is; one that was typed all the same is
taken, for it has leaked already, and that is said.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tokenweir.core.errors import TokenweirError

HELP = "the app's key: env:NAME, file:PATH, or - for standard input"
MAX_KEY_BYTES = 4_096
_VARIABLE, _FILE = "env:", "file:"
WARNING = (
    "--key: a key on the command line can be read by others on this machine, and stays "
    "in the shell's history. Use env:NAME, file:PATH, - or --key-id."
)


class KeyOptionError(TokenweirError):
    """What was given names no key. The text says what would, and repeats no key."""


def api_key(given: str) -> str:
    """Return the key that *given* is, or that it names. Raises: KeyOptionError."""
    if given == "-":
        return _key("standard input", sys.stdin.buffer.read(MAX_KEY_BYTES + 1))
    if given.startswith(_VARIABLE):
        name = given.removeprefix(_VARIABLE)
        value = os.environb.get(name.encode(), b"")
        return _key(f"the variable {name}", value)
    if given.startswith(_FILE):
        return _from_file(Path(given.removeprefix(_FILE)))
    print(WARNING, file=sys.stderr)
    return _key("what was given", given.encode())


def _from_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _key(str(path), file.read(MAX_KEY_BYTES + 1))
    except OSError as error:
        why = error.strerror or "it can't be read"
        raise KeyOptionError(f"--key: {path}: {why.lower()}") from None


def _key(where: str, value: bytes) -> str:
    text = value.decode("utf-8", "replace").strip()
    if not text:
        raise KeyOptionError(f"--key: {where} is empty or not set: put the key there")
    if len(value) > MAX_KEY_BYTES:
        raise KeyOptionError(f"--key: {where} is too long for a key")
    return text
