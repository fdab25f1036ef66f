"""Leases through a pod: what apps see is what they saw, and the ledger adds up."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.cases.scene import Scene
from tests.pod import KEY, until
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ANSWER = {
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
}
REQUEST = {
    "model": "gpt-4o",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "Hello."}],
}
LEASED = {"leases": True, "on_ledger_failure": "bounded"}
QUOTAS: list[dict[str, Any]] = [
    {"tokens_per_minute": 10_000_000, **LEASED},
    {"requests_per_minute": 1_000_000, **LEASED},
    {"concurrency": 10_000, **LEASED},
]
CALLS, AT_ONCE = 200, 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Scene]:
    """Two processors whose tenant's quotas are leased."""
    async with Scene.open(quotas=QUOTAS, options={"workers": 2}) as scene:
        scene.upstream.play(reply(json.dumps(ANSWER).encode()))
        yield scene


async def burst(scene: Scene, calls: int = CALLS) -> Counter[int]:
    """Call so often, some at once; return how often each status came."""
    headers = {"authorization": f"Bearer {KEY}"}
    statuses: Counter[int] = Counter()
    left = iter(range(calls))
    async with httpx.AsyncClient(timeout=60, headers=headers) as client:

        async def work() -> None:
            for _ in left:
                answer = await client.post(
                    f"{scene.pod.url}/chat/completions", json=REQUEST
                )
                statuses[answer.status_code] += 1

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return statuses


def metric(scene: Scene, name: str) -> float:
    """Return a sum over both processors."""
    return sum(each.metric(name) for each in scene.pod.processors)


async def adds_up(scene: Scene, count: int) -> bool:
    """Tell if the ledger knows of *count* exchanges, and nothing is held."""
    is_settled = await scene.pod.ledger.total("acme") == (9 * count, 3 * count)
    return is_settled and await scene.pod.ledger.nothing_held()


async def test_a_busy_tenant_is_admitted_out_of_slices(stage: Scene) -> None:
    """Each call is answered and charged once, and a while later nothing is held."""
    by_lease = 'tokenweir_lease_admissions_total{by="lease"}'
    assert await burst(stage) == {200: CALLS}
    await until(lambda: adds_up(stage, CALLS))

    assert metric(stage, by_lease) > CALLS / 4
    assert metric(stage, 'tokenweir_lease_slices_total{outcome="granted"}') >= 1
    assert metric(stage, "tokenweir_leased") == 0


async def test_a_ledger_that_pauses_is_not_needed_within_a_lease(stage: Scene) -> None:
    """What is bounded is admitted out of a slice, and settled when the ledger is back."""
    before = (await stage.pod.ledger.total("acme"))[0] // 9
    served: Counter[int] = Counter()
    while not served[200]:
        before += (await burst(stage, AT_ONCE * 4))[200]
        stage.pod.server.pause()
        try:
            served = await burst(stage, 2)
        finally:
            stage.pod.server.resume()
        before += served[200]
        assert set(served) <= {200, 503}

    await until(lambda: adds_up(stage, before))


async def test_a_processor_that_leaves_gives_all_back(stage: Scene) -> None:
    """At once, although its slices are in use: nothing has to expire."""
    before = (await stage.pod.ledger.total("acme"))[0] // 9
    statuses = await burst(stage)
    for processor in stage.pod.processors:
        processor.terminate()
    for processor in stage.pod.processors:
        await asyncio.to_thread(processor.process.wait, 60)

    assert await adds_up(stage, before + statuses[200])
    assert statuses == {200: CALLS}
    assert all(processor.count("stopped") == 1 for processor in stage.pod.processors)
