"""The ledger goes away under load, and comes back."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from functools import partial
from typing import Any

import httpx
import pytest

from tests.pod import KEY, OTHER_KEY, Pod, policy, sha256, until
from tests.scripted_upstream import ScriptedUpstream, reply

pytestmark = pytest.mark.e2e

OUTAGE_SECONDS = 20.0
DEADLINE_SECONDS = 2.5
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


def two_minds(port: int) -> dict[str, Any]:
    """Return a policy: acme is refused while the ledger is silent, globex is not."""
    content = policy(port, quotas=[{"tokens_per_minute": 6_000_000}])
    content["tenants"]["globex"] = {
        "keys": [{"id": "g", "sha256": sha256(OTHER_KEY)}],
        "quotas": [{"tokens_per_minute": 6_000_000, "on_ledger_failure": "open"}],
    }
    return content


class Load:
    """
    Calls without end, one after the other, and counts what comes.

    Attributes:
        statuses: How often each came.
        waits: How many seconds each took.
    """

    def __init__(self, pod: Pod, key: str) -> None:
        self.statuses: Counter[int] = Counter()
        self.waits: list[float] = []
        self._pod = pod
        self._headers = {"authorization": f"Bearer {key}"}

    async def run(self, over: asyncio.Event) -> None:
        """Call until *over*."""
        async with httpx.AsyncClient(timeout=30) as client:
            while not over.is_set():
                began = time.monotonic()
                answer = await client.post(
                    f"{self._pod.url}/chat/completions",
                    json=REQUEST,
                    headers=self._headers,
                )
                self.waits.append(time.monotonic() - began)
                self.statuses[answer.status_code] += 1
                await asyncio.sleep(0.05)


async def ready(pod: Pod) -> dict[str, Any]:
    """Return what a processor tells of its readiness."""
    text = await asyncio.to_thread(pod.processors[0].admin, "/readyz")
    told: dict[str, Any] = json.loads(text)
    return told


def in_time(loads: list[Load]) -> None:
    """Demand that each call was answered in time; one may be late by the machine."""
    for load in loads:
        *usual, slowest = sorted(load.waits)
        assert usual[-1] < DEADLINE_SECONDS
        assert slowest < 2 * DEADLINE_SECONDS


async def hears_of_ledger(pod: Pod) -> bool:
    """Tell if the ledger is well, as far as the processor knows."""
    return bool((await ready(pod))["checks"]["ledger"] == "ok")


async def all_are_told(pod: Pod, tenant: str, count: int) -> bool:
    """Tell if the ledger has *count* exchanges: some were never reserved."""
    return await pod.ledger.total(tenant) == (9 * count, 3 * count)


async def test_twenty_seconds_without_a_ledger() -> None:
    """
    Every client is answered within its deadline, as its tenant's policy says, and
    after the return the ledger holds what the provider reported, once.
    """
    async with ScriptedUpstream() as upstream:
        upstream.play(reply(json.dumps(ANSWER).encode()))
        async with Pod.start(two_minds(upstream.port)) as pod:
            over = asyncio.Event()
            loads = {
                key: [Load(pod, key) for _ in range(4)] for key in (KEY, OTHER_KEY)
            }
            running = [
                asyncio.create_task(load.run(over))
                for each in loads.values()
                for load in each
            ]
            await asyncio.sleep(2)
            pod.server.pause()
            await asyncio.sleep(OUTAGE_SECONDS)
            silent = await ready(pod)
            pod.server.resume()
            first = loads[KEY][0]
            served = first.statuses[200]
            await until(lambda: first.statuses[200] > served)
            over.set()
            await asyncio.gather(*running)
            await pod.settled()
            await until(partial(hears_of_ledger, pod))

            # One of the tenants is served without it: then a pod stays in service.
            assert silent["ready"] is True
            assert silent["checks"]["ledger"].startswith("no answer for ")
            in_time([*loads[KEY], *loads[OTHER_KEY]])
            closed = sum((load.statuses for load in loads[KEY]), Counter())
            opened = sum((load.statuses for load in loads[OTHER_KEY]), Counter())
            assert set(closed) == {200, 503}
            assert set(opened) == {200}
            for tenant, count in (("acme", closed[200]), ("globex", opened[200])):
                await until(partial(all_are_told, pod, tenant, count))
                sums = await pod.ledger.rolled_up(tenant)
                assert sums["input_tokens"] == 9 * count
                assert sums["output_tokens"] == 3 * count
