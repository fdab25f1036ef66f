"""
Starts what is measured: a variant with all its processes, and what it may be asked.

Each variant has processes of its own, and all run at the same time: one that nobody
asks costs next to nothing, and rounds can take them in turn.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from bench.gateway import envoy_alone, litellm_proxy
from bench.gateway.capabilities import Build
from bench.gateway.children import Child, python, spawn
from bench.gateway.policies import policy_of
from bench.gateway.variants import Kind, Variant
from tests.envoy_process import EnvoyProcess
from tests.servers import Server, start_valkey
from tokenweir.config.load import load_policy
from tokenweir.envoyconf.bootstrap import render
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.stack.ports import free_port

# Patient, as the cores are all busy at saturation: what is late is told by latency.
LEDGER_TIMEOUT_MS = "5000"
ENVOY_TIMEOUT_MS = 60_000
AT_ONCE = 2


@dataclass(frozen=True)
class Stand:
    """
    A variant that runs.

    Attributes:
        variant: Which.
        port: Where it is asked, on 127.0.0.1.
        roots: Process ids by role: envoy, processor, ledger, proxy.
        ledger: Of its own, if it has one.
        envoy: Likewise.
    """

    variant: Variant
    port: int
    roots: Mapping[str, Sequence[int]]
    ledger: Server | None = None
    envoy: EnvoyProcess | None = None


@dataclass
class Site:
    """
    Where variants are started.

    Attributes:
        build: What Tokenweir can do here.
        folder: For sockets and logs; short, since paths of sockets are.
        stack: Ends everything.
        upstream: The provider.
        upstream_port: Its port.
        litellm: LiteLLM's environment, if it is measured.
    """

    build: Build
    folder: Path
    stack: ExitStack
    upstream: Child
    upstream_port: int
    litellm: Path | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def open(
        cls, build: Build, folder: Path, stack: ExitStack, litellm: Path | None = None
    ) -> Site:
        """Start the provider, and return a site with it. Raises: RuntimeError."""
        log = folder / "upstream.log"
        upstream = spawn(python("bench.gateway.upstream"), log, stack)
        return cls(build, folder, stack, upstream, int(upstream.wait_for("")), litellm)

    def within(self, stack: ExitStack) -> Site:
        """Return the same site for what *stack* ends sooner."""
        return replace(self, stack=stack)

    def start(self, variant: Variant) -> Stand:
        """Start *variant*, and return once it serves. Raises: RuntimeError."""
        starters: Mapping[Kind, Callable[[Variant], Stand]] = {
            Kind.ALONE: self._alone,
            Kind.NOOP: self._noop,
            Kind.TOKENWEIR: self.tokenweir,
            Kind.LITELLM: self._litellm,
        }
        return starters[variant.kind](variant)

    def start_all(self, chosen: Sequence[Variant]) -> list[Stand]:
        """Start all of them, a few at a time. Raises: RuntimeError."""
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return list(threads.map(self.start, chosen))

    def path(self, name: str) -> Path:
        """Return a path that nobody else has, for a file of this kind."""
        return self.folder / f"{next(self._numbers)}.{name}"

    def ledger(self, *options: str) -> Server:
        """Start a Valkey, with *options* of its command line."""
        server = start_valkey(self.folder, *options)
        self.stack.callback(server.stop)
        return server

    def envoy(self, bootstrap: Mapping[str, Any]) -> EnvoyProcess:
        """Start an Envoy with one worker, so that it is what a core can do."""
        envoy = EnvoyProcess.start(bootstrap)
        self.stack.callback(envoy.stop)
        return envoy

    def _alone(self, variant: Variant) -> Stand:
        envoy = self.envoy(envoy_alone.alone(self.upstream_port))
        return Stand(variant, envoy.port, {"envoy": [envoy.pid]})

    def _noop(self, variant: Variant) -> Stand:
        socket = self.path("sock")
        command = python("bench.gateway.noop", str(socket), variant.transport)
        noop = spawn(command, self.path("log"), self.stack)
        noop.wait_for("serving")
        bootstrap = envoy_alone.with_processor(self.upstream_port, socket)
        envoy = self.envoy(bootstrap)
        roots = {"envoy": [envoy.pid], "processor": [noop.pid]}
        return Stand(variant, envoy.port, roots)

    def tokenweir(
        self, variant: Variant, tenants: int = 1, ledger: Server | None = None
    ) -> Stand:
        """Start Tokenweir with so many *tenants*, on a *ledger* of its own or not."""
        content = policy_of(variant, self.build, self.upstream_port, tenants)
        return self.tokenweir_under(content, variant, ledger)

    def tokenweir_under(
        self,
        content: Mapping[str, Any],
        variant: Variant,
        ledger: Server | None = None,
    ) -> Stand:
        """Start it under the policy *content*. Raises: RuntimeError."""
        policy = self.path("policy.yaml")
        policy.write_text(yaml.safe_dump(dict(content)))
        ledger = ledger or self.ledger()
        url = "memory:" if variant.limits == "memory" else ledger.url
        sockets = [self.path("sock") for _ in range(variant.workers)]
        pids = []
        for socket in sockets:
            command = self.serve_command(policy, socket, url, variant)
            pids.append(spawn(command, self.path("log"), self.stack))
        for child in pids:
            child.wait_for('"serving"')
        envoy = self.envoy(self._rendered(policy, sockets))
        roots = {
            "envoy": [envoy.pid],
            "processor": [child.pid for child in pids],
            "ledger": [ledger.pid],
        }
        return Stand(variant, envoy.port, roots, ledger, envoy)

    def serve_command(
        self, policy: Path, socket: Path, url: str, variant: Variant
    ) -> list[str]:
        """Return the command that starts a processor of *variant*."""
        options = ["--policy", str(policy), "--socket", str(socket), "--ledger", url]
        options += ["--ledger-timeout-ms", LEDGER_TIMEOUT_MS, "--admin", "127.0.0.1:0"]
        if self.build.transport_option:
            options += [self.build.transport_option, variant.transport]
        return python("tokenweir", "serve", *options)

    def _rendered(self, policy: Path, sockets: Sequence[Path]) -> dict[str, object]:
        """Return Envoy's configuration, as the product renders it."""
        settings = EnvoySettings(
            listen_port=0,
            processor_sockets=tuple(map(str, sockets)),
            admission_timeout_ms=ENVOY_TIMEOUT_MS,
            response_timeout_ms=ENVOY_TIMEOUT_MS,
        )
        return render(load_policy(policy, {}), settings)

    def _litellm(self, variant: Variant) -> Stand:
        assert self.litellm is not None, "a variant that is chosen has what it needs"
        redis_port = free_port()  # LiteLLM is told to want a host and a port
        ledger = self.ledger("--port", str(redis_port), "--bind", "127.0.0.1")
        port, child = litellm_proxy.start(self, self.litellm, redis_port)
        roots = {"proxy": [child.pid], "ledger": [ledger.pid]}
        return Stand(variant, port, roots, ledger)


def serving(child: Child) -> dict[str, Any]:
    """Return what a processor has logged when it began to serve."""
    line: dict[str, Any] = json.loads(child.wait_for('"serving"'))
    return line
