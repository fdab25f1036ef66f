"""L07: a limit on concurrency is one, however many processors and pods there are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD
from tests.cases.connection import Answer, call, request
from tests.cases.scene import Scene
from tests.pod import Pod, until
from tests.scripted_upstream import Hold, Pause, ReceivedRequest, Step, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

LIMIT = 3
CALLS = 12
THINKING_SECONDS = 0.1


class Busy:
    """
    A provider that takes its time.

    Attributes:
        most: Requests that it ever had at once.
    """

    def __init__(self, scene: Scene) -> None:
        self.most = 0
        self._now = 0
        self._scene = scene
        scene.upstream.choose(self._script)

    def _script(self, _: ReceivedRequest) -> Sequence[Step]:
        self._now += 1
        self.most = max(self.most, self._now)
        # Counted as gone before its answer is out: what comes next may have its slot.
        asyncio.get_running_loop().call_later(THINKING_SECONDS, self._leave)
        return [Pause(THINKING_SECONDS * 1.1), reply(OPENAI.reply("Hi.", TOLD))]

    def _leave(self) -> None:
        self._now -= 1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ports() -> AsyncIterator[tuple[Scene, list[Pod]]]:
    """Give the module two pods of two processors each, on one ledger."""
    quotas = [{"concurrency": LIMIT}]
    async with (
        Scene.open(options={"workers": 2}, quotas=quotas) as scene,
        scene.another_pod() as second,
    ):
        yield scene, [scene.pod, second]


async def test_l07_the_limit_is_not_a_workers_own(
    ports: tuple[Scene, list[Pod]],
) -> None:
    """
    Of twelve slow calls through three processors, three at once reach the provider.

    BerriAI/litellm#16011: N replicas allowed N times the limit.
    """
    scene, pods = ports
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", TOLD)))
    body = request(OPENAI.request(stream=False))

    calls = [
        asyncio.create_task(call(pods[number % 2].port, body))
        for number in range(CALLS)
    ]
    await scene.upstream.wait_for_requests(LIMIT)
    await until(lambda: sum(each.done() for each in calls) == CALLS - LIMIT)
    gate.set()
    answers = await asyncio.gather(*calls)

    statuses = sorted(answer.status for answer in answers)
    assert statuses == [200] * LIMIT + [429] * (CALLS - LIMIT)
    assert len(scene.upstream.requests) == LIMIT
    await scene.ledger_shows(*[(TOLD.input, TOLD.output)] * LIMIT)


async def test_l07_who_waits_as_told_gets_a_slot(
    ports: tuple[Scene, list[Pod]],
) -> None:
    """
    Callers that come back as they are told are all served, three at a time.

    BerriAI/litellm#16011
    """
    scene, pods = ports
    await scene.clear()
    provider = Busy(scene)
    body = request(OPENAI.request(stream=True))

    async def served(port: int) -> Answer:
        while True:
            answer = await call(port, body)
            if answer.status != 429:
                return answer
            assert answer.detail["limit"] == "concurrency"
            assert answer.detail["capacity"] == LIMIT
            assert answer.detail["reserved"] <= LIMIT
            await asyncio.sleep(answer.detail["retry_after_ms"] / 1_000)

    answers = await asyncio.gather(
        *(served(pods[number % 2].port) for number in range(CALLS))
    )

    assert {answer.status for answer in answers} == {200}
    assert 0 < provider.most <= LIMIT
    await scene.ledger_shows(*[(TOLD.input, TOLD.output)] * CALLS)
