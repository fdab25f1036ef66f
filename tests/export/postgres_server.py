"""A real PostgreSQL of Debian's package, for tests: on a unix socket, and of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

START_TIMEOUT_SECONDS = 60.0
# It refuses to run as root.
SOMEBODY = "nobody"


def binaries() -> Path | None:
    """Return the folder of the newest server that is installed, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@dataclass
class PostgresServer:
    """
    A running server.

    Attributes:
        bin: Where its programs are.
        home: Its folder, which `remove` removes; the socket is in it, too.
        process: Running, or ended after `stop`.
    """

    bin: Path
    home: Path = field(init=False)
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        # Not below pytest's folders, which nobody else may enter.
        self.home = Path(tempfile.mkdtemp(prefix="tw-pg-"))
        if self._as_user():
            os.chown(self.home, pwd.getpwnam(SOMEBODY).pw_uid, -1)
        subprocess.run(
            [
                *self._as_user(),
                *(str(self.bin / "initdb"), "--pgdata", str(self.home / "data")),
                *("--username", "tw", "--auth", "trust", "--encoding", "UTF8"),
                *("--no-locale", "--no-sync"),
            ],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=self.home,
        )
        self.start()

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"postgresql:///postgres?host={self.home}&user=tw"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = subprocess.Popen(
            [
                *self._as_user(),
                *(str(self.bin / "postgres"), "-D", str(self.home / "data")),
                *("-k", str(self.home), "-c", "listen_addresses="),
                *("-c", "fsync=off", "-c", "shared_buffers=16MB"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.home,
        )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL did not start")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it at once, with all connections."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def remove(self) -> None:
        """End it, and remove all that it had."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    @staticmethod
    def _as_user() -> list[str]:
        if os.getuid() != 0:
            return []
        somebody = pwd.getpwnam(SOMEBODY)
        ids = [f"--reuid={somebody.pw_uid}", f"--regid={somebody.pw_gid}"]
        return ["setpriv", *ids, "--clear-groups", "--"]
