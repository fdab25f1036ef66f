"""Providers that nobody here wrote, as processes: llmock, and aimock from npm."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.node_packages import FOLDER, node_packages

PATIENCE_SECONDS = 30.0
ATTEMPTS = 3


@contextlib.contextmanager
def mock_provider(*options: str) -> Iterator[int]:
    """Run llmock with *options*, and yield its port."""
    serve = [sys.executable, "-m", "llmock.cli", "serve", "--log-level", "error"]
    with _running([*serve, *options]) as port:
        yield port


@contextlib.contextmanager
def aimock(answers: Path = FOLDER / "answers.json") -> Iterator[int]:
    """Run aimock with *answers*, and yield its port; skip where there's no Node."""
    script = FOLDER / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    serve = [node_packages(), str(script), "--log-level", "silent"]
    with _running([*serve, "--fixtures", str(answers)]) as port:
        yield port


@contextlib.contextmanager
def _running(serve: list[str]) -> Iterator[int]:
    process, port = _started(lambda port: [*serve, "--port", str(port)])
    try:
        yield port
    finally:
        _end(process)


def _started(
    command_on: Callable[[int], list[str]],
) -> tuple[subprocess.Popen[bytes], int]:
    # Between the choice of a port and its use somebody may be faster.
    for _ in range(ATTEMPTS):
        port = _free_port()
        process = subprocess.Popen(
            [*command_on(port), "--host", "127.0.0.1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if _serves(port, process):
            return process, port
        _end(process)
    raise RuntimeError("the mock provider did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _serves(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    url = f"http://127.0.0.1:{port}/v1/models"
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return True
        except urllib.error.HTTPError:
            return True  # it answers
        except OSError:
            time.sleep(0.05)
    return False
