"""A stack that runs, as a newcomer runs it: by the command, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.stack.fakes import alive, wait_until

START_SECONDS = 90.0
STARTED = "Ctrl-C stops all."
MOST_WORKERS = 2
# Below the ports that the system gives to whoever asks for any: another test that
# connects meanwhile does not get one of these.
FIRST_PORT, PORTS = 20_000, 10_000


class RunningStack:
    """
    `tokenweir up` with *arguments*, on free ports. Its output is in *folder*.

    Attributes:
        port: Where apps connect to.
        admin_port: Of the first processor.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = _first_free(1 + MOST_WORKERS)
        self.admin_port = self.port + 1
        self._output = folder / "output"
        ports = ("--port", str(self.port), "--admin-port", str(self.admin_port))
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tokenweir", "up", *ports, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A stack that is killed leaves its folder: let it be in ours.
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    "TMPDIR": str(folder),
                },
            )

    def wait_until_started(self) -> None:
        """Return once it has said how to call it. Raises: RuntimeError."""
        wait_until(
            lambda: STARTED in self.output() or self._process.poll() is not None,
            START_SECONDS,
        )
        if self._process.poll() is not None:
            raise RuntimeError(self.output())

    def output(self) -> str:
        """Return what it has printed so far."""
        return self._output.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        """Return once it has printed *text* that often. Raises: TimeoutError."""
        wait_until(lambda: self.output().count(text) >= times, START_SECONDS)

    def children(self) -> dict[str, int]:
        """Return the process ids of its children, by program."""
        pid = self._process.pid
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return {_program(int(child)): int(child) for child in listed}

    def folder(self) -> Path:
        """Return its private folder."""
        words = Path(f"/proc/{self.children()['envoy']}/cmdline").read_text()
        return Path(words.split("\0")[2]).parent

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and return its exit code."""
        self._process.send_signal(number)
        return self._process.wait(START_SECONDS)

    def kill(self) -> None:
        """End it at once, if it still runs."""
        self._process.kill()
        self._process.wait()


def _first_free(count: int) -> int:
    """Return the first of *count* ports in a row on which nobody listens."""
    for start in range(os.getpid(), os.getpid() + PORTS, count):
        first = FIRST_PORT + start % PORTS
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise RuntimeError("no free ports")


def gone(pids: list[int]) -> bool:
    """Tell if none of the processes runs."""
    return not any(alive(pid) for pid in pids)


def _program(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    if "serve" in words:
        return "mock" if "-c" in words else words[words.index("--socket") + 1]
    return Path(words[0].split()[0]).name
