"""
What was asked for → which children, in which order.

    ledger                 first: processors want it to be there
    mock, processors       then, all at once
    envoy                  last, so that the first request finds them all

Secrets stay where they are needed: processors get the user's environment, in
which the policy's ``env:`` credentials are; the others get next to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.stack.child import ChildSpec
from tokenweir.stack.denial import denies
from tokenweir.stack.folder import StateFolder
from tokenweir.stack.probe import Probe, accepts, answers_http, answers_ping, both
from tokenweir.stack.programs import Programs
from tokenweir.stack.settings import HOST, StackSettings

# Open streams may end after Ctrl-C, but nobody waits long for a prompt.
DRAIN_SECONDS = 2
# Draining, then what flushing to a ledger that has gone may take at the most.
PROCESSOR_STOP_SECONDS = DRAIN_SECONDS + 3.0
# A laptop under load answers late. Envoy waits twice as long for the whole decision.
LEDGER_TIMEOUT_MS = 1_000
LEDGER_VARIABLE = "TOKENWEIR_LEDGER_URL"
# What a program needs to run at all; proxies are not among it.
HARMLESS_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH")
# Of the mock's answer, so that a stream can be seen to stream.
CHUNK_DELAY_MS = 40

Tiers = tuple[tuple[ChildSpec, ...], ...]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """
    Everything that decides about the children.

    Attributes:
        settings: What the user asked for.
        programs: Where the programs are.
        folder: Where files go.
        policy: The policy file.
        env: The user's environment.
        mock_port: Of the mock provider; None: there is none.
    """

    settings: StackSettings
    programs: Programs
    folder: StateFolder
    policy: Path
    env: Mapping[str, str]
    mock_port: int | None = None

    @property
    def ledger_url(self) -> str:
        """What processors connect to. May hold a password."""
        return self.settings.ledger_url or f"unix://{self.folder.ledger}"

    @property
    def access_log(self) -> Path:
        """Envoy's line for each request."""
        return self.folder.log("access")

    def envoy_settings(self) -> EnvoySettings:
        """Return what Envoy's configuration is rendered with, by processors."""
        workers = range(self.settings.workers)
        return EnvoySettings(
            listen_host=HOST,
            listen_port=self.settings.port,
            processor_sockets=tuple(str(self.folder.processor(w)) for w in workers),
            admin_socket=str(self.folder.envoy_admin),
            access_log_path=str(self.access_log),
            xds_dir=str(self.folder.path),
        )

    def tiers(self) -> Tiers:
        """Return the children, tier by tier."""
        first = () if self.programs.valkey is None else (self._ledger(),)
        second = tuple(self._processor(w) for w in range(self.settings.workers))
        if self.mock_port is not None:
            second = (self._mock(self.mock_port), *second)
        tiers = (first, second, (self._envoy(),))
        return tuple(tier for tier in tiers if tier)

    def _ledger(self) -> ChildSpec:
        path = self.folder.ledger
        listening = ("--port", "0", "--unixsocket", str(path))
        # Nothing on disk: it is for trying, and stops at once.
        storage = ("--save", "", "--appendonly", "no", "--dir", str(self.folder.path))
        command = (str(self.programs.valkey), *listening, "--unixsocketperm", "700")
        return self._spec(
            "ledger", (*command, *storage), answers_ping(path), sockets=(path,)
        )

    def _mock(self, port: int) -> ChildSpec:
        start = "from llmock.cli import app; app()"
        options = ("--host", HOST, "--port", str(port), "--log-level", "warning")
        pace = ("--stream-chunk-delay-ms", str(CHUNK_DELAY_MS))
        command = (sys.executable, "-P", "-c", start, "serve", *options, *pace)
        return self._spec("mock", command, answers_http((HOST, port), "/health"))

    def _processor(self, worker: int) -> ChildSpec:
        socket = self.folder.processor(worker)
        port = self.settings.admin_ports[worker]
        arguments = {
            "--policy": str(self.policy),
            "--socket": str(socket),
            "--ledger": f"env:{LEDGER_VARIABLE}",
            "--ledger-timeout-ms": str(LEDGER_TIMEOUT_MS),
            "--admin": f"{HOST}:{port}",
            "--drain-seconds": str(DRAIN_SECONDS),
            "--transport": self.settings.transport.value,
            **self._envoy_options(),
        }
        flat = (part for pair in arguments.items() for part in pair)
        sockets = ("--worker-sockets", *self.envoy_settings().processor_sockets)
        return ChildSpec(
            name=f"processor-{worker}",
            command=(sys.executable, "-P", "-m", "tokenweir", "serve", *flat, *sockets),
            env={**self.env, LEDGER_VARIABLE: self.ledger_url},
            # The admin port is there first, and Envoy must not come in between.
            ready=both(answers_http((HOST, port), "/readyz"), accepts(socket)),
            log=self.folder.log(f"processor-{worker}"),
            sockets=(socket,),
            ordinary='"event":"exchange"',
            stop_seconds=PROCESSOR_STOP_SECONDS,
        )

    def _envoy_options(self) -> dict[str, str]:
        """Return what processors are told of the Envoy that follows the policy."""
        return {
            "--xds-dir": str(self.folder.path),
            "--envoy-listen": f"{HOST}:{self.settings.port}",
            "--envoy-access-log": str(self.access_log),
            "--envoy-binary": str(self.programs.envoy),
        }

    def _envoy(self) -> ChildSpec:
        command = (
            str(self.programs.envoy),
            *("-c", str(self.folder.envoy_config), "--log-level", "warning"),
            *self.envoy_settings().arguments,
        )
        admin = self.folder.envoy_admin
        ready = both(answers_http(admin, "/ready"), denies(HOST, self.settings.port))
        return self._spec("envoy", command, ready, sockets=(admin,))

    def _spec(
        self,
        name: str,
        command: tuple[str, ...],
        ready: Probe,
        sockets: tuple[Path, ...] = (),
    ) -> ChildSpec:
        env = {key: self.env[key] for key in HARMLESS_VARIABLES if key in self.env}
        log = self.folder.log(name)
        return ChildSpec(name, command, env, ready, log, sockets)
