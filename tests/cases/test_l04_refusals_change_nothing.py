"""L04: who is refused has taken nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, Told
from tests.cases.connection import MESSAGES, Answer
from tests.cases.scene import Scene
from tests.pod import OTHER_KEY
from tests.scripted_upstream import Hold, reply
from tokenweir.ledger.store import Snapshot

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# Of the usual request: what is asked for is that and the cap.
INPUT = 12
QUOTAS = [
    {"tokens_per_minute": 1, "capacity": 100},
    {"requests_per_minute": 1, "capacity": 60},
    {"output_tokens_per_minute": 1, "capacity": 95, "mode": "shadow"},
    {"concurrency": 10},
]
SHARED = {
    "output_tokens_per_minute": 1,
    "capacity": 60,
    "partition": ["provider"],
    "models": ["gpt-4o-mini"],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod with limits of each kind."""
    async with Scene.open(quotas=QUOTAS, shared_quotas=[SHARED]) as opened:
        yield opened


async def levels(scene: Scene) -> dict[str, Snapshot]:
    """Return everything that is in the ledger, by tag."""
    epochs = await scene.redis("KEYS", "{tw:*}:e")
    tags = [key.decode().removesuffix("}:e")[1:] for key in epochs]
    found = {tag: await scene.pod.ledger.store.snapshot(tag) for tag in tags}
    # Tombstones of what was cancelled are no change of a level.
    return {
        tag: Snapshot(buckets=each.buckets, slots=each.slots, records=each.records)
        for tag, each in found.items()
    }


def asking(cap: int, **members: Any) -> bytes:
    """Return a request with an output cap of *cap* tokens."""
    return OPENAI.request(stream=False, max_tokens=cap, **members)


class InUse:
    """A call that holds some tokens until it is let go."""

    def __init__(self, scene: Scene, body: bytes) -> None:
        self._scene = scene
        self._gate = asyncio.Event()
        script = reply(OPENAI.reply("Hi.", Told(INPUT, 9)))
        scene.upstream.play_next(Hold(self._gate), script)
        self._call = asyncio.create_task(scene.call(body))

    async def begin(self) -> None:
        """Wait until the provider has the request."""
        await self._scene.upstream.wait_for_requests(1)

    async def end(self) -> Answer:
        """Let the provider answer."""
        self._gate.set()
        return await self._call


async def test_l04_a_refusal_changes_nothing(scene: Scene) -> None:
    """
    Twenty refusals of 90 tokens while 50 are in use leave the level as it was.

    BerriAI/litellm#27001: one of 40 tokens is then still admitted.
    """
    await scene.clear()
    in_use = InUse(scene, asking(50 - INPUT))
    await in_use.begin()
    before = await levels(scene)

    refused = [await scene.call(asking(90 - INPUT)) for _ in range(20)]

    assert {answer.status for answer in refused} == {429}
    assert await levels(scene) == before
    assert all(answer.detail["reserved"] == 50 for answer in refused)
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(INPUT, 3))))
    assert (await scene.call(asking(40 - INPUT))).status == 200
    assert (await in_use.end()).status == 200
    await scene.ledger_shows((INPUT, 9), (INPUT, 3))
    assert len(scene.upstream.requests) == 2


async def test_l04_refusals_at_once_change_nothing(scene: Scene) -> None:
    """Forty refusals in parallel change nothing either. BerriAI/litellm#27001"""
    await scene.clear()
    in_use = InUse(scene, asking(50 - INPUT))
    await in_use.begin()
    before = await levels(scene)

    refused = await asyncio.gather(*(scene.call(asking(90 - INPUT)) for _ in range(40)))

    assert [answer.status for answer in refused] == [429] * 40
    assert await levels(scene) == before
    await in_use.end()
    await scene.ledger_shows((INPUT, 9))


async def test_l04_one_limit_refuses_and_the_others_keep_theirs(scene: Scene) -> None:
    """
    If tokens don't fit, no request and no slot is taken either. BerriAI/litellm#27001
    """
    await scene.clear()
    in_use = InUse(scene, asking(50 - INPUT))
    await in_use.begin()

    for _ in range(70):  # more than there are requests a minute
        assert (await scene.call(asking(90 - INPUT))).detail["limit"] == (
            "tokens_per_minute"
        )

    last = await scene.call(asking(90 - INPUT))
    assert [each["limit"] for each in last.detail["failures"]] == ["tokens_per_minute"]
    await in_use.end()
    await scene.ledger_shows((INPUT, 9))


async def test_l04_a_refusal_under_a_shared_limit_gives_the_tenants_own_back(
    scene: Scene,
) -> None:
    """
    What was taken under the tenant's tag is back when a later tag refuses.

    BerriAI/litellm#27001
    """
    await scene.clear()
    script = reply(OPENAI.reply("Hi.", Told(5, 50)))
    scene.upstream.play(script)
    asked = asking(55, model="gpt-4o-mini")
    assert (await scene.call(asked, key=OTHER_KEY)).status == 200
    await scene.ledger_shows((5, 50), tenant="globex")
    assert (await scene.call(asking(1))).status == 200  # acme's limits exist by now
    await scene.pod.settled()
    before = await levels(scene)

    refused = [await scene.call(asking(30, model="gpt-4o-mini")) for _ in range(20)]

    await scene.pod.settled()
    assert {answer.status for answer in refused} == {429}
    assert {answer.detail["partition"] for answer in refused} == {"provider=openai"}
    after = await levels(scene)
    assert {tag: each.records for tag, each in after.items()} == {
        tag: each.records for tag, each in before.items()
    }
    assert {tag: standing(each) for tag, each in after.items()} == {
        tag: standing(each) for tag, each in before.items()
    }


def standing(tag: Snapshot) -> dict[str, tuple[int, int]]:
    """Return what each bucket holds, less what it earned with time."""
    return {
        name: (bucket.level_units - bucket.as_of_ms * bucket.rate, bucket.reserved)
        for name, bucket in tag.buckets.items()
        if bucket.level_units < bucket.ceiling_units
    }


TURNED_AWAY: dict[str, tuple[int, dict[str, Any]]] = {
    "never fits": (400, {"body": asking(5_000)}),
    "unknown key": (401, {"body": asking(10), "key": "sk-nobody"}),
    "no key": (401, {"body": asking(10), "key": None}),
    "unknown model": (403, {"body": asking(10, model="gpt-99")}),
    "other API's model": (400, {"body": asking(10, model=ANTHROPIC.model)}),
    "broken body": (400, {"body": b'{"model":'}),
    "no body": (400, {"body": b""}),
    "cap of no sense": (400, {"body": asking(-2)}),
    "unknown path": (403, {"body": asking(10), "path": "/v1/vector_stores"}),
    "encoded": (415, {"body": b"\x1f\x8b", "headers": [("content-encoding", "x")]}),
    "broken": (400, {"body": b"\x1f\x8b", "headers": [("content-encoding", "gzip")]}),
    "Anthropic's, never fits": (
        400,
        {"body": ANTHROPIC.request(max_tokens=5_000), "path": MESSAGES},
    ),
}


@pytest.mark.parametrize("name", TURNED_AWAY)
async def test_l04_whoever_is_turned_away_has_taken_nothing(
    scene: Scene, name: str
) -> None:
    """
    Whatever the reason, who does not reach the provider changes no level.

    BerriAI/litellm#27001
    """
    await scene.clear()
    status, asked = TURNED_AWAY[name]
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(INPUT, 3))))
    assert (await scene.call(asking(9))).status == 200
    await scene.ledger_shows((INPUT, 3))
    before = await levels(scene)

    answer = await scene.call(**asked)

    assert (answer.status, answer.refusal is not None) == (status, True)
    assert await levels(scene) == before
    assert len(scene.upstream.requests) == 1
