"""B12, B03, L17, L24: whatever an exchange ends by, each budget keeps its cost and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, Api, Told, story
from tests.cases.connection import Connection, FramingError, request
from tests.cases.priced import overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import until
from tests.scripted_upstream import End, Hold, Step, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MANY: list[dict[str, Any]] = [
    {"budget_usd": 4, "per": "month"},
    {"budget_usd": 3, "per": "month", "partition": ["key"]},
    {"budget_usd": 2, "per": "month", "partition": ["user"]},
    {"budget_usd": 1, "per": "month", "partition": ["model", "route"]},
    {"budget_usd": 1, "per": "week", "mode": "shadow"},
    {"budget_tokens": 100_000, "per": "month"},
]
TOKENS = "budget_tokens_per_month"
# In nano-USD, of input and output; see tests/cases/priced.py.
RATES = {OPENAI.name: (4_000, 20_000), ANTHROPIC.name: (3_000, 15_000)}
WORDS = 5
CACHED = {
    "input_tokens": 9,
    "cache_creation_input_tokens": 3_755,
    "cache_read_input_tokens": 30_008,
    "output_tokens": 1,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod, and a tenant with budgets of each kind."""
    prices = overlay(tmp_path_factory.mktemp("prices"))

    def adapt(content: dict[str, Any]) -> None:
        tenants(many=MANY, open=[{**MANY[0], "on_ledger_failure": "open"}])(content)
        content["prices"] = {"overlays": [prices]}
        content["timeouts"] = {"hasty": {"total": "1s", "idle": "1s"}}
        openai = content["providers"]["openai"]
        content["providers"]["nowhere"] = openai | {"base_url": "http://127.0.0.1:1"}
        hasty = {"upstream_model": "gpt-4o", "timeout_class": "hasty"}
        content["models"]["hasty"] = {"provider": "openai", **hasty}
        absent = {"provider": "nowhere", "upstream_model": "gpt-4o"}
        content["models"]["nowhere"] = absent

    async with Scene.open(adapt=adapt, retries=1) as opened:
        yield opened


async def spendings(scene: Scene, tenant: str = "many") -> dict[str, tuple[int, int]]:
    """Return what is spent and reserved of each of the tenant's budgets, by its name."""
    found = (await scene.pod.ledger.snapshot(tenant)).spendings.items()
    return {
        key.partition("|")[0].removeprefix(f"{tenant}."): (each.spent, each.reserved)
        for (key, _), each in found
    }


async def expect_settled(scene: Scene, cost: int, tokens: int) -> None:
    """Demand that every budget has *cost* or *tokens* on it, and nothing is held."""
    await scene.pod.settled()

    async def as_expected() -> bool:
        return set((await spendings(scene)).items()) == expected

    names = await spendings(scene)
    assert len(names) == len(MANY)
    expected = {(name, (tokens if name == TOKENS else cost, 0)) for name in names}
    # What a ledger that was away had not answered may be cancelled a moment later.
    with suppress(TimeoutError):
        await until(as_expected)
    assert set((await spendings(scene)).items()) == expected


@dataclass(frozen=True)
class Ending:
    """
    An exchange that ends somehow.

    Attributes:
        script: What the provider plays.
        input: Tokens that are owed.
        output: Ditto; None: as many as were seen, which is a matter of moments.
        api: Which is called.
        streamed: Whether the app asks for a stream.
        model: Which is asked for, if not the API's.
    """

    script: Sequence[Step]
    input: int = 0
    output: int | None = 0
    api: Api = OPENAI
    streamed: bool = True
    model: str = ""


def refusal(status: str, api: Api = OPENAI) -> Ending:
    """Return what ends by the provider's refusal; the app wanted no stream."""
    return Ending([reply(b'{"error":{}}', status)], api=api, streamed=False)


def words(api: Api) -> list[bytes]:
    """Return the beginning of a stream that says nothing of its usage."""
    return [*api.opening(), *[api.delta("word ") for _ in range(WORDS)]]


ASKED = 12  # tokens of what `OPENAI.request` asks
ENDINGS = {
    "400": refusal("400 Bad Request"),
    "401": refusal("401 Unauthorized"),
    "429, tried twice": refusal("429 Too Many Requests"),
    "500": refusal("500 Oops"),
    "503, tried twice": refusal("503 Service Unavailable"),
    "529 of Anthropic": refusal("529 Overloaded", ANTHROPIC),
    "nobody listens": Ending([], model="nowhere"),
    "reset before an answer": Ending([End.RESET], ASKED, streamed=False),
    "closed before an answer": Ending([End.CLOSE], ASKED),
    "no answer in time": Ending([End.STALL], ASKED, model="hasty"),
    "no more in time": Ending(
        [*event_stream(words(OPENAI))[:-1], End.STALL], ASKED, None, model="hasty"
    ),
    "broken off": Ending([*event_stream(words(OPENAI))[:-1], End.RESET], ASKED, None),
    "an error first": Ending(event_stream([OPENAI.error()])),
    "an error after words": Ending(
        event_stream([*words(OPENAI), OPENAI.error()]), ASKED, None
    ),
    "an error after the input, of Anthropic": Ending(
        event_stream([*ANTHROPIC.opening(), ANTHROPIC.error()]), api=ANTHROPIC
    ),
    "no report": Ending(
        event_stream([*words(OPENAI), *OPENAI.finish(), OPENAI.end()]), ASKED, None
    ),
    "zeros": Ending([reply(OPENAI.reply("", Told(0, 0)))], streamed=False),
    "well": Ending(event_stream(story(OPENAI, told=Told(40, 480))), 40, 480),
    "well, of Anthropic": Ending(
        event_stream(story(ANTHROPIC, told=Told(40, 480))), 40, 480, ANTHROPIC
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_b12_every_end_gives_money_back(scene: Scene, name: str) -> None:
    """
    Six budgets at once hold the worst case. At the end each has what was used, at the
    model's prices: nothing where the provider refused, the input where it was silent,
    what passed where it broke off. Nothing stays reserved.

    BerriAI/litellm#26672: holds that leak refuse those who pay.
    """
    await scene.clear()
    end = ENDINGS[name]
    scene.upstream.play(*end.script)
    members: dict[str, Any] = {"model": end.model} if end.model else {}
    body = end.api.request(stream=end.streamed, max_tokens=1_000, **members)
    with suppress(FramingError):  # what is broken off ends so
        await scene.call(body, path=end.api.path, key=key_of("many"))
    await scene.pod.settled()
    await until(lambda: scene.charges("many"))
    [record] = await scene.pod.ledger.records("many")

    output = int(record["output_tokens"])
    if end.output is None:
        assert 0 <= output <= 2 * WORDS
    else:
        assert output == end.output
    assert int(record["input_tokens"]) == end.input
    input_price, output_price = RATES[end.api.name]
    cost = end.input * input_price + output * output_price
    assert (record["cost_nanousd"], record["flags"]) == (str(cost), "")
    await expect_settled(scene, cost, end.input + output)


@pytest.mark.parametrize("api", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
@pytest.mark.parametrize("began", [False, True], ids=["waiting", "reading"])
async def test_b12_who_leaves_owes_what_was_made(
    scene: Scene, api: Api, *, began: bool
) -> None:
    """
    An app that leaves before the answer owes its input; in the middle of it what passed
    besides. The worst case is given back to each budget.

    BerriAI/litellm#26672
    """
    await scene.clear()
    script: list[Step] = [*event_stream(words(api))[:-1], End.STALL]
    scene.upstream.play(*(script if began else [End.STALL]))
    data = request(
        api.request(max_tokens=1_000, user="ann"), path=api.path, key=key_of("many")
    )
    async with Connection.open(scene.pod.port) as app:
        await app.send(data)
        await scene.upstream.wait_for_requests(1)
        if began:
            await app.head()
            got = b""
            while got.count(api.delta("word ")) < WORDS:
                got += await app.chunk()
        held = await spendings(scene)
    await scene.pod.settled()
    await until(lambda: scene.charges("many"))
    [record] = await scene.pod.ledger.records("many")

    input_price, output_price = RATES[api.name]
    reserved = {name: level[1] for name, level in held.items() if name != TOKENS}
    assert min(reserved.values()) > 1_000 * output_price
    assert len(set(reserved.values())) == 1
    inputs, outputs = int(record["input_tokens"]), int(record["output_tokens"])
    assert record["outcome"] == "cut"
    assert inputs > 0
    assert (outputs > 0) == began
    cost = inputs * input_price + outputs * output_price
    assert record["cost_nanousd"] == str(cost)
    await expect_settled(scene, cost, inputs + outputs)


async def test_b03_what_was_cached_is_cheap_in_a_cut_stream_too(scene: Scene) -> None:
    """
    Anthropic tells at the beginning what of the input was cached. Who leaves then pays
    that at its own prices, and not at ten times as much.

    ENTERPILOT/GoModel#439
    """
    await scene.clear()
    opening = [
        ANTHROPIC.start(CACHED),
        ANTHROPIC.delta("Hello"),
        ANTHROPIC.delta(" you"),
    ]
    scene.upstream.play(*event_stream(opening)[:-1], End.STALL)
    data = request(ANTHROPIC.request(), path=ANTHROPIC.path, key=key_of("many"))
    async with Connection.open(scene.pod.port) as app:
        await app.send(data)
        await app.head()
        got = b""
        while opening[-1] not in got:
            got += await app.chunk()
    await scene.pod.settled()
    await until(lambda: scene.charges("many"))
    [record] = await scene.pod.ledger.records("many")

    output = int(record["output_tokens"])
    assert 1 <= output <= 4
    cost = 9 * 3_000 + 3_755 * 4_000 + 30_008 * 300 + output * 15_000
    assert record["cost_nanousd"] == str(cost)
    await expect_settled(scene, cost, 9 + 3_755 + 30_008 + output)


async def test_l17_a_ledger_that_dies_meanwhile_gets_the_exact_cost(
    scene: Scene,
) -> None:
    """
    What was admitted before, or without it where the policy says so, is booked to the
    nano-USD once it is back; what was refused meanwhile is not.

    BerriAI/litellm#35528
    """
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", Told(40, 480))))
    body = OPENAI.request(stream=False, max_tokens=500)
    before = asyncio.create_task(scene.call(body, key=key_of("many")))
    await scene.upstream.wait_for_requests(1)
    scene.pod.server.pause()
    try:
        opened = asyncio.create_task(scene.call(body, key=key_of("open")))
        refused = await scene.call(body, key=key_of("many"))
        await scene.upstream.wait_for_requests(2)
        gate.set()
        answers = await asyncio.gather(before, opened)
    finally:
        scene.pod.server.resume()

    assert [answer.status for answer in answers] == [200, 200]
    assert (refused.status, refused.refusal) == (503, "ledger_unavailable")
    assert json.loads(answers[0].body)["usage"]["completion_tokens"] == 480
    cost = 40 * 4_000 + 480 * 20_000
    await until(lambda: scene.charges("many"))
    await until(lambda: scene.charges("open"))
    await expect_settled(scene, cost, 520)
    assert list((await spendings(scene, "open")).values()) == [(cost, 0)]
    [record] = await scene.pod.ledger.records("open")
    assert (record["cost_nanousd"], record["flags"]) == (str(cost), "ledger_open")


async def test_l24_each_budget_gets_its_own_back(scene: Scene) -> None:
    """
    Calls of two users and two models at once: each budget has the cost of those that it
    is for, whichever order their holds came back in.

    tensorzero/tensorzero#3862
    """
    await scene.clear()
    # By model: the answer's usage. What it costs is by tests/cases/priced.py.
    told = {"gpt-4o": Told(11, 70), "gpt-4o-mini": Told(13, 30)}
    costs = {"gpt-4o": 11 * 4_000 + 70 * 20_000, "gpt-4o-mini": 13 * 1_000 + 30 * 2_000}
    scene.upstream.choose(
        lambda asked: [
            reply(OPENAI.reply("Hi.", told[json.loads(asked.body)["model"]]))
        ]
    )
    calls = [("ann", "gpt-4o"), ("bob", "gpt-4o-mini"), ("ann", "gpt-4o-mini")] * 4
    answers = await asyncio.gather(
        *(
            scene.call(
                OPENAI.request(stream=False, max_tokens=100, user=user, model=model),
                key=key_of("many"),
            )
            for user, model in calls
        )
    )
    await scene.pod.settled()

    assert {answer.status for answer in answers} == {200}
    found = (await scene.pod.ledger.snapshot("many")).spendings
    by_quota: dict[str, list[int]] = {}
    for (key, _), level in found.items():
        assert level.reserved == 0
        name = key.partition("|")[0].removeprefix("many.")
        by_quota.setdefault(name, []).append(level.spent)
    large, small = 4 * costs["gpt-4o"], 4 * costs["gpt-4o-mini"]
    total = large + 2 * small
    assert {name: sorted(spent) for name, spent in by_quota.items()} == {
        "budget_usd_per_month": [total],
        "budget_usd_per_month_by_key": [total],
        "budget_usd_per_month_by_user": sorted([small, large + small]),
        "budget_usd_per_month_by_route_model": sorted([large, 2 * small]),
        "budget_usd_per_week": [total],
        "budget_tokens_per_month": [4 * 81 + 8 * 43],
    }
