"""L20, L21, L24: what is charged is tokens, and each limit is charged its own."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.cases.apis import ANTHROPIC, OPENAI, Api, Told, story
from tests.cases.openai_apis import COMPLETIONS, RESPONSES
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import until
from tests.scripted_upstream import Hold, event_stream, reply
from tokenweir.core.bucket import UNITS_PER_TOKEN

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# They refill by a token a minute: what was charged can be told exactly.
QUOTAS: list[dict[str, Any]] = [
    {"tokens_per_minute": 1, "capacity": 1_000_000},
    {"requests_per_minute": 1, "capacity": 10_000},
    {"input_tokens_per_minute": 1, "capacity": 200_000},
    {"output_tokens_per_minute": 1, "capacity": 300_000},
    {"tokens_per_minute": 1, "capacity": 500_000, "partition": ["user"]},
    {"tokens_per_minute": 1, "capacity": 700_000, "partition": ["model"]},
    {"concurrency": 100},
]
SMALL = [{"tokens_per_minute": 1, "capacity": 30}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod with limits of each kind, and a tenant with a small one."""
    async with Scene.open(
        quotas=QUOTAS, adapt=tenants(small=SMALL, tiny=SMALL), retries=1
    ) as opened:
        yield opened


async def drawn(scene: Scene, tenant: str = "acme") -> dict[str, int]:
    """Return what is gone from each bucket, to the nearest token."""
    state = await scene.pod.ledger.snapshot(tenant)
    return {
        name.split("|")[0].split(".", 1)[1]: round(
            bucket.capacity - bucket.level_units / UNITS_PER_TOKEN
        )
        for name, bucket in state.buckets.items()
        if bucket.level_units < bucket.ceiling_units - UNITS_PER_TOKEN / 2
    }


def charge(input_tokens: int, output_tokens: int, requests: int = 1) -> dict[str, int]:
    """Return what each bucket of `QUOTAS` must have been charged."""
    total = input_tokens + output_tokens
    charges = {
        "tokens_per_minute": total,
        "requests_per_minute": requests,
        "input_tokens_per_minute": input_tokens,
        "output_tokens_per_minute": output_tokens,
        "tokens_per_minute_by_user": total,
        "tokens_per_minute_by_model": total,
    }
    return {name: amount for name, amount in charges.items() if amount}


# === L20 ==========================================================================


async def test_l20_an_answer_of_150_tokens_counts_150(scene: Scene) -> None:
    """
    Under a limit of 30, one answer of 150 tokens makes the next call wait for 120 and it.

    envoyproxy/ai-gateway#2248: the counter moved by 1 a request, 150 times too little.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(12, 138))))
    body = OPENAI.request(stream=False, max_tokens=5)

    first = await scene.call(body, key=key_of("small"))
    await scene.ledger_shows((12, 138), tenant="small")
    second = await scene.call(body, key=key_of("small"))

    assert (first.status, second.status) == (200, 429)
    assert second.detail["used"] == 150
    assert second.detail["requested"] == 17
    minutes = second.detail["retry_after_ms"] / 60_000
    assert 136 < minutes <= 137  # 120 of debt, 17 asked for
    assert await drawn(scene, "small") == {"tokens_per_minute": 150}


# A zero in a stream of Anthropic's means "not yet": its first event has the input.
@pytest.mark.parametrize(
    ("api", "streamed"), [(OPENAI, False), (OPENAI, True), (ANTHROPIC, False)]
)
async def test_l20_nothing_used_is_nothing_charged(
    scene: Scene, api: Api, streamed: bool
) -> None:
    """
    An answer that reports no token changes no limit on tokens. It is one request.

    wso2/api-platform#2932, envoyproxy/ratelimit#729: cost 0 counted as 1
    """
    await scene.clear()
    if streamed:
        scene.upstream.play(*event_stream(story(api, (), Told(0, 0))))
    else:
        scene.upstream.play(reply(api.reply("", Told(0, 0))))

    answer = await scene.call(api.request(stream=streamed), path=api.path)

    assert answer.status == 200
    await scene.ledger_shows((0, 0))
    assert await drawn(scene) == charge(0, 0)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 529])
async def test_l20_a_provider_that_refuses_costs_no_tokens(
    scene: Scene, status: int
) -> None:
    """
    What a provider refused before any work costs requests, by attempts, and no tokens.

    wso2/api-platform#2932
    """
    await scene.clear()
    scene.upstream.play(reply(b'{"error":{}}', f"{status} So"))

    answer = await scene.call(OPENAI.request(stream=False))

    assert answer.status == status
    await scene.ledger_shows((0, 0))
    attempts = len(scene.upstream.requests)
    assert attempts == (2 if status == 429 else 1)  # one retry, of a 429
    assert await drawn(scene) == charge(0, 0, attempts)


async def test_l20_paths_without_tokens_cost_none(scene: Scene) -> None:
    """
    Model lists and token counts are requests, whatever figures are in their answers.

    wso2/api-platform#2932, Wei-Shaw/sub2api#5456
    """
    await scene.clear()
    scene.upstream.play(reply(b'{"input_tokens": 4000, "usage": {"total_tokens": 9}}'))

    listed = await scene.call(method="GET", path="/v1/models")
    counted = await scene.call(
        ANTHROPIC.request(stream=False), path="/v1/messages/count_tokens"
    )

    assert (listed.status, counted.status) == (200, 200)
    await scene.ledger_shows((0, 0), (0, 0))
    assert await drawn(scene) == {"requests_per_minute": 2}


async def test_l20_many_answers_add_up_exactly(scene: Scene) -> None:
    """
    A hundred answers of odd sizes: the limits lost their sum, and not one token more.

    Each has input: nothing is generated from none, so who says so is not believed.

    envoyproxy/ai-gateway#2248
    """
    await scene.clear()
    sizes = itertools.cycle([(12, 1), (3, 97), (250, 0), (1, 1), (1, 33)])
    told = list(itertools.islice(sizes, 100))
    left = iter(told)
    scene.upstream.choose(lambda _: [reply(OPENAI.reply("Hi.", Told(*next(left))))])

    for _ in range(10):
        answers = await asyncio.gather(
            *(scene.call(OPENAI.request(stream=False)) for _ in range(10))
        )
        assert {answer.status for answer in answers} == {200}

    await scene.ledger_shows(*told)
    inputs, outputs = (sum(side) for side in zip(*told, strict=True))
    assert await drawn(scene) == charge(inputs, outputs, 100)


# === L21 ==========================================================================


@pytest.mark.parametrize(
    ("api", "cap", "framed"),
    [
        (OPENAI, "max_tokens", 7),
        (ANTHROPIC, "max_tokens", 7),
        (RESPONSES, "max_output_tokens", 7),
        (COMPLETIONS, "max_tokens", 0),
    ],
    ids=["chat", "messages", "responses", "completions"],
)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_l21_the_cap_is_reserved_and_the_report_is_settled(
    scene: Scene, api: Api, cap: str, framed: int, streamed: bool
) -> None:
    """
    max_tokens 500 reserves 500 and the input; a usage of 40 and 480 settles 520.

    BerriAI/litellm#34728: the cap was ignored, and the report's spelling not known.
    """
    await scene.clear()
    gate = asyncio.Event()
    told = Told(40, 480)
    if streamed:
        scene.upstream.play(Hold(gate), *event_stream(story(api, told=told)))
    else:
        scene.upstream.play(Hold(gate), reply(api.reply("Hi.", told)))
    members: dict[str, Any] = {cap: 500}
    body = api.request(stream=streamed, **members)

    asked = asyncio.create_task(scene.call(body, path=api.path))
    await scene.upstream.wait_for_requests(1)
    [held] = (await scene.pod.ledger.snapshot()).holdings.values()
    reserved = (await drawn(scene))["tokens_per_minute"]
    gate.set()
    answer = await asked

    assert held.amounts.output_tokens == 500
    assert 3 + framed <= held.amounts.input_tokens <= 13 + framed
    assert reserved == 500 + held.amounts.input_tokens
    assert answer.status == 200
    await scene.ledger_shows((40, 480))
    assert await drawn(scene) == charge(40, 480)


@pytest.mark.parametrize(
    ("members", "ceiling"),
    [
        ({"max_tokens": 700}, 700),
        ({"max_completion_tokens": 700}, 700),
        ({"max_completion_tokens": 700, "max_tokens": 300}, 700),
        ({"max_tokens": 700, "n": 3}, 2_100),
        ({"max_tokens": 99_999}, 16_384),  # the model's own maximum
        ({"max_tokens": None}, 4_096),  # the default
        ({"max_tokens": 1}, 1),
        ({}, 4_096),
        ({"n": 2}, 8_192),
    ],
    ids=json.dumps,
)
async def test_l21_every_spelling_of_a_cap(
    scene: Scene, members: dict[str, Any], ceiling: int
) -> None:
    """
    The worst case is reserved, however the cap is spelled. BerriAI/litellm#34728
    """
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", Told(12, 3))))

    asked = asyncio.create_task(scene.call(OPENAI.request(stream=False, **members)))
    await scene.upstream.wait_for_requests(1)
    [held] = (await scene.pod.ledger.snapshot()).holdings.values()
    gate.set()

    assert (await asked).status == 200
    assert held.amounts.output_tokens == ceiling
    await scene.ledger_shows((12, 3))
    assert await drawn(scene) == charge(12, 3)


# === L24 ==========================================================================


async def test_l24_each_limit_gets_its_own_back(scene: Scene) -> None:
    """
    Of a reserve over seven limits each gets back what it gave, and no other's.

    tensorzero/tensorzero#3862: rows came back in another order.
    """
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", Told(7, 90))))
    body = OPENAI.request(stream=False, max_tokens=1_000, user="ann")

    asked = asyncio.create_task(scene.call(body))
    await scene.upstream.wait_for_requests(1)
    reserved = await drawn(scene)
    gate.set()
    await asked

    assert reserved == charge(12, 1_000)
    await scene.ledger_shows((7, 90))
    assert await drawn(scene) == charge(7, 90)


async def test_l24_whatever_the_order_of_the_policy(scene: Scene) -> None:
    """
    The policy is reordered and resized while an exchange is under way: each limit that
    it was reserved from gets its own back.

    tensorzero/tensorzero#3862
    """
    await scene.clear()
    path = scene.pod.policy_path
    before = path.read_text()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", Told(7, 90))))
    calls = [
        asyncio.create_task(
            scene.call(OPENAI.request(stream=False, max_tokens=1_000, user="ann"))
        )
        for _ in range(3)
    ]
    await scene.upstream.wait_for_requests(3)
    loaded = scene.pod.processors[0].count("policy_loaded")
    content = yaml.safe_load(before)
    content["tenants"]["acme"]["quotas"].reverse()
    try:
        path.write_text(yaml.safe_dump(content))
        await until(lambda: scene.pod.processors[0].count("policy_loaded") > loaded)
        # Under the new order, while the old ones are open.
        calls.append(
            asyncio.create_task(
                scene.call(OPENAI.request(stream=False, max_tokens=2_000, user="ann"))
            )
        )
        await scene.upstream.wait_for_requests(4)
        reserved = await drawn(scene)
        gate.set()
        answers = await asyncio.gather(*calls)
    finally:
        path.write_text(before)

    assert {answer.status for answer in answers} == {200}
    assert reserved == charge(48, 5_000, 4)
    await scene.ledger_shows(*[(7, 90)] * 4)
    assert await drawn(scene) == charge(28, 360, 4)
