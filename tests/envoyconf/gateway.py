"""
Envoy as we configure it, between a scripted provider and a scripted processor.

    async with gateway() as gate:
        gate.upstream.play(reply(b"{}"))
        answer = await gate.ask(request(body=b"{}"))

The provider "up" is the scripted one, "dead" refuses connections, "lost" has a name
that does not resolve. The processor admits everything to "up" unless a test says
otherwise.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.envoy_process import EnvoyProcess
from tests.envoyconf.client import App, Reply, ask
from tests.envoyconf.processor import Processor
from tests.scripted_upstream import ScriptedUpstream
from tokenweir.core.policy import Policy, Provider, TimeoutClass
from tokenweir.envoyconf.bootstrap import render
from tokenweir.envoyconf.settings import EnvoySettings

TIMEOUTS = {
    "default": TimeoutClass("default"),
    "short": TimeoutClass("short", total_ms=300),
    "nervous": TimeoutClass("nervous", idle_ms=300),
}


def policy_of(*providers: Provider, **changes: Any) -> Policy:
    """Return a policy that has *providers* and no models, tenants or keys."""
    by_name = {provider.name: provider for provider in providers}
    policy = Policy("0" * 12, by_name, {}, (), {}, {}, timeout_classes=TIMEOUTS)
    return replace(policy, **changes)


def provider(name: str, port: int, host: str = "127.0.0.1", **changes: Any) -> Provider:
    """Return a provider that speaks HTTP."""
    return replace(Provider(name, "openai", "http", host, port), **changes)


@dataclass
class Gateway:
    """Everything that is running."""

    envoy: EnvoyProcess
    upstream: ScriptedUpstream
    processor: Processor
    port: int

    async def ask(self, data: bytes) -> Reply:
        """Send one request and return the response."""
        return await ask(self.port, data)

    def reset(self) -> None:
        """Forget what happened, and every script."""
        self.upstream.reset()
        self.processor.reset()

    async def connect(self) -> App:
        """Return a connection to Envoy."""
        return await App.connect(self.port)


@dataclass
class Setup:
    """
    What a test wants otherwise.

    Attributes:
        policy: Members of the policy.
        settings: Members of the settings.
        up: Members of the provider "up".
        upstream: Plays the provider; it is entered with the gateway.
        dead_workers: Sockets of workers that nobody listens on.
        arguments: More of Envoy's command line.
        adapt: Changes Envoy's configuration, as nobody should.
    """

    policy: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    up: dict[str, Any] = field(default_factory=dict)
    upstream: ScriptedUpstream = field(default_factory=ScriptedUpstream)
    dead_workers: int = 0
    arguments: Sequence[str] = ()
    adapt: Callable[[dict[str, Any]], None] = lambda _: None


@asynccontextmanager
async def gateway(setup: Setup | None = None) -> AsyncIterator[Gateway]:
    """Start all of it, and end all of it."""
    setup = setup or Setup()
    folder = Path(tempfile.mkdtemp(prefix="tw-gate-"))
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        upstream = await stack.enter_async_context(setup.upstream)
        socket = folder / "processor"
        processor = await stack.enter_async_context(Processor(socket))
        providers = (
            provider("up", **{"port": upstream.port} | setup.up),
            provider("dead", 1),
            provider("lost", 80, "nowhere.invalid"),
        )
        processor.clusters = {each.name: each.cluster for each in providers}
        dead = [str(folder / f"dead-{i}") for i in range(setup.dead_workers)]
        settings = EnvoySettings(
            listen_port=0, processor_sockets=(*dead, str(socket)), **setup.settings
        )
        bootstrap = render(policy_of(*providers, **setup.policy), settings)
        setup.adapt(bootstrap)
        # In a thread: health checks ask the processor, which lives in this loop.
        envoy = await asyncio.to_thread(EnvoyProcess.start, bootstrap, setup.arguments)
        stack.enter_context(envoy)
        yield Gateway(envoy, upstream, processor, envoy.port)
