"""B15: batches are not metered. That is said, and they are refused unless allowed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI
from tests.cases.connection import Answer
from tests.cases.refusals import expect
from tests.cases.scene import Scene
from tests.pod import Pod
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PATHS = ["POST /v1/batches", "GET /v1/batches/*"]
QUOTAS: list[dict[str, Any]] = [
    {"requests_per_minute": 1, "capacity": 100},
    {"tokens_per_minute": 1, "capacity": 1_000},
    {"budget_tokens": 1_000, "per": "month"},
]
CREATE = json.dumps({"input_file_id": "f", "endpoint": "/v1/chat/completions"}).encode()
FINISHED = json.dumps(
    {
        "id": "batch_1",
        "object": "batch",
        "status": "completed",
        "usage": {
            "input_tokens": 31_493_594,
            "input_tokens_details": {"cached_tokens": 24_045_184},
            "output_tokens": 19_786_241,
            "total_tokens": 51_279_835,
        },
    }
).encode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod that lets batches pass, as its policy says."""

    def adapt(content: dict[str, Any]) -> None:
        content["providers"]["openai"]["unknown_paths"] = PATHS

    async with Scene.open(quotas=QUOTAS, adapt=adapt) as opened:
        yield opened


async def poll(scene: Scene) -> Answer:
    """Ask how the batch is."""
    answer = await scene.call(method="GET", path="/v1/batches/batch_1")
    await scene.pod.settled()
    return answer


async def test_b15_batches_are_refused_by_default(scene: Scene) -> None:
    """
    Who is not told to let them pass lets nobody spend unseen: a 403 that says so.

    BerriAI/litellm#38341
    """
    await scene.clear()
    content = {
        "openai": {
            "base_url": f"http://127.0.0.1:{scene.upstream.port}",
            "dialect": "openai",
            "credential": "env:OPENAI_API_KEY",
        }
    }
    models = {"gpt-4o": {"provider": "openai"}}
    async with scene.another_pod(providers=content, models=models) as pod:
        other = Scene(pod, scene.upstream)
        created = await other.call(CREATE, path="/v1/batches")
        polled = await other.call(method="GET", path="/v1/batches/batch_1")
        await settled(pod)

    for answer in (created, polled):
        error = expect(answer, OPENAI, 403, "path_not_metered")
        assert "/v1/batches" in error["message"]
    assert scene.upstream.requests == []


async def settled(pod: Pod) -> None:
    """Wait for nothing to be held."""
    await pod.settled()


async def test_b15_polls_book_nothing(scene: Scene) -> None:
    """
    Where they are let pass, creating one and asking three times for a finished one cost
    four requests, and none of the tokens that its answer tells: not once, nor thrice.

    BerriAI/litellm#38341, anchpop/tysm#55
    """
    await scene.clear()
    scene.upstream.play(reply(FINISHED))
    created = await scene.call(CREATE, path="/v1/batches")
    polled = [await poll(scene) for _ in range(3)]

    assert [created.status, *(answer.status for answer in polled)] == [200] * 4
    assert {answer.body for answer in polled} == {FINISHED}
    await scene.ledger_shows(*[(0, 0)] * 4)
    records = await scene.pod.ledger.records()
    assert {record["cost_nanousd"] for record in records} == {"0"}
    state = await scene.pod.ledger.snapshot()
    assert set(state.spendings) == set()
    taken = {
        name.split("|")[0]: round(bucket.used) for name, bucket in state.buckets.items()
    }
    assert taken == {"acme.requests_per_minute": 4}
