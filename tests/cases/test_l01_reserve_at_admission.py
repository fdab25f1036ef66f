"""L01: a limit holds while answers are still on their way."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, Told
from tests.cases.connection import Answer, call, request
from tests.cases.scene import Scene
from tests.pod import KEY, OTHER_KEY, until
from tests.scripted_upstream import Hold, reply
from tests.servers import start_valkey
from tokenweir.core.holding import State
from tokenweir.core.partition import shared_tag_of

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CAPACITY = 1_000
SHARED_CAPACITY = 800
# A token a minute: what was taken does not come back while a test looks.
QUOTAS = [{"tokens_per_minute": 1, "capacity": CAPACITY}]
SHARED = {
    "output_tokens_per_minute": 1,
    "capacity": SHARED_CAPACITY,
    "partition": ["provider"],
    "models": ["gpt-4o-mini"],
}
SHARED_TAG = shared_tag_of("*.output_tokens_per_minute_by_provider", "provider=openai")
# What the report has them cost: 58 to 175 tokens, whatever was reserved.
COSTS = range(58, 176)


class Crowd:
    """Calls at once, whose answers are held until all have been decided."""

    def __init__(self, scene: Scene, ports: list[int]) -> None:
        self.scene = scene
        self.refused: list[Answer] = []
        self._ports = ports
        self._gate = asyncio.Event()
        self._calls: list[asyncio.Task[None]] = []

    def add(self, cap: int, key: str = KEY, model: str = "gpt-4o") -> None:
        """Call with an output cap, at one port after the other."""
        number = len(self._calls)
        body = OPENAI.request(stream=number % 2 == 1, max_tokens=cap, model=model)
        port = self._ports[number % len(self._ports)]
        self._calls.append(asyncio.create_task(self._call(port, body, key)))

    async def decided(self) -> None:
        """Wait until each call is with the provider, or refused."""
        await until(self._all_decided, seconds=60)

    async def answered(self) -> None:
        """Let the provider answer, and wait for all."""
        self._gate.set()
        await asyncio.gather(*self._calls)

    def costing(self, costs: list[int]) -> None:
        """Have the provider report *costs*, in turn."""
        left = iter(costs * 50)

        def script(_: object) -> list[Hold | bytes]:
            told = Told(8, next(left) - 8)
            return [Hold(self._gate), reply(OPENAI.reply("Hi.", told))]

        self.scene.upstream.choose(script)

    def _all_decided(self) -> bool:
        known = len(self.scene.upstream.requests) + len(self.refused)
        return known == len(self._calls)

    async def _call(self, port: int, body: bytes, key: str) -> None:
        answer = await call(port, request(body, key=key))
        if answer.status == 429:
            self.refused.append(answer)
        else:
            assert answer.status == 200


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=["one processor", "two processors", "two pods"],
)
async def gateway(
    request: pytest.FixtureRequest,
) -> AsyncIterator[tuple[Scene, list[int]]]:
    """Give a scene, and the ports by which it can be reached."""
    async with contextlib.AsyncExitStack() as stack:
        if request.param != "two pods":
            options = {"workers": 1 if request.param == "one processor" else 2}
            scene = await stack.enter_async_context(
                Scene.open(options=options, quotas=QUOTAS, shared_quotas=[SHARED])
            )
            yield scene, [scene.pod.port]
            return
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = await asyncio.to_thread(start_valkey, Path(folder))
        stack.callback(server.stop)
        scene = await stack.enter_async_context(
            Scene.open(
                options={"server": server}, quotas=QUOTAS, shared_quotas=[SHARED]
            )
        )
        second = await stack.enter_async_context(scene.another_pod())
        yield scene, [scene.pod.port, second.port]


@pytest.mark.parametrize("calls", [5, 50])
async def test_l01_reserved_before_it_is_forwarded(
    gateway: tuple[Scene, list[int]], calls: int
) -> None:
    """
    Of calls at once, those are admitted that fit together, and every other is refused.

    BerriAI/litellm#18730, membrane/api-gateway#3210, higress-group/higress#2464
    """
    scene, ports = gateway
    await scene.clear()
    crowd = Crowd(scene, ports)
    costs = list(COSTS)[:: len(COSTS) // calls]
    crowd.costing(costs)
    for number in range(calls):
        crowd.add(cap=200 + 7 * number)
    await crowd.decided()

    state = await scene.pod.ledger.snapshot()
    held = [h for h in state.holdings.values() if h.state is State.HELD]
    reserved = sum(h.amounts.input_tokens + h.amounts.output_tokens for h in held)
    [bucket] = state.buckets.values()
    assert bucket.reserved == reserved <= CAPACITY
    assert len(held) == len(scene.upstream.requests) >= 1
    assert len(crowd.refused) == calls - len(held) > 0
    for answer in crowd.refused:
        assert answer.refusal == "quota_exhausted"
        assert answer.detail["requested"] > CAPACITY - reserved

    await crowd.answered()
    charged = sorted((8, cost - 8) for cost in (costs * 50)[: len(held)])
    await scene.ledger_shows(*charged)


async def test_l01_a_limit_of_a_provider_is_shared_by_tenants(
    gateway: tuple[Scene, list[int]],
) -> None:
    """
    What tenants reserve under a common limit is never more than it holds.

    BerriAI/litellm#18730
    """
    scene, ports = gateway
    await scene.clear()
    crowd = Crowd(scene, ports)
    crowd.costing([100])
    for number in range(20):
        crowd.add(60 + number, OTHER_KEY, "gpt-4o-mini")
    await crowd.decided()

    [bucket] = (await scene.pod.ledger.store.snapshot(SHARED_TAG)).buckets.values()
    assert bucket.reserved <= SHARED_CAPACITY
    for answer in crowd.refused:
        assert answer.detail["requested"] > SHARED_CAPACITY - bucket.reserved
    assert 0 < len(crowd.refused) < 20

    await crowd.answered()
    await scene.ledger_shows(*[(8, 92)] * (20 - len(crowd.refused)), tenant="globex")
    [bucket] = (await scene.pod.ledger.store.snapshot(SHARED_TAG)).buckets.values()
    assert bucket.reserved == 0


async def test_l01_what_cost_more_than_it_reserved_is_owed(
    gateway: tuple[Scene, list[int]],
) -> None:
    """
    Answers that cost more than they reserved leave a debt, which the next call waits for.

    BerriAI/litellm#18730: 663 tokens were used under a limit of 100, and more let in.
    """
    scene, ports = gateway
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(8, 5_000))))
    body = OPENAI.request(stream=False, max_tokens=50)

    first = await call(ports[0], request(body))
    await scene.pod.settled()
    second = await call(ports[-1], request(body))

    assert first.status == 200
    assert second.status == 429
    assert second.detail["used"] == 5_008
    # 4,008 tokens of debt and 58 that are asked for, at one a minute.
    assert second.detail["retry_after_ms"] >= 4_008 * 60_000
    assert second.header("x-should-retry") == "false"
    await scene.ledger_shows((8, 5_000))
