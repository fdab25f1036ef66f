"""`tokenweir after` becomes a program once a file is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tokenweir.cli.main import main

PATIENCE_SECONDS = 60.0
# Says that it is there, so that signals find it.
_READY = (
    "import sys, time; from tokenweir.cli import after; sleep = time.sleep\n"
    "time.sleep = lambda s: (print('waiting', flush=True), sleep(s))\n"
    "from tokenweir.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return a process that waits for a file."""
    path = os.pathsep.join(filter(None, sys.path))
    say = [sys.executable, "-c", "import sys; print(sys.argv[1:])", "-c", "x"]
    process = subprocess.Popen(
        [sys.executable, "-c", _READY, "after", str(tmp_path / "file"), *say],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    yield process
    process.kill()
    process.communicate()


def test_it_waits(waiting: subprocess.Popen[str], tmp_path: Path) -> None:
    """The program gets its arguments as they are, in the same process."""
    assert waiting.poll() is None
    (tmp_path / "file").touch()
    out, _ = waiting.communicate(timeout=PATIENCE_SECONDS)

    assert out.splitlines()[-1] == "['-c', 'x']"
    assert waiting.returncode == 0


def test_it_ends_when_told(waiting: subprocess.Popen[str]) -> None:
    """Also as the first process of a container."""
    waiting.send_signal(signal.SIGTERM)

    assert waiting.wait(PATIENCE_SECONDS) == 143


def test_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says which."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["after", str(tmp_path), "no-such-program", "--fast"]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)
    told = "no-such-program: no such file or directory. Is it in this image?\n"
    assert capsys.readouterr().err == told


def test_no_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is there is not waited for."""
    started: list[list[str]] = []

    def become(_: str, command: list[str]) -> None:
        started.append(command)
        raise SystemExit(0)

    def sleep(_: float) -> None:
        raise AssertionError

    monkeypatch.setattr(os, "execvp", become)
    monkeypatch.setattr(time, "sleep", sleep)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit):
            main(["after", str(tmp_path), "envoy", "-c", "f", "--log-level", "info"])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert started == [["envoy", "-c", "f", "--log-level", "info"]]
