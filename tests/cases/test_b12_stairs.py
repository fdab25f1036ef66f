"""B12, S12: what follows once money is spent, also when it is spent by many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, Api, Told, both_apis, story
from tests.cases.connection import Answer
from tests.cases.priced import add_models, overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import until
from tests.scripted_upstream import Hold, Step, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# Of the first model, the first two can't take the place: another API, no price.
STAIRS = ["claude-sonnet-5", "empty", "mini", "free"]
ANTHROPIC_STAIRS = ["gpt-4o-mini", "claude-small"]
BUDGET: dict[str, Any] = {"budget_usd": 0.05, "per": "month"}
CALLS = 12
# The model's name in an unusual spelling, and elsewhere as well.
SPELT = (
    b'{ "max_tokens":1000,"stream" :true,"temperature":1.0, "model" : "gpt\\u002d4o" ,'
    b'"messages":[{"role":"user","content":"\\ud83d\\ude00 gpt-4o"}],"x":[1e5, {"model":'
    b'"gpt-4o"}],"stream_options":{"include_usage":true}}\n'
)


def down(chain: list[str], hard_limit_usd: float) -> dict[str, Any]:
    """Return a budget that is answered by cheaper models once it is spent."""
    after = {"downgrade_to": chain, "hard_limit_usd": hard_limit_usd}
    return BUDGET | {"on_exceeded": after}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod whose tenants have budgets of each kind."""
    prices = overlay(tmp_path_factory.mktemp("prices"))

    def adapt(content: dict[str, Any]) -> None:
        tenants(
            stairs=[down(STAIRS, 0.055)],
            sonnet=[down(ANTHROPIC_STAIRS, 0.06)],
            users=[BUDGET | {"partition": ["user"]}, BUDGET | {"budget_usd": 0.07}],
            plain=[BUDGET],
            told=[{"budget_usd": 0.001, "per": "month", "alerts": [50, 80]}],
        )(content)
        openai = content["providers"]["openai"]
        second = openai | {"base_url": f"{openai['base_url']}/second"}
        content["providers"]["second"] = second
        add_models(content, "free", "empty")
        mini = {"provider": "second", "upstream_model": "gpt-4o-mini"}
        content["models"]["mini"] = mini
        content["models"]["claude-small"] = {"provider": "anthropic"}
        content["prices"] = {"overlays": [prices]}

    async with Scene.open(adapt=adapt) as opened:
        yield opened


async def levels(scene: Scene, tenant: str) -> dict[str, tuple[int, int]]:
    """Return what is spent and reserved of the tenant's budgets, by limit."""
    found = (await scene.pod.ledger.snapshot(tenant)).spendings.items()
    return {key: (each.spent, each.reserved) for (key, _), each in found}


async def level(scene: Scene, tenant: str) -> tuple[int, int]:
    """Return that of its only budget."""
    [found] = (await levels(scene, tenant)).values()
    return found


async def spend(scene: Scene, tenant: str, told: Told, api: Api = OPENAI) -> Answer:
    """Make a call of at most 1,000 tokens of output, that uses what is *told*."""
    scene.upstream.play(reply(api.reply("Hi.", told)))
    body = api.request(stream=False, max_tokens=1_000)
    answer = await scene.call(body, path=api.path, key=key_of(tenant))
    await scene.pod.settled()
    return answer


async def newest(scene: Scene, tenant: str) -> dict[str, str]:
    """Return the tenant's newest record."""
    return dict((await scene.pod.ledger.records(tenant))[-1])


async def test_each_stair_is_reserved_at_its_own_price(scene: Scene) -> None:
    """
    The first model of the chain that can take the place does: at another provider, by
    its name there, and not a byte of the body is another. The budget pays for it.
    """
    await scene.clear()
    assert (await spend(scene, "stairs", Told(11, 2_400))).status == 200
    spent = 11 * 4_000 + 2_400 * 20_000
    assert await level(scene, "stairs") == (spent, 0)

    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), *event_stream(story(OPENAI, told=Told(11, 500))))
    asked = asyncio.create_task(scene.call(SPELT, key=key_of("stairs")))
    await scene.upstream.wait_for_requests(2)
    [held] = [
        each
        for each in (await scene.pod.ledger.snapshot("stairs")).holdings.values()
        if each.amounts.output_tokens == 1_000
    ]
    worst = held.amounts.input_tokens * 1_000 + 1_000 * 2_000
    assert held.amounts.cost_nanousd == worst
    assert await level(scene, "stairs") == (spent, worst)
    gate.set()
    answer = await asked
    await scene.pod.settled()

    got = scene.upstream.requests[-1]
    assert got.target == "/second/v1/chat/completions"
    assert got.body == SPELT.replace(b"gpt\\u002d4o", b"gpt-4o-mini")
    assert got.header("content-length") == str(len(got.body))
    assert answer.header("x-tokenweir-downgraded-from") == "gpt-4o"
    record = await newest(scene, "stairs")
    cost = 11 * 1_000 + 500 * 2_000
    assert (record["model"], record["provider"]) == ("mini", "second")
    assert record["cost_nanousd"] == str(cost)
    assert record["saved_nanousd"] == str(11 * 4_000 + 500 * 20_000 - cost)
    assert await level(scene, "stairs") == (spent + cost, 0)


async def test_beyond_a_hard_limit_what_is_free_goes_on(scene: Scene) -> None:
    """Once not even the cheapest that costs anything fits, the last stair answers."""
    await scene.clear()
    for tokens in (2_400, 2_500):
        await spend(scene, "stairs", Told(11, tokens))
    spent = 11 * 4_000 + 2_400 * 20_000 + 11 * 1_000 + 2_500 * 2_000
    assert await level(scene, "stairs") == (spent, 0)
    last = await spend(scene, "stairs", Told(11, 900))

    assert last.header("x-tokenweir-downgraded-from") == "gpt-4o"
    record = await newest(scene, "stairs")
    assert (record["model"], record["cost_nanousd"]) == ("free", "0")
    assert await level(scene, "stairs") == (spent, 0)


async def test_the_stairs_of_the_other_api(scene: Scene) -> None:
    """Anthropic's callers go down to what speaks as they do, and are told the same."""
    await scene.clear()
    await spend(scene, "sonnet", Told(11, 3_200), ANTHROPIC)
    scene.upstream.play(*event_stream(story(ANTHROPIC, told=Told(11, 90))))
    body = ANTHROPIC.request(max_tokens=900)
    answer = await scene.call(body, path=ANTHROPIC.path, key=key_of("sonnet"))
    await scene.pod.settled()

    assert answer.status == 200
    assert answer.header("x-tokenweir-downgraded-from") == "claude-sonnet-5"
    sent = body.replace(b"claude-sonnet-5", b"claude-small")
    assert scene.upstream.requests[-1].body == sent
    cost = 11 * 3_000 + 3_200 * 15_000 + 11 * 1_000 + 90 * 2_000
    assert await level(scene, "sonnet") == (cost, 0)


async def test_what_no_window_can_hold_is_told_at_once(scene: Scene) -> None:
    """
    A call that costs more than the whole budget goes down at once. One that not even the
    hard limit can hold, at the cheapest price, is no matter of waiting: a 400.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 7))))
    answers = [
        await scene.call(
            OPENAI.request(stream=False, max_tokens=16_384, n=choices),
            key=key_of("sonnet"),
        )
        for choices in (1, 2)
    ]
    await scene.pod.settled()

    assert [answer.status for answer in answers] == [200, 400]
    assert answers[0].header("x-tokenweir-downgraded-from") == "gpt-4o"
    assert answers[1].refusal == "request_exceeds_limit"
    assert answers[1].detail["retryable"] is False
    assert len(scene.upstream.requests) == 1
    assert await level(scene, "sonnet") == (11 * 1_000 + 7 * 2_000, 0)


async def at_once(
    scene: Scene, script: list[Step], calls: list[dict[str, Any]], passing: int
) -> tuple[list[Answer], dict[str, tuple[int, int]]]:
    """
    Make *calls* at once, of which *passing* get through.

    Returns:
        The answers, and what was reserved while all of those were under way.
    """
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), *script)
    tasks = [asyncio.create_task(scene.call(**call)) for call in calls]
    await until(lambda: sum(task.done() for task in tasks) == len(calls) - passing)
    await scene.upstream.wait_for_requests(passing)
    held = await levels(scene, str(calls[0]["key"]).removeprefix(key_of("")))
    gate.set()
    return await asyncio.gather(*tasks), held


@both_apis
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_b12_in_either_api_and_form(
    scene: Scene, api: Api, *, streamed: bool
) -> None:
    """
    As many calls pass at once as there are worst cases in the budget: with OpenAI two of
    0.02 USD (two choices of 500 tokens), with Anthropic three of 0.015.

    BerriAI/litellm#34732
    """
    await scene.clear()
    told = Told(11, 7)
    members: dict[str, Any] = {"max_tokens": 1_000}
    passing, cost = 3, 11 * 3_000 + 7 * 15_000
    if api is OPENAI:
        members = {"max_tokens": 500, "n": 2}
        passing, cost = 2, 11 * 4_000 + 7 * 20_000
    script = event_stream(story(api, told=told))
    if not streamed:
        script = [reply(api.reply("Hi.", told))]
    body = api.request(stream=streamed, **members)
    call = {"body": body, "path": api.path, "key": key_of("plain")}
    answers, held = await at_once(scene, script, [call] * CALLS, passing)

    statuses = sorted(answer.status for answer in answers)
    assert statuses == [200] * passing + [429] * (CALLS - passing)
    [(spent, reserved)] = held.values()
    assert (spent, reserved <= 50_000_000) == (0, True)
    await scene.pod.settled()
    assert await level(scene, "plain") == (passing * cost, 0)


async def test_b12_of_several_budgets_none_is_passed(scene: Scene) -> None:
    """
    Two users of 0.05 USD each and 0.07 together, at 0.02 a call: three pass of all, and
    two at most of each. Who made up a user for each call had no more.

    BerriAI/litellm#34732
    """
    for names in (["ann", "bob"], [f"user-{n}" for n in range(CALLS)]):
        await scene.clear()
        bodies = [
            OPENAI.request(stream=False, max_tokens=1_000, user=names[n % len(names)])
            for n in range(CALLS)
        ]
        calls = [{"body": body, "key": key_of("users")} for body in bodies]
        script: list[Step] = [reply(OPENAI.reply("Hi.", Told(11, 7)))]
        answers, held = await at_once(scene, script, calls, 3)

        assert sorted(answer.status for answer in answers)[:4] == [200] * 3 + [429]
        whole = "users.budget_usd_per_month|budget_usd|tenant=users"
        assert 60_000_000 < held.pop(whole)[1] <= 70_000_000
        assert all(reserved <= 50_000_000 for _, reserved in held.values())
        await scene.pod.settled()
        after = await levels(scene, "users")
        assert after.pop(whole) == (3 * 184_000, 0)
        assert sum(spent for spent, _ in after.values()) == 3 * 184_000


async def test_b12_nor_is_a_hard_limit(scene: Scene) -> None:
    """
    Two calls of 0.02 USD fit into the budget. Of those that go down to the cheaper model
    seven of 0.002 fit below the hard limit; what is free answers the others.

    BerriAI/litellm#34732
    """
    await scene.clear()
    body = OPENAI.request(stream=False, max_tokens=1_000)
    call = {"body": body, "key": key_of("stairs")}
    script: list[Step] = [reply(OPENAI.reply("Hi.", Told(11, 7)))]
    answers, held = await at_once(scene, script, [call] * CALLS, CALLS)

    assert {answer.status for answer in answers} == {200}
    [(spent, reserved)] = held.values()
    assert (spent, 50_000_000 < reserved <= 55_000_000) == (0, True)
    await scene.pod.settled()
    records = await scene.pod.ledger.records("stairs")
    models = sorted(record["model"] for record in records)
    assert models == ["free"] * 3 + ["gpt-4o"] * 2 + ["mini"] * 7
    cost = 2 * 184_000 + 7 * (11 * 1_000 + 7 * 2_000)
    assert await level(scene, "stairs") == (cost, 0)


async def test_thresholds_are_told_once(scene: Scene) -> None:
    """
    Of calls that settle at once one passes it, and tells it in log and metrics; no other
    tells it again.
    """
    await scene.clear()
    [processor] = scene.pod.processors
    before = processor.metric("tokenweir_budget_crossed_total")
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 9))))
    # What is reserved for one is 0.000188 USD, what it costs 0.000224.
    body, key = OPENAI.request(stream=False, max_tokens=7), key_of("told")
    answers = await asyncio.gather(*(scene.call(body, key=key) for _ in range(4)))
    await scene.pod.settled()
    answers.append(await scene.call(body, key=key))

    assert [answer.status for answer in answers] == [200] * 4 + [429]
    assert await level(scene, "told") == (4 * 224_000, 0)
    await until(lambda: len(crossings(scene)) >= 2)
    assert sorted(crossings(scene)) == [(50, 672_000), (80, 896_000)]
    assert processor.metric("tokenweir_budget_crossed_total") - before == 2


def crossings(scene: Scene) -> list[tuple[int, int]]:
    """Return the thresholds of the tenant `told` that were told, and what was spent."""
    return [
        (line["percent"], line["spent"])
        for line in scene.pod.processors[0].lines()
        if line["event"] == "budget_crossed" and line["limit"].startswith("told.")
    ]


async def test_s12_strangers_spend_no_money(scene: Scene) -> None:
    """
    Who has no right key has nothing reserved, of whatever tenant the key pretends to be.

    scaleapi/llm-engine#868
    """
    await scene.clear()
    body = OPENAI.request(stream=False, max_tokens=1_000, user="plain")
    wrong = [f"{key_of('plain')}x", key_of("plain")[:-1], key_of("Plain"), "plain", ""]
    answers = [await scene.call(body, key=key) for key in wrong * 5]

    assert {answer.status for answer in answers} == {401}
    assert scene.upstream.requests == []
    assert await levels(scene, "plain") == {}
    assert (await spend(scene, "plain", Told(11, 7))).status == 200
