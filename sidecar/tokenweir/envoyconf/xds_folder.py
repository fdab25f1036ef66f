"""
The folder that a running Envoy follows.

Whoever reads a file there finds the whole of an earlier or of a later one: each is
written beside, and moved to its place. That is also what Envoy waits for: it watches for
moves. A writer that is killed leaves a file behind whose name begins with a dot; the next
one removes it. Workers of a pod write by turns.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PREFIX = ".new-"
_LOCK = ".lock"


class XdsFolder:
    """The folder *path*, which is made when it is needed. Its files are the owner's."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers away; waits for those that are there. Raises: OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It is let go of with the process, however that ends.
        lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in self.path.glob(f"{_PREFIX}*"):
                left.unlink(missing_ok=True)
            yield
        finally:
            os.close(lock)

    def read(self, name: str) -> bytes | None:
        """Return what is in a file; None: there is none. Raises: OSError."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the object in a file; an empty one if it can't be had."""
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.read(name) or b"{}")
            if isinstance(found, dict):
                return found
        return {}

    def put(self, name: str, content: bytes) -> bool:
        """
        Have *content* in the file *name*; tell if there was another. Raises: OSError.

        What stays the same is not touched: Envoy need not read it again.
        """
        if self.read(name) == content:
            return False
        self.replace(name, content)
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Put *content* in the place of what is there, changed or not. Raises: OSError."""
        # For its owner only, from the beginning.
        descriptor, new = tempfile.mkstemp(dir=self.path, prefix=_PREFIX)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - it is open already
                file.write(content)
                file.flush()
                # Also if the power fails: an empty file would be no configuration.
                os.fsync(file.fileno())
            Path(new).replace(self.path / name)
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise

    def names(self, pattern: str) -> set[str]:
        """Return the names of files like *pattern*."""
        return {path.name for path in self.path.glob(pattern)}

    def remove(self, name: str) -> None:
        """Have no file *name*. Raises: OSError."""
        (self.path / name).unlink(missing_ok=True)
