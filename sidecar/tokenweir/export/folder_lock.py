"""One process at a time writes into a folder, for as long as it lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tokenweir.export.sink import SinkUnavailableError, SinkUnusableError

NAME = ".lock"


class FolderLock:
    """
    Makes a folder if need be, and keeps others out of it.

    The system gives it back when the process ends, however it ends.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """
        Lock the folder, unless that is done.

        Raises:
            SinkUnusableError: It can't be made or written to.
            SinkUnavailableError: Another process has it.
        """
        if self._descriptor is not None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
            descriptor = os.open(self._folder / NAME, flags, 0o640)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise SinkUnusableError(
                f"{self._folder}: {reason}. Give a folder that this user can write to."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise SinkUnavailableError(
                "another exporter writes to this folder: each needs its own"
            ) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others in. May be called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
