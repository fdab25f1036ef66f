"""
A pod and the provider behind it, for tests that share one.

    @pytest_asyncio.fixture(scope="module", loop_scope="module")
    async def stage() -> AsyncIterator[Scene]:
        async with Scene.open(quotas=[{"tokens_per_minute": 100}]) as scene:
            yield scene

`Scene.clear` makes a fresh start of it, and `Scene.ledger_shows` is how a test ends:
what is settled is what the provider said, nothing is held, no slot is taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import yaml
from redis.asyncio import Redis

from tests.cases.connection import Answer, Headers, call, request
from tests.pod import KEY, Pod, policy, until
from tests.scripted_upstream import ScriptedUpstream


@dataclass(frozen=True)
class Scene:
    """
    What is on stage.

    Attributes:
        pod: Envoy, processors and a ledger.
        upstream: The provider of all models.
    """

    pod: Pod
    upstream: ScriptedUpstream

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, *, options: Mapping[str, Any] | None = None, **changes: Any
    ) -> AsyncIterator[Self]:
        """
        Start it: *options* are of `Pod.start`, *changes* of `policy`.

        ``quotas`` are tenant acme's, ``shared_quotas`` those of all tenants.
        """
        shared = changes.pop("shared_quotas", [])
        async with ScriptedUpstream() as upstream:
            content = policy(upstream.port, **changes) | {"quotas": shared}
            async with Pod.start(content, **(options or {})) as pod:
                yield cls(pod, upstream)

    @contextlib.asynccontextmanager
    async def another_pod(self) -> AsyncIterator[Pod]:
        """Start a second pod under the same policy, on the same ledger."""
        content = yaml.safe_load(self.pod.policy_path.read_text())
        async with Pod.start(content, server=self.pod.server) as pod:
            yield pod

    async def clear(self) -> Self:
        """Forget everything: an empty ledger, no script, no request seen."""
        await self.redis("FLUSHALL")
        self.upstream.reset()
        return self

    async def call(
        self,
        body: bytes = b"",
        *,
        key: str | None = KEY,
        headers: Headers = (),
        **more: Any,
    ) -> Answer:
        """Send one request (see `tests.app.request`); return the whole answer."""
        data = request(body, key=key, headers=headers, **more)
        return await call(self.pod.port, data)

    async def redis(self, *command: str | int) -> Any:
        """Run one command in the ledger's server, as a stranger."""
        async with Redis(unix_socket_path=str(self.pod.server.path)) as client:
            execute: Callable[..., Awaitable[Any]] = client.execute_command
            return await execute(*command)

    async def ledger_shows(
        self, *usages: tuple[int, int], tenant: str = "acme"
    ) -> None:
        """
        Wait until nothing is held and *tenant* was charged *usages*, in any order.

        Each is the input and the output tokens of one exchange.
        """
        await self.pod.settled()
        await until(lambda: self._charged(len(usages), tenant))
        assert await self.charges(tenant) == sorted(usages)

    async def charges(self, tenant: str = "acme") -> list[tuple[int, int]]:
        """Return what was settled, each the input and output tokens, in order of size."""
        usages = await self.pod.ledger.usages(tenant)
        return sorted(
            (usage.total_input_tokens, usage.total_output_tokens) for usage in usages
        )

    async def _charged(self, count: int, tenant: str) -> bool:
        return len(await self.pod.ledger.records(tenant)) >= count
