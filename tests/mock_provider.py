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


@contextlib.contextmanager
def mock_provider(*options: str) -> Iterator[int]:
    """Run llmock with *options*, and yield its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-m", "llmock.cli", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--log-level", "error", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            url = f"http://127.0.0.1:{port}/v1/models"
            with urllib.request.urlopen(url, timeout=1):
                return
        except urllib.error.HTTPError:
            return  # it answers
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("llmock did not start") from None
            time.sleep(0.05)
