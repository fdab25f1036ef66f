"""
One program that the stack runs.

A child leads a process group of its own: Ctrl-C in the terminal does not reach it,
so that the stack can stop in order, and what it may have started is found again.

Rule: only what was started here is signalled. While a child is not reaped, its
process id, which is its group's too, belongs to nobody else; so a group is only
signalled before its leader is reaped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tokenweir.stack.failure import ChildFailedError
from tokenweir.stack.lifeline import lifeline
from tokenweir.stack.log_file import LogFile
from tokenweir.stack.probe import Probe

POLL_SECONDS = 0.05
TAIL_LINES = 10
TAIL_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """
    What to run.

    Attributes:
        name: For people: ``"envoy"``.
        command: Program and arguments. No secret: everyone can read them.
        env: The whole environment.
        ready: Tells once it does its work.
        log: Where its output goes; appended to.
        sockets: Paths that a dead predecessor may have left: removed before a start.
        ordinary: Lines of the log with this text say nothing about a death.
        start_seconds: The longest until it is ready.
        stop_seconds: The longest between SIGTERM and SIGKILL.
    """

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    ready: Probe
    log: Path
    sockets: tuple[Path, ...] = ()
    ordinary: str = ""
    start_seconds: float = 60.0
    stop_seconds: float = 3.0


class Child:
    """A program that runs, or has ended, or was never started."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.log = LogFile(spec.log)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        return self._process.pid if self._process and not self._ended() else None

    def start(self) -> None:
        """Start it. Raises: ChildFailedError, if the program can't be run."""
        for path in self.spec.sockets:
            path.unlink(missing_ok=True)
        self.log.mark()
        with self.spec.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own command
                    self.spec.command,
                    env=dict(self.spec.env),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                    preexec_fn=lifeline(),  # noqa: PLW1509 - this process has no threads
                )
            except OSError as error:
                raise ChildFailedError(
                    f"{self.spec.name} can't be started: {error}"
                ) from None

    async def wait_until_ready(self) -> None:
        """Return once it is ready. Raises: ChildFailedError, and then it has ended."""
        try:
            async with asyncio.timeout(self.spec.start_seconds):
                while not await self.spec.ready():
                    if self._ended():
                        raise ChildFailedError(self.obituary("at its start"))
                    await asyncio.sleep(POLL_SECONDS)
            # What it said of its start explains no later death.
            self.log.mark()
        except TimeoutError:
            await self.stop(asyncio.Event())
            message = f"was not ready after {self.spec.start_seconds:.0f} s"
            raise ChildFailedError(
                "\n".join([f"{self.spec.name} {message}", *self._tail()])
            ) from None

    async def wait(self) -> None:
        """Return once it has ended."""
        # A pidfd would tell at once, but not on every kernel.
        while not self._ended():  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)

    async def stop(self, hurry: asyncio.Event) -> None:
        """End it and all that it started; at once if *hurry* is set meanwhile."""
        if self._process is None or self._ended():
            return
        # Not Popen.terminate: it may reap, and then the group is nobody's any more.
        os.kill(self._process.pid, signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + self.spec.stop_seconds
        while not self._ended() and not hurry.is_set():
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(POLL_SECONDS)
        self.kill()
        await self.wait()

    def kill(self) -> None:
        """Send SIGKILL to it and all that it started."""
        if self._process is not None and self._process.returncode is None:
            self._kill_group(self._process.pid)

    def obituary(self, when: str = "") -> str:
        """Return how it ended, and the last lines of its log."""
        status = self._process.returncode if self._process else None
        cause = f"ended {when}".rstrip() + f" with {_status_text(status)}"
        if status == -signal.SIGKILL:
            # What it has said last is no reason: it could not say anything about that.
            cause += " (somebody killed it, or memory ran out)"
        return "\n".join([f"{self.spec.name} {cause}", *self._tail()])

    def _tail(self) -> list[str]:
        lines = self.log.tail(TAIL_LINES, self.spec.ordinary)
        return [f"  | {line[:TAIL_COLUMNS]}" for line in lines]

    def _ended(self) -> bool:
        process = self._process
        if process is None or process.returncode is not None:
            return True
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if os.waitid(os.P_PID, process.pid, flags) is None:
            return False
        # Not yet reaped: see the rule.
        self._kill_group(process.pid)
        process.wait()
        return True

    @staticmethod
    def _kill_group(group: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _status_text(status: int | None) -> str:
    if status is None:
        return "no exit code"
    if status >= 0:
        return f"exit code {status}"
    return signal.Signals(-status).name
