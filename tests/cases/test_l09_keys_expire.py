"""L09: whatever the ledger keeps, it keeps for a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, WORDS, story
from tests.cases.connection import MESSAGES, Connection, request
from tests.cases.scene import STREAM_HEAD, Scene, key_of, tenants
from tests.pod import until
from tests.scripted_upstream import End, chunk, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUOTAS = [
    {"requests_per_minute": 600},
    {"tokens_per_minute": 60_000},
    {"input_tokens_per_minute": 60_000, "partition": ["user"]},
    {"output_tokens_per_minute": 60_000, "partition": ["model"], "mode": "shadow"},
    {"concurrency": 9},
]
SHARED = [{"tokens_per_minute": 600_000, "partition": ["provider"]}]
# The ledger's deadline: patient, as a busy machine is late by itself now and then.
PATIENT = {"arguments": ["--ledger-timeout-ms", "1000"]}
LATE_SECONDS = 1.3  # longer than that
SMALL = [{"tokens_per_minute": 1, "capacity": 30}, {"concurrency": 1}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod with limits of each kind, and a relay."""
    async with Scene.relayed(
        quotas=QUOTAS,
        shared_quotas=SHARED,
        adapt=tenants(small=SMALL),
        retries=0,
        options=PATIENT,
    ) as opened:
        yield opened


async def lifetimes(scene: Scene) -> dict[str, int]:
    """Return the milliseconds that each key has left; -1: it stays for ever."""
    keys = [key.decode() for key in await scene.redis("KEYS", "*")]
    found = {key: await scene.redis("PTTL", key) for key in keys}
    return {key: left for key, left in found.items() if left != -2}  # gone meanwhile


async def traffic_of_every_kind(scene: Scene) -> dict[str, int]:
    """
    Have exchanges end in every way, so that every kind of key is written.

    Return the lifetimes while one of them is still under way.
    """
    upstream = scene.upstream
    upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    await scene.call(OPENAI.request(stream=False, user="ann"))
    upstream.play(*event_stream(story(ANTHROPIC)))
    await scene.call(ANTHROPIC.request(), path=MESSAGES)
    upstream.play(reply(b"{}", "529 Overloaded"))
    await scene.call(OPENAI.request(stream=False))
    await scene.call(method="GET", path="/v1/models")
    for _ in range(3):
        await scene.call(OPENAI.request(stream=False), key=key_of("small"))
    upstream.play(STREAM_HEAD, *map(chunk, story(OPENAI)[: len(WORDS)]), End.STALL)
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(OPENAI.request(max_tokens=500)))
        await app.head()
        await app.piece()
        await asyncio.sleep(1.2)  # the first extend
        return await lifetimes(scene)


async def test_l09_every_key_has_an_end(scene: Scene) -> None:
    """
    After traffic of every kind each key has a time to live, of 400 days at the most.

    BerriAI/litellm#5609, marcosbarbero/spring-cloud-zuul-ratelimit#162
    """
    await scene.clear()
    during = await traffic_of_every_kind(scene)
    await scene.pod.settled()
    after = await lifetimes(scene)

    # Also levels, slots, durations, holds, their index, records, rollups, epochs.
    kinds = {key.partition("}:")[2].partition(":")[0] for key in during | after}
    assert kinds >= {"e", "b", "s", "d", "h", "x", "r", "u", "a"}
    for left in (during | after).values():
        assert 0 < left <= 400 * 86_400_000


@pytest.mark.parametrize("fault", ["dropped replies", "late replies", "paused"])
async def test_l09_after_any_fault_too(scene: Scene, fault: str) -> None:
    """
    Where replies were lost or late in the middle of it, no key stays without an end.

    redis/redis#4548, BerriAI/litellm#5609: INCR applied and EXPIRE lost
    """
    assert scene.relay is not None
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    await scene.call(OPENAI.request(stream=False))
    calls = [
        asyncio.create_task(scene.call(OPENAI.request(stream=False, user=f"u{number}")))
        for number in range(20)
    ]
    if fault == "dropped replies":
        scene.relay.drops_replies = True
    elif fault == "late replies":
        scene.relay.delay_seconds = LATE_SECONDS
    else:
        scene.pod.server.pause()
    await asyncio.sleep(LATE_SECONDS)
    scene.relay.drops_replies, scene.relay.delay_seconds = False, 0.0
    scene.pod.server.resume()

    statuses = {answer.status for answer in await asyncio.gather(*calls)}
    await scene.pod.settled()

    assert statuses <= {200, 429, 503}  # more than the slots, if they come in time
    assert all(left > 0 for left in (await lifetimes(scene)).values())


async def test_l09_a_key_that_lost_its_end_gets_one(scene: Scene) -> None:
    """
    Keys found without a time to live are repaired by the next exchange that uses them.

    BerriAI/litellm#5609: such a key blocked a customer for ever.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body = OPENAI.request(stream=False, user="ann")
    assert (await scene.call(body)).status == 200
    await scene.pod.settled()
    lasting = [key for key in await lifetimes(scene) if ":h:" not in key]
    for key in lasting:
        await scene.redis("PERSIST", key)
    assert (await scene.call(body)).status == 200
    await scene.pod.settled()

    left = await lifetimes(scene)
    assert [key for key in lasting if left.get(key, 0) < 0] == []


async def test_l09_a_tenant_is_not_locked_out_by_a_key_without_an_end(
    scene: Scene,
) -> None:
    """
    A bucket that was empty and lost its time to live fills up all the same.

    BerriAI/litellm#5609
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body = OPENAI.request(stream=False, max_tokens=59_000)
    assert (await scene.call(body)).status == 200
    await scene.pod.settled()
    for key in await lifetimes(scene):
        await scene.redis("PERSIST", key)

    async def admitted() -> bool:
        return (await scene.call(body)).status == 200

    await until(admitted)
    await scene.pod.settled()
