"""L14, B13: what a server has forgotten is told again; what it did is not done twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD, story
from tests.cases.connection import Connection, request
from tests.cases.priced import overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import until
from tests.scripted_upstream import Hold, event_stream, reply
from tokenweir.core.bucket import UNITS_PER_TOKEN

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# The ledger's deadline: patient, as a busy machine is late by itself now and then.
PATIENT = {"arguments": ["--ledger-timeout-ms", "1000"]}
LATE_SECONDS = 1.5
LIMIT = 1_000_000
# A token a minute: what was charged stays to be seen.
QUOTAS: list[dict[str, Any]] = [
    {"tokens_per_minute": 1, "capacity": LIMIT},
    {"requests_per_minute": 1, "capacity": 1_000},
    {"concurrency": 500},
    {"budget_usd": 400, "per": "month"},
]
OPEN = [{**quota, "on_ledger_failure": "open"} for quota in QUOTAS]
COST = TOLD.input + TOLD.output
COST_NANOUSD = TOLD.input * 4_000 + TOLD.output * 20_000  # see priced.py
CHARGED = (TOLD.input, TOLD.output)
BODY = OPENAI.request(stream=False, max_tokens=500)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod with a relay before its ledger."""
    prices = overlay(tmp_path_factory.mktemp("prices"))

    def adapt(content: dict[str, Any]) -> None:
        tenants(open=OPEN)(content)
        content["prices"] = {"overlays": [prices]}

    async with Scene.relayed(
        quotas=QUOTAS,
        adapt=adapt,
        retries=0,
        options=PATIENT,
    ) as opened:
        yield opened


async def charged_once(scene: Scene, count: int, tenant: str = "acme") -> None:
    """Demand *count* exchanges in levels, budgets, records and rollups."""
    await scene.ledger_shows(*[CHARGED] * count, tenant=tenant)
    state = await scene.pod.ledger.snapshot(tenant)
    drawn = {
        # Rounded: less than half a token was earned back.
        bucket.capacity: round(bucket.capacity - bucket.level_units / UNITS_PER_TOKEN)
        for bucket in state.buckets.values()
    }
    assert drawn.get(LIMIT, 0) == COST * count
    assert drawn.get(1_000, 0) == count
    spent = sum(each.spent for each in state.spendings.values())
    assert spent == COST_NANOUSD * count
    assert not any(each.reserved for each in state.spendings.values())
    rolled_up = await scene.pod.ledger.rolled_up(tenant)
    assert rolled_up.get("exchanges", 0) == count
    assert len((await scene.pod.ledger.snapshot(tenant)).records) == count


async def test_l14_a_flushed_script_cache_is_filled_again(scene: Scene) -> None:
    """
    After SCRIPT FLUSH before, and in the middle of, an exchange: 200, counted once.

    vutran1710/PyrateLimiter#182, express-rate-limit/rate-limit-redis#251
    """
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", TOLD)))
    await scene.redis("SCRIPT", "FLUSH")

    asked = asyncio.create_task(scene.call(BODY))
    await scene.upstream.wait_for_requests(1)
    await scene.redis("SCRIPT", "FLUSH")
    gate.set()

    assert (await asked).status == 200
    await charged_once(scene, 1)


async def test_l14_a_cache_that_is_flushed_all_the_time(scene: Scene) -> None:
    """
    Scripts that vanish while fifty calls are under way harm none of them.

    QuantumNous/new-api#4782
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    over = asyncio.Event()

    async def flush() -> None:
        while not over.is_set():
            await scene.redis("SCRIPT", "FLUSH")

    flushing = asyncio.create_task(flush())
    answers = [
        answer
        for _ in range(5)
        for answer in await asyncio.gather(*(scene.call(BODY) for _ in range(10)))
    ]
    await scene.pod.settled()
    over.set()
    await flushing

    assert {answer.status for answer in answers} == {200}
    await charged_once(scene, 50)


async def _is_served(scene: Scene) -> bool:
    """Tell if the ledger answers, so that there is a connection to it."""
    return (await scene.call(BODY)).status == 200


async def test_l14_an_empty_restart_is_no_error(scene: Scene) -> None:
    """
    A server that comes back empty, while an exchange is under way, is used at once.

    QuantumNous/new-api#4782: EVALSHA gave NOSCRIPT and every request failed.
    """
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", TOLD)))
    asked = asyncio.create_task(scene.call(BODY))
    await scene.upstream.wait_for_requests(1)
    await asyncio.to_thread(scene.pod.server.restart)
    gate.set()

    assert (await asked).status == 200
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))

    await until(lambda: _is_served(scene))
    await charged_once(scene, 2)


async def _reserves_are_lost(scene: Scene) -> bool:
    """Lose the answers to calls that must be refused; tell if one was applied."""
    assert scene.relay is not None
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    await until(lambda: _is_served(scene))
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    scene.relay.drops_replies = True
    try:
        answers = [await scene.call(BODY) for _ in range(5)]
        # A tag begins with a reserve that was applied; the hold may be gone by now, if
        # its cancel found a connection that there still was.
        began = (await scene.pod.ledger.snapshot()).epoch
        # The call before may have been told again just as all was forgotten.
        told_again = await scene.pod.ledger.records("acme")
    finally:
        scene.relay.drops_replies = False
    assert {answer.refusal for answer in answers} == {"ledger_unavailable"}
    assert {answer.status for answer in answers} == {503}
    return began > 0 and not told_again


async def test_l14_a_lost_reply_to_a_reserve_closed(scene: Scene) -> None:
    """
    A reserve that was applied and not answered is refused, and given back.

    vutran1710/PyrateLimiter#182: replayed on any error, and counted twice
    """
    # Where something else has lost the connection just before, no reserve is sent.
    await until(lambda: _reserves_are_lost(scene))
    assert scene.upstream.requests == []
    await charged_once(scene, 0)


async def test_l14_a_lost_reply_to_a_reserve_open(scene: Scene) -> None:
    """
    With `open` such an exchange goes on, and is counted once.

    vutran1710/PyrateLimiter#182
    """
    assert scene.relay is not None
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", TOLD)))
    scene.relay.drops_replies = True
    try:
        calls = [
            asyncio.create_task(scene.call(BODY, key=key_of("open"))) for _ in range(5)
        ]
        await scene.upstream.wait_for_requests(5)
    finally:
        scene.relay.drops_replies = False
    gate.set()

    assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
    await charged_once(scene, 5, "open")
    flags = {each["flags"] for each in await scene.pod.ledger.records("open")}
    assert flags == {"ledger_open"}


@pytest.mark.parametrize("fault", ["lost", "late"])
async def test_l14_a_settle_without_an_answer(scene: Scene, fault: str) -> None:
    """
    A settle whose reply was lost or late is repeated until it was heard, counted once.

    vutran1710/PyrateLimiter#182, BerriAI/litellm#30460
    """
    assert scene.relay is not None
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", TOLD)))
    calls = [asyncio.create_task(scene.call(BODY)) for _ in range(5)]
    await scene.upstream.wait_for_requests(5)
    if fault == "lost":
        scene.relay.drops_replies = True
    else:
        scene.relay.delay_seconds = LATE_SECONDS
    gate.set()
    answers = await asyncio.gather(*calls)
    # It is tried again and again meanwhile.
    await asyncio.sleep(2.5 if fault == "late" else 1.0)
    scene.relay.drops_replies, scene.relay.delay_seconds = False, 0.0

    assert {answer.status for answer in answers} == {200}
    await charged_once(scene, 5)
    await until(lambda: not scene.pod.processors[0].metric("tokenweir_spool_settles"))


async def test_l14_a_cancel_without_an_answer(scene: Scene) -> None:
    """
    Who left while replies were lost holds nothing in the end.

    A cancelled INCR was applied on the server all the same: see CASES, checked facts.
    """
    assert scene.relay is not None
    await scene.clear()
    scene.upstream.play(*event_stream(story(OPENAI)))
    scene.relay.drops_replies = True
    try:
        for _ in range(10):
            async with Connection.open(scene.pod.port) as app:
                await app.send(request(BODY))
                app.reset()
        await asyncio.sleep(0.5)
    finally:
        scene.relay.drops_replies = False

    await charged_once(scene, 0)
    assert scene.upstream.requests == []


async def test_b13_replies_come_and_go(scene: Scene) -> None:
    """
    With a relay that loses replies every now and then, no exchange counts twice, and a
    budget has spent their cost to the nano-USD.

    BerriAI/litellm#30460: the counter drifted upwards with each time-out.
    """
    assert scene.relay is not None
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    over = asyncio.Event()

    async def disturb() -> None:
        assert scene.relay is not None
        while not over.is_set():
            scene.relay.drops_replies = not scene.relay.drops_replies
            await asyncio.sleep(0.03)
        scene.relay.drops_replies = False

    disturbing = asyncio.create_task(disturb())
    answers = [
        answer
        for _ in range(20)
        for answer in await asyncio.gather(*(scene.call(BODY) for _ in range(5)))
    ]
    over.set()
    await disturbing

    served = sum(answer.status == 200 for answer in answers)
    assert {answer.status for answer in answers} <= {200, 503}
    assert served == len(scene.upstream.requests)
    await charged_once(scene, served)
