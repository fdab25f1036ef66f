"""E04: whoever waits too long is told so, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD, Api, both_apis
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import until
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUOTAS = [{"tokens_per_minute": 600_000_000}, {"concurrency": 100}]
OPEN = [{**quota, "on_ledger_failure": "open"} for quota in QUOTAS]
CHARGED = (TOLD.input, TOLD.output)
LATE_SECONDS = 0.6  # the deadline is 0.2
BIG = OPENAI.request(stream=False, max_tokens=50)[:-1] + b" " * 12_000_000 + b"}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod with a relay before its ledger."""
    async with Scene.relayed(
        quotas=QUOTAS,
        adapt=tenants(open=OPEN),
        body_limit="16MiB",
        retries=0,
    ) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hasty() -> AsyncIterator[Scene]:
    """Give the module a pod whose Envoy waits less long than its processor does."""
    options = {
        "arguments": ["--ledger-timeout-ms", "1200"],
        "envoy_settings": {"admission_timeout_ms": 300},
    }
    async with Scene.relayed(quotas=QUOTAS, options=options, retries=0) as opened:
        yield opened


@both_apis
async def test_e04_a_ledger_that_is_too_slow_closed(scene: Scene, api: Api) -> None:
    """
    Answers after the deadline are none: 503, and what was taken is given back.

    envoyproxy/ai-gateway#1428, envoyproxy/envoy#34843
    """
    assert scene.relay is not None
    await scene.clear()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    scene.relay.delay_seconds = LATE_SECONDS
    try:
        answers = await asyncio.gather(
            *(scene.call(api.request(stream=False), path=api.path) for _ in range(10))
        )
    finally:
        scene.relay.delay_seconds = 0.0

    assert {answer.status for answer in answers} == {503}
    assert {answer.refusal for answer in answers} == {"ledger_unavailable"}
    assert scene.upstream.requests == []
    await scene.ledger_shows()


async def test_e04_a_ledger_that_is_too_slow_open(scene: Scene) -> None:
    """With `open` they go on, and are charged once. envoyproxy/ai-gateway#1428"""
    assert scene.relay is not None
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body = OPENAI.request(stream=False)
    scene.relay.delay_seconds = LATE_SECONDS
    try:
        answers = await asyncio.gather(
            *(scene.call(body, key=key_of("open")) for _ in range(10))
        )
        await asyncio.sleep(0.5)  # settles are late as well
    finally:
        scene.relay.delay_seconds = 0.0

    assert {answer.status for answer in answers} == {200}
    await scene.ledger_shows(*[CHARGED] * 10, tenant="open")


async def test_e04_a_large_body_and_a_slow_ledger(scene: Scene) -> None:
    """
    12 MB are read while the ledger takes its time: what is said is about the ledger.

    envoyproxy/ai-gateway#1428: big payloads timed out now and then, as 500 or 504.
    """
    assert scene.relay is not None
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    scene.relay.delay_seconds = LATE_SECONDS
    try:
        late = await scene.call(BIG)
    finally:
        scene.relay.delay_seconds = 0.0
    await scene.pod.settled()
    scene.relay.delay_seconds = 0.02

    async def in_time() -> bool:  # a busy machine is late by itself now and then
        return (await scene.call(BIG)).status == 200

    try:
        await until(in_time)
    finally:
        scene.relay.delay_seconds = 0.0

    assert (late.status, late.refusal) == (503, "ledger_unavailable")
    [received] = scene.upstream.requests
    assert received.body == BIG
    await scene.ledger_shows(CHARGED)


@both_apis
@pytest.mark.parametrize("delay_seconds", [0.29, 0.31, 0.6, 1.0, 1.5])
async def test_e04_envoy_waits_no_longer(
    hasty: Scene, api: Api, delay_seconds: float
) -> None:
    """
    If Envoy stops waiting for the processor, the app is told 503 in its own words, and
    the processor notices: nothing stays reserved.

    envoyproxy/ai-gateway#1428, envoyproxy/envoy#34843
    """
    assert hasty.relay is not None
    await hasty.clear()
    hasty.upstream.play(reply(api.reply("Hi.", TOLD)))
    hasty.relay.delay_seconds = delay_seconds
    try:
        answers = await asyncio.gather(
            *(hasty.call(api.request(stream=False), path=api.path) for _ in range(10))
        )
        await asyncio.sleep(delay_seconds)  # so that their replies are late, too
    finally:
        hasty.relay.delay_seconds = 0.0

    served = [answer for answer in answers if answer.status == 200]
    for answer in answers:
        if answer.status != 200:
            # Where connections are still being made, the processor itself gives up.
            assert answer.status == 503
            assert answer.refusal in ("governor_unavailable", "ledger_unavailable")
            assert answer.header("retry-after") == "1"
            assert answer.header("content-type") == "application/json"
            assert ("type" in answer.json()) == (api.name == "anthropic")
    if delay_seconds > 0.5:
        assert served == []
    assert len(hasty.upstream.requests) == len(served)
    await hasty.ledger_shows(*[CHARGED] * len(served))
