"""Processes that the benchmark starts, and ends again, by their ids only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 120.0
_POLL_SECONDS = 0.005


@dataclass(frozen=True)
class Child:
    """
    A process. *log* gets what it says.

    Raises: RuntimeError with the log's end, if it does not get where it should.
    """

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def wait_for(self, word: str) -> str:
        """Return the log's first line with *word*, once it is there."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            for line in self.log.read_text(errors="replace").splitlines(keepends=True):
                if word in line and line.endswith("\n"):
                    return line.strip()
            if self.process.poll() is not None or time.monotonic() > deadline:
                end = self.log.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"{self.process.args!r} did not start:\n{end}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()


def environment(**more: str) -> dict[str, str]:
    """Return that of children: this tree's sources, and *more*."""
    places = (ROOT / "sidecar", ROOT)
    return {**os.environ, "PYTHONPATH": ":".join(map(str, places)), **more}


def spawn(
    command: Sequence[str | Path],
    log: Path,
    stack: ExitStack,
    env: Mapping[str, str] | None = None,
) -> Child:
    """Start *command*; *stack* ends it."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(env or environment()),
            cwd=ROOT,
        )
    child = Child(process, log)
    stack.callback(child.stop)
    return child


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a *module* of this tree."""
    return [sys.executable, "-m", module, *arguments]
