"""
Where a running stack keeps its files: a private folder that goes when it ends.

Paths of unix sockets are limited to 107 bytes, so a long TMPDIR is passed over.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Self

from tokenweir.stack.failure import LogFolderError

LONGEST_NAME = len("/processor-999.sock")
MAX_SOCKET_PATH_BYTES = 107
PREFIX = "tokenweir-"
ANNOUNCEMENT = "up.json"
# Both as processors call them.
ENVOY_ADMIN = "envoy-admin.sock"
BOOTSTRAP = "bootstrap.json"
SHORT_PARENT = "/tmp"  # noqa: S108 - mkdtemp makes a private folder in it


class StateFolder:
    """
    A folder that only its owner can enter; removed at the end of ``with``.

    Attributes:
        path: Absolute.
        logs: Where logs go: *log_dir*, which stays, or a part of the folder.
    """

    def __init__(self, log_dir: Path | None = None) -> None:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        if len(str(path).encode()) + LONGEST_NAME > MAX_SOCKET_PATH_BYTES:
            path.rmdir()
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=SHORT_PARENT))
        self.path = path
        self.logs = log_dir or path / "logs"

    def __enter__(self) -> Self:
        """Raises: LogFolderError, if the logs' folder can't be made."""
        try:
            self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            self.__exit__()
            raise LogFolderError(
                f"--log-dir: {self.logs} can't be a folder for logs: "
                f"{str(error.strerror).lower()}. Name another, or leave it out."
            ) from None
        return self

    def __exit__(self, *exc_info: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def policy(self) -> Path:
        """The demo's policy."""
        return self.path / "policy.yaml"

    @property
    def envoy_config(self) -> Path:
        """What Envoy starts with: a processor writes it, and what Envoy follows."""
        return self.path / BOOTSTRAP

    @property
    def envoy_admin(self) -> Path:
        """The socket of Envoy's admin interface."""
        return self.path / ENVOY_ADMIN

    @property
    def announcement(self) -> Path:
        """What the stack tells other commands, once it runs."""
        return self.path / ANNOUNCEMENT

    @property
    def ledger(self) -> Path:
        """The socket of the embedded ledger."""
        return self.path / "ledger.sock"

    def processor(self, worker: int) -> Path:
        """Return the socket of a processor, counted from 0."""
        return self.path / f"processor-{worker}.sock"

    def log(self, name: str) -> Path:
        """Return the log of the child *name*."""
        return self.logs / f"{name}.log"
