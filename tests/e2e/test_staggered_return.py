"""Refused callers come back one after the other, if the quota says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI
from tests.cases.scene import Scene, key_of, tenants
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# One request at once, and one more each 30 s.
SLOW = {"requests_per_minute": 2, "capacity": 1}
STEP_MS = 30_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod: one tenant's quota staggers, the other's does not."""
    adapt = tenants(queue=[SLOW | {"stagger": True}], crowd=[SLOW])
    async with Scene.open(adapt=adapt) as opened:
        yield opened


async def offsets(scene: Scene, tenant: str) -> list[float]:
    """Have four callers refused; return what each is told beyond its wait, in steps."""
    told = []
    scene.upstream.play(reply(OPENAI.reply("Once.")))
    for _ in range(5):
        answer = await scene.call(OPENAI.request(stream=False), key=key_of(tenant))
        if answer.status == 429:
            wait_ms = answer.detail["retry_after_ms"]
            told_ms = int(answer.header("retry-after-ms") or 0)
            assert 0 < wait_ms <= STEP_MS
            assert int(answer.header("retry-after") or 0) * 1_000 >= told_ms
            told.append(round((told_ms - wait_ms) / STEP_MS, 2))
    return told


async def test_each_refused_caller_is_told_a_moment_of_its_own(scene: Scene) -> None:
    """
    A step apart, for a minute, and then from the beginning; the body's wait is true.
    """
    assert await offsets(scene, "queue") == [0, 1, 2, 0]


async def test_others_are_told_the_true_wait(scene: Scene) -> None:
    """Without the word in the policy headers and body say the same."""
    assert await offsets(scene, "crowd") == [0, 0, 0, 0]
