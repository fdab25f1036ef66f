"""The process serves until it is told to end, and follows its certificate."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inject.reviews import body, review
from tests.inject.webhook.pairs import HOST, Pair
from tokenweir.inject.settings import Settings
from tokenweir.inject.webhook.life import WebhookSettings, run
from tokenweir.inject.webhook.server import Address

PATIENCE_SECONDS = 60.0


class Process:
    """`tokenweir webhook serve`, and what it logs."""

    def __init__(self, pair: Pair, folder: Path, *options: str) -> None:
        self.pair = pair
        self._log = folder / "log"
        command = [sys.executable, "-m", "tokenweir", "webhook", "serve"]
        command += ["--cert", str(pair.cert), "--key", str(pair.key)]
        command += ["--listen", f"{HOST}:0", "--admin", f"{HOST}:0", *options]
        path = os.pathsep.join(filter(None, sys.path))
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path}
            )

    def lines(self) -> list[dict[str, Any]]:
        """Return its lines so far."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def events(self) -> list[str]:
        """Return what has happened."""
        return [line["event"] for line in self.lines()]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for *condition*; fail with the log."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self._log.read_text()
            assert self.process.poll() is None, self._log.read_text()
            time.sleep(0.02)

    def port(self, name: str = "port") -> int:
        """Return a port of it, once it serves."""
        self.until(lambda: "serving" in self.events())
        (line,) = (line for line in self.lines() if line["event"] == "serving")
        return int(line[name])

    def ask(self) -> bool:
        """Return whether a pod is let in."""
        url = f"https://{HOST}:{self.port()}/inject"
        headers = {"content-type": "application/json"}
        asked = urllib.request.Request(url, data=body(review()), headers=headers)
        with urllib.request.urlopen(asked, context=self.pair.client()) as answer:
            return bool(json.load(answer)["response"]["allowed"])


@pytest.fixture
def process(pair: Pair, tmp_path: Path) -> Iterator[Process]:
    """Return one that drains shortly."""
    made = Process(pair, tmp_path, "--drain-seconds", "1")
    yield made
    made.process.kill()
    made.process.wait()


def test_from_start_to_end(process: Process) -> None:
    """It answers, takes a new certificate by itself, refuses a bad one, and drains."""
    assert process.ask()
    process.pair.issue(days=9)
    process.until(lambda: process.events().count("certificate_loaded") == 2)
    assert process.ask()
    process.pair.key.write_text("no key")
    process.until(lambda: "certificate_refused" in process.events())
    assert process.ask()

    process.process.send_signal(signal.SIGTERM)
    process.until(lambda: "draining" in process.events())
    ready = f"http://{HOST}:{process.port('admin_port')}/readyz"
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(ready)
    assert process.process.wait(PATIENCE_SECONDS) == 0
    assert process.events()[-1] == "stopped"
    pods = [line for line in process.lines() if line["event"] == "pod_injected"]
    assert len(pods) == 3


def settings(pair: Pair, port: int = 0) -> WebhookSettings:
    """Return settings with *pair*."""
    return WebhookSettings(
        Settings(), pair.cert, pair.key, Address(HOST, port), Address(HOST, 0)
    )


def test_no_certificate(tmp_path: Path) -> None:
    """It does not start, and says which file."""
    told: list[str] = []

    assert run(settings(Pair(tmp_path)), told.append) == 1
    assert told == [f"{tmp_path / 'tls.crt'}: no such file or directory"]


def test_no_port(process: Process, pair: Pair) -> None:
    """It does not start, and says so."""
    told: list[str] = []

    assert run(settings(pair, process.port()), told.append) == 1
    assert "address already in use" in told[0]
