"""A provider that nobody here wrote: llmock, as a process of its own."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

PATIENCE_SECONDS = 30.0
ATTEMPTS = 3


@contextlib.contextmanager
def mock_provider(*options: str) -> Iterator[int]:
    """Run llmock with *options*, and yield its port."""
    process, port = _started(options)
    try:
        yield port
    finally:
        _end(process)


def _started(options: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], int]:
    # Between the choice of a port and its use somebody may be faster.
    for _ in range(ATTEMPTS):
        port = _free_port()
        command = [sys.executable, "-m", "llmock.cli", "serve", "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--log-level", "error", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if _serves(port, process):
            return process, port
        _end(process)
    raise RuntimeError("llmock did not start")


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
