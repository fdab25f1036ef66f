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

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from redis.asyncio import Redis

from tests.cases.connection import Answer, Connection, Headers, call, request
from tests.pod import KEY, Pod, policy, sha256, until
from tests.relay import Relay, relay_to
from tests.scripted_upstream import ScriptedUpstream, head
from tests.servers import Server, start_valkey

Adapt = Callable[[dict[str, Any]], None]

# The head of a streamed answer.
STREAM_HEAD = head(
    headers=(("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
)


def key_of(tenant: str) -> str:
    """Return the key of a tenant that `tenants` has made."""
    return f"sk-tw-{tenant}"


def tenants(**quotas: Sequence[Mapping[str, Any]]) -> Adapt:
    """Return what adds tenants to a policy, each with its *quotas*; see `key_of`."""

    def adapt(content: dict[str, Any]) -> None:
        for name, limits in quotas.items():
            key = {"id": name, "sha256": sha256(key_of(name))}
            content["tenants"][name] = {"keys": [key], "quotas": list(limits)}

    return adapt


@dataclass(frozen=True)
class Scene:
    """
    What is on stage.

    Attributes:
        pod: Envoy, processors and a ledger.
        upstream: The provider of all models.
        relay: Between processors and ledger; None: there is none.
    """

    pod: Pod
    upstream: ScriptedUpstream
    relay: Relay | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        *,
        options: Mapping[str, Any] | None = None,
        adapt: Adapt = lambda _: None,
        **changes: Any,
    ) -> AsyncIterator[Self]:
        """
        Start it.

        Args:
            options: Of `Pod.start`.
            adapt: Changes what the policy says.
            changes: Of `policy`: ``quotas`` are tenant acme's, ``shared_quotas``
                those of all tenants.
        """
        shared = changes.pop("shared_quotas", [])
        async with ScriptedUpstream() as upstream:
            content = policy(upstream.port, **changes) | {"quotas": shared}
            adapt(content)
            async with Pod.start(content, **(options or {})) as pod:
                yield cls(pod, upstream)

    @classmethod
    @contextlib.asynccontextmanager
    async def relayed(
        cls, server: Server | None = None, **changes: Any
    ) -> AsyncIterator[Self]:
        """Start it with a relay between processors and ledger. See `open`."""
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if server is None:
                server = await asyncio.to_thread(start_valkey, folder)
                stack.callback(server.stop)
            async with relay_to(server.path, folder / "relay.sock") as relay:
                options: dict[str, Any] = {"server": server, "ledger_url": relay.url}
                # The product's own deadline, as it is what relays are for.
                options |= {"arguments": ["--ledger-timeout-ms", "200"]}
                options |= changes.pop("options", {})
                async with cls.open(options=options, **changes) as scene:
                    yield cls(scene.pod, scene.upstream, relay)

    @contextlib.asynccontextmanager
    async def another_pod(self, **changes: Any) -> AsyncIterator[Pod]:
        """Start a second pod on the same ledger, under the same policy but *changes*."""
        content = yaml.safe_load(self.pod.policy_path.read_text()) | changes
        async with Pod.start(content, server=self.pod.server) as pod:
            yield pod

    async def clear(self) -> Self:
        """Forget everything: an empty ledger, no script, no request seen."""
        # What is still open would come back by an extend, and what is being settled
        # would be charged after all.
        await until(self._idle)
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

    async def until_recorded(self, data: bytes) -> None:
        """Send the request *data*, and read whatever comes until it was recorded."""
        async with Connection.open(self.pod.port) as app:
            await app.send(data)
            reading = asyncio.create_task(app.everything())
            await until(self._is_recorded)
        await asyncio.gather(reading, return_exceptions=True)
        await self.pod.settled()

    async def _is_recorded(self) -> bool:
        return bool(await self.pod.ledger.records())

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
        await until(lambda: self.pod.ledger.nothing_held("acme", "globex", tenant))
        await until(lambda: self._charged(len(usages), tenant))
        assert await self.charges(tenant) == sorted(usages)

    async def charges(self, tenant: str = "acme") -> list[tuple[int, int]]:
        """Return what was settled, each the input and output tokens, in order of size."""
        usages = await self.pod.ledger.usages(tenant)
        return sorted(
            (usage.total_input_tokens, usage.total_output_tokens) for usage in usages
        )

    def _idle(self) -> bool:
        """Tell if no processor has an exchange that is not settled yet."""
        running = [each for each in self.pod.processors if each.process.poll() is None]
        return not any(each.metric("tokenweir_holds_outstanding") for each in running)

    async def _charged(self, count: int, tenant: str) -> bool:
        return len(await self.pod.ledger.records(tenant)) >= count
