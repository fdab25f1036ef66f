"""L11, L13, L18: who is refused is told the truth about when to come back."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD, Api, Told, both_apis
from tests.cases.connection import Answer
from tests.cases.scene import Scene, key_of, tenants
from tests.scripted_upstream import End, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

DELAY_SECONDS = re.compile(r"[1-9][0-9]*")
MILLISECONDS = re.compile(r"[1-9][0-9]*")
TENANTS = {
    "hourly": [{"requests_per_minute": 1}],
    "edge": [{"requests_per_minute": 60, "capacity": 5}],
    "half": [{"requests_per_minute": 120, "capacity": 1}],
    # Slow enough for a call to come while the one before it still counts.
    "quick": [{"requests_per_minute": 600, "capacity": 1}],
    "tokens": [{"tokens_per_minute": 12_000, "capacity": 200}],
    "output": [{"output_tokens_per_minute": 12_000, "capacity": 150}],
    "input": [{"input_tokens_per_minute": 1_200, "capacity": 20}],
    "slots": [{"concurrency": 1}],
    "many": [
        {"requests_per_minute": 60, "capacity": 1},
        {"tokens_per_minute": 60, "capacity": 200},
        {"concurrency": 5},
    ],
}
BODY = OPENAI.request(stream=False, max_tokens=100)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod of many tenants."""
    async with Scene.open(adapt=tenants(**TENANTS), retries=0) as opened:
        yield opened


async def refused(scene: Scene, tenant: str, body: bytes = BODY) -> Answer:
    """Call as *tenant* until a call is refused, and return that answer."""
    return (await asked_and_refused(scene, tenant, body))[1]


async def asked_and_refused(
    scene: Scene, tenant: str, body: bytes = BODY
) -> tuple[float, Answer]:
    """Call until a call is refused; return when that one was made, and its answer."""
    while True:
        asked_at = time.monotonic()
        answer = await scene.call(body, key=key_of(tenant))
        if answer.status != 200:
            return asked_at, answer


@pytest.mark.parametrize("tenant", TENANTS)
async def test_l18_retry_after_is_a_whole_number(scene: Scene, tenant: str) -> None:
    """
    Each 429 of ours has one retry-after of digits only, at least 1, and the true wait.

    getsentry/sentry#7919, mastra-ai/mastra#23778, koajs/ratelimit#48,
    anthropics/anthropic-sdk-typescript#357
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(12, 100))))
    if tenant == "slots":
        scene.upstream.play_next(End.STALL)
        async with asyncio.TaskGroup() as group:
            first = group.create_task(scene.call(BODY, key=key_of(tenant)))
            await scene.upstream.wait_for_requests(1)
            answer = await scene.call(BODY, key=key_of(tenant))
            first.cancel()
    else:
        answer = await refused(scene, tenant)

    assert answer.status == 429
    whole, exact = answer.header("retry-after"), answer.header("retry-after-ms")
    assert whole is not None
    assert exact is not None
    assert DELAY_SECONDS.fullmatch(whole)
    assert MILLISECONDS.fullmatch(exact)
    assert int(whole) == -(-int(exact) // 1_000)
    assert answer.detail["retry_after_ms"] == int(exact)
    assert answer.header("x-should-retry") == "true"
    for failure in answer.detail["failures"]:
        assert failure["retry_after_ms"] >= 1


@pytest.mark.parametrize("tenant", ["half", "quick", "tokens", "output", "input"])
async def test_l18_who_waits_as_told_succeeds(scene: Scene, tenant: str) -> None:
    """
    Waiting for retry_after_ms, and not a moment longer, is enough if one is alone.

    getsentry/sentry#7919, WeTransfer/prorate#40
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(12, 100))))

    for _ in range(2):
        answer = await refused(scene, tenant)
        await asyncio.sleep(answer.detail["retry_after_ms"] / 1_000)
        again = await scene.call(BODY, key=key_of(tenant))

        assert again.status == 200, (answer.body, again.body)


@pytest.mark.parametrize("tenant", ["half", "tokens", "input"])
async def test_l11_who_comes_too_early_is_refused_again(
    scene: Scene, tenant: str
) -> None:
    """
    The wait is the time until this request fits, and not the time to some edge.

    sandbaseai/sandbase-harness#280, envoyproxy/ratelimit#269, api7/aisix#813
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(12, 100))))
    asked_at, answer = await asked_and_refused(scene, tenant)
    wait_seconds = answer.detail["retry_after_ms"] / 1_000
    # It began when it was decided: between the question and the answer.
    soonest, latest = asked_at + wait_seconds, time.monotonic() + wait_seconds

    while (asked_at := time.monotonic()) < soonest:
        again = await scene.call(BODY, key=key_of(tenant))
        if time.monotonic() < soonest:
            assert again.status == 429
        if again.status == 429:
            left_ms = (latest - asked_at) * 1_000
            assert again.detail["retry_after_ms"] <= left_ms + 1
        await asyncio.sleep(0.02)


async def test_l11_no_window_lets_more_through_than_capacity_and_refill(
    scene: Scene,
) -> None:
    """
    However calls come, no stretch of time admits more than the burst and what it earned.

    sandbaseai/sandbase-harness#280: twice the limit passed across a minute's edge.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    asked: list[tuple[float, float]] = []
    began = time.monotonic()

    while time.monotonic() - began < 4:
        before = time.monotonic()
        answer = await scene.call(BODY, key=key_of("edge"))
        if answer.status == 200:
            asked.append((before, time.monotonic()))

    assert len(asked) > 5
    for first in range(len(asked)):
        for last in range(first, len(asked)):
            # The longest time that can lie between the two decisions.
            seconds = asked[last][1] - asked[first][0]
            assert last - first + 1 <= 5 + seconds * 1 + 1e-6


async def test_l13_a_wait_below_a_second_is_a_wait(scene: Scene) -> None:
    """
    A wait in (0, 1) s is a 429 with `retry-after: 1`, and not "no wait".

    WeTransfer/prorate#40, animir/node-rate-limiter-flexible#221,
    shiyujun/syj-ratelimit#1: Lua numbers are cut to integers on return.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))

    for tenant in ("half", "quick"):
        answer = await refused(scene, tenant)

        assert answer.header("retry-after") == "1"
        assert 1 <= answer.detail["retry_after_ms"] <= 500


async def test_l13_fractions_of_a_token_are_kept(scene: Scene) -> None:
    """
    A level that refills by fractions of a token is neither rounded up nor down.

    shiyujun/syj-ratelimit#1, WeTransfer/prorate#40
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(12, 188))))
    body = OPENAI.request(stream=False, max_tokens=1)
    key = key_of("many")
    assert (await scene.call(body, key=key)).status == 200
    await scene.pod.settled()
    state = await scene.pod.ledger.snapshot("many")
    [bucket] = [each for each in state.buckets.values() if each.capacity == 200]
    left_units = bucket.level_units  # of 1/60,000 token; a token a second comes back

    refusals = [await scene.call(body, key=key) for _ in range(10)]

    state = await scene.pod.ledger.snapshot("many")
    [after] = [each for each in state.buckets.values() if each.capacity == 200]
    assert {answer.status for answer in refusals} == {429}
    assert left_units < 60_000
    assert after == bucket
    [wait] = {
        each["retry_after_ms"] // 13_000
        for answer in refusals
        for each in answer.detail["failures"]
        if each["limit"] == "tokens_per_minute"
    }
    assert wait == 0  # 13 tokens at one a second, less what had come back


@both_apis
@pytest.mark.parametrize(
    "waits", [("292.05",), ("-3",), ("Wed, 21 Oct 2026 07:28:00 GMT",), ("600",), ()]
)
async def test_l18_a_providers_own_429_passes(
    scene: Scene, api: Api, waits: tuple[str, ...]
) -> None:
    """
    A provider's 429 stays the provider's: its wait untouched, ours not added.

    getsentry/sentry#7919
    """
    await scene.clear()
    headers = [("content-type", "application/json")]
    headers += [("retry-after", wait) for wait in waits]
    scene.upstream.play(reply(b'{"error":{}}', "429 Too Many Requests", headers))

    answer = await scene.call(api.request(stream=False), path=api.path)

    assert answer.status == 429
    assert answer.head.all("retry-after") == list(waits)
    assert answer.head.all("retry-after-ms") == []
    assert answer.refusal is None
    assert answer.body == b'{"error":{}}'
    await scene.ledger_shows((0, 0))
