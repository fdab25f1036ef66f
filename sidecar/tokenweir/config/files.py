"""
The files that a policy is made from.

Each is read whole and bounded. What was read is remembered by its hash, so that a
change is noticed whatever way it came about: written in place, replaced, or by a
symlink further up, which is how Kubernetes swaps the files of a ConfigMap.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import stat

# Digest of a file that can't be read.
_UNREADABLE = "unreadable"


class UnreadableFileError(Exception):
    """A file can't be used. The text says why, and holds none of its content."""


class Files:
    """Reads files and remembers what it saw. Used by one thread at a time."""

    def __init__(self) -> None:
        self._limits: dict[pathlib.Path, int] = {}
        self._seen: dict[pathlib.Path, str] = {}

    def read(self, path: pathlib.Path, limit_bytes: int) -> bytes:
        """
        Return the content of *path*.

        Raises:
            UnreadableFileError: There is none, or it is above *limit_bytes*.
        """
        self._limits[path] = limit_bytes
        self._seen[path] = _UNREADABLE
        content = _read(path, limit_bytes)
        self._seen[path] = _digest(content)
        return content

    @property
    def seen(self) -> dict[pathlib.Path, str]:
        """What was read, as a digest for each path."""
        return dict(self._seen)

    def now(self) -> dict[pathlib.Path, str]:
        """Return what `seen` would be if everything was read again."""
        current = Files()
        for path, limit_bytes in self._limits.items():
            try:
                current.read(path, limit_bytes)
            except UnreadableFileError:
                continue
        return current.seen


def _read(path: pathlib.Path, limit_bytes: int) -> bytes:
    try:
        # Opening a FIFO would wait for its writer.
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise UnreadableFileError("is a folder, not a file")
        if not stat.S_ISREG(mode):
            raise UnreadableFileError("is not a regular file")
        with path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise UnreadableFileError(f"can't be read: {reason}") from None
    if len(content) > limit_bytes:
        raise UnreadableFileError(f"is larger than {limit_bytes} bytes")
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
