"""
A pod as it runs in production, for tests: Envoy, processors, a ledger.

    async with Pod.start(policy(upstream.port)) as pod:
        ... http://127.0.0.1:{pod.port}/v1/chat/completions ...

Every process is real and is reached from outside only. `Pod.settled` waits until
the ledger has no hold left, which is how every test should end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml

from tests.envoy_process import EnvoyProcess
from tests.ledger_view import LedgerView
from tests.servers import Server, start_valkey
from tokenweir.config.load import load_policy
from tokenweir.envoyconf.bootstrap import render
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.stack.ports import free_port
from tokenweir.transport.choice import DEFAULT

KEY = "sk-tw-acme"
OTHER_KEY = "sk-tw-globex"
CREDENTIAL = "sk-provider-CANARY"
PATIENCE_SECONDS = 20.0
# A processor that gets no time for two seconds would leave the rest of an answer
# unmetered: whoever tries that says so.
PATIENT_ENVOY: Mapping[str, Any] = {"response_timeout_ms": 15_000}
HASTY_ENVOY: Mapping[str, Any] = {"response_timeout_ms": 2_000}
# Vocabularies take a second or two to load, and much longer on a busy machine.
START_SECONDS = 180.0
# How processors serve Envoy, in every test that says nothing else.
TRANSPORT = os.environ.get("TOKENWEIR_TEST_TRANSPORT") or DEFAULT.value


def sha256(text: str) -> str:
    """Return the lower-case hex digest that policies keep keys as."""
    return hashlib.sha256(text.encode()).hexdigest()


def policy(port: int, **changes: object) -> dict[str, Any]:
    """
    Return a policy of two providers on *port*, two tenants and no quota.

    *changes* replace top-level members; ``quotas`` are tenant acme's.
    """
    quotas = changes.pop("quotas", [])
    base = f"http://127.0.0.1:{port}"
    content: dict[str, Any] = {
        "version": 1,
        "providers": {
            "openai": {
                "base_url": base,
                "dialect": "openai",
                "credential": "env:OPENAI_API_KEY",
            },
            "anthropic": {
                "base_url": base,
                "dialect": "anthropic",
                "credential": "env:ANTHROPIC_API_KEY",
            },
        },
        "models": {
            "gpt-4o": {"provider": "openai", "max_output_tokens": 16384},
            "gpt-4o-mini": {"provider": "openai", "max_output_tokens": 16384},
            "claude-sonnet-5": {"provider": "anthropic", "max_output_tokens": 64000},
        },
        "tenants": {
            "acme": {"keys": [{"id": "ci", "sha256": sha256(KEY)}], "quotas": quotas},
            "globex": {"keys": [{"id": "g", "sha256": sha256(OTHER_KEY)}]},
        },
    }
    return content | by_path() | changes


def by_path() -> dict[str, Any]:
    """
    Return what policies say of the path of answers.

    Nothing, unless all that pods run is to be tried on another one.
    """
    path = os.environ.get("TOKENWEIR_TEST_PATH")
    return {"responses": {"path": path}} if path else {}


def progress() -> dict[str, Any]:
    """Return how often Envoy tells of answers, where that is to be tried: often."""
    return {"progress_interval_ms": 300} if by_path() else {}


@dataclass
class Processor:
    """
    One `tokenweir serve`.

    Attributes:
        socket: Where Envoy finds it.
        command: Arguments, for `restart`.
        log: File that gets its standard output and error.
    """

    socket: Path
    command: list[str]
    log: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start it, and return once it serves. Raises: RuntimeError with its log."""
        served = self.count("serving")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=dict(self.environment)
            )
        deadline = time.monotonic() + START_SECONDS
        while self.count("serving") == served:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"no processor:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it without a word (SIGKILL)."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        """Ask it to drain (SIGTERM); returns at once."""
        self.process.terminate()

    def lines(self) -> list[dict[str, Any]]:
        """Return what it has logged, as objects."""
        text = self.log.read_text() if self.log.exists() else ""
        found = []
        for line in text.splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return [line for line in found if isinstance(line, dict)]

    def count(self, event: str) -> int:
        """Return how many lines there are of *event*."""
        return sum(line.get("event") == event for line in self.lines())

    def admin(self, path: str) -> str:
        """Return what the admin port says, whatever the status. Raises: OSError."""
        serving = [line for line in self.lines() if line.get("event") == "serving"]
        connection = HTTPConnection("127.0.0.1", serving[-1]["admin_port"], timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        """Return the sum of the samples whose name and labels begin with *name*."""
        lines = self.admin("/metrics").splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if _is(line, name))


@dataclass
class Pod:
    """
    Envoy, processors and a ledger.

    Attributes:
        port: Where apps connect to.
        ledger: What the ledger holds, as seen by a stranger.
        server: The ledger's process.
        processors: One for each worker.
        policy_path: Change it, and the processors follow.
    """

    envoy: EnvoyProcess
    server: Server
    processors: list[Processor]
    ledger: LedgerView
    policy_path: Path
    port: int

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        content: Mapping[str, Any],
        *,
        workers: int = 1,
        server: Server | None = None,
        ledger_url: str | None = None,
        view_url: str | None = None,
        drain_seconds: int = 5,
        arguments: Sequence[str] = (),
        program: str = "tokenweir",
        envoy_settings: Mapping[str, Any] | None = None,
        live: bool = False,
    ) -> AsyncIterator[Pod]:
        """
        Start a pod under the policy *content*, and stop it at the end.

        Args:
            content: See `policy`.
            workers: Processors.
            server: The ledger's; None: one of its own.
            ledger_url: By which processors reach it, if not directly.
            view_url: By which tests do, ditto.
            drain_seconds: How long open exchanges may take after SIGTERM.
            arguments: More for ``tokenweir serve``.
            program: The module that is run, instead of the real one.
            envoy_settings: Of `EnvoySettings`.
            live: Envoy follows the policy, as the processors write it; it has no
                other settings then.
        """
        folder = Path(tempfile.mkdtemp(prefix="tw-pod-"))
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            if server is None:
                server = await asyncio.to_thread(start_valkey, folder)
                stack.callback(server.stop)
            path = folder / "policy.yaml"
            path.write_text(yaml.safe_dump(by_path() | dict(content)))
            serve = [program, "serve", "--ledger", ledger_url or server.url]
            # Patient, as tests share their machine: whoever tries deadlines says so.
            serve += ["--ledger-timeout-ms", "1000"]
            serve += ["--drain-seconds", str(drain_seconds)]
            serve += ["--transport", TRANSPORT, *arguments]
            port = free_port() if live else 0
            if live:
                serve += _live_options(folder, workers, port)
            processors = await _processors(folder, workers, serve, stack)
            settings = EnvoySettings(
                listen_port=0,
                processor_sockets=tuple(str(each.socket) for each in processors),
                **{**PATIENT_ENVOY, **progress(), **(envoy_settings or {})},
            )
            async with LedgerView.connect(view_url or server.url) as ledger:
                if live:
                    envoy = await asyncio.to_thread(start_following, folder / "xds")
                else:
                    bootstrap = render(load_policy(path, _environment()), settings)
                    envoy = await asyncio.to_thread(EnvoyProcess.start, bootstrap)
                pod = cls(envoy, server, processors, ledger, path, port or envoy.port)
                try:
                    yield pod
                finally:  # it may be another one by now
                    pod.envoy.stop()

    @property
    def xds(self) -> Path:
        """The folder that a `live` pod's Envoy follows."""
        return self.policy_path.with_name("xds")

    @property
    def url(self) -> str:
        """What OpenAI's SDK takes as its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def exchanges(self) -> list[dict[str, Any]]:
        """Return the processors' log lines of exchanges, in order of each."""
        return [
            line
            for processor in self.processors
            for line in processor.lines()
            if line.get("event") == "exchange"
        ]

    async def settled(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until nothing is held. Raises: TimeoutError, and says what is."""
        await until(self.ledger.nothing_held, seconds)


def start_following(folder: Path) -> EnvoyProcess:
    """Start an Envoy that follows *folder*, and return once it serves."""
    bootstrap = json.loads((folder / "bootstrap.json").read_text())
    admin = Path(bootstrap["admin"]["address"]["pipe"]["path"])
    return EnvoyProcess.start(bootstrap, admin_path=admin)


def _live_options(folder: Path, workers: int, port: int) -> list[str]:
    sockets = [str(folder / f"{number}.sock") for number in range(workers)]
    options = ["--xds-dir", str(folder / "xds"), "--worker-sockets", *sockets]
    return [*options, "--envoy-listen", f"127.0.0.1:{port}"]


async def until(
    condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait until *condition* (which may be a coroutine function) holds."""
    deadline = time.monotonic() + seconds
    while True:
        held = condition()
        if asyncio.iscoroutine(held):
            held = await held
        if held:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {condition}")
        await asyncio.sleep(0.02)


def soon(waits: Iterable[float], seconds: float) -> None:
    """
    Demand that what took *waits* (s) takes less than *seconds* as a rule.

    On a machine that does other things as well, not each of them does.
    """
    assert statistics.median(waits) < seconds


def _is(line: str, name: str) -> bool:
    return line.startswith(name) and line[len(name) : len(name) + 1] in ("{", " ", ",")


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "OPENAI_API_KEY": CREDENTIAL,
        "ANTHROPIC_API_KEY": CREDENTIAL,
        "PYTHONPATH": f"{Path('sidecar').resolve()}:{Path.cwd()}",
    }


async def _processors(
    folder: Path, count: int, serve: Sequence[str], stack: contextlib.ExitStack
) -> list[Processor]:
    """Start all at once; *stack* ends them."""
    starting = (
        asyncio.to_thread(_processor, folder, number, serve) for number in range(count)
    )
    processors = []
    failures = []
    for started in await asyncio.gather(*starting, return_exceptions=True):
        if isinstance(started, Processor):
            stack.callback(_end, started)
            processors.append(started)
        else:
            failures.append(started)
    for failure in failures:
        raise failure
    return processors


def _processor(folder: Path, number: int, serve: Sequence[str]) -> Processor:
    socket = folder / f"{number}.sock"
    command = [sys.executable, "-m", *serve, "--admin", "127.0.0.1:0"]
    command += ["--socket", str(socket)]
    if "--policy" not in serve:
        command += ["--policy", str(folder / "policy.yaml")]
    return Processor(socket, command, folder / f"{number}.log", _environment())


def _end(processor: Processor) -> None:
    if processor.process.poll() is None:
        os.kill(processor.process.pid, signal.SIGCONT)
        processor.kill()
