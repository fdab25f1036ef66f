"""B03, B06, B09, B11: what an exchange costs, to the nano-USD, and what has no price."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.cases.apis import ANTHROPIC, OPENAI, Api, story
from tests.cases.priced import add_models, overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import until
from tests.scripted_upstream import Hold, Step, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

DAILY = [{"budget_usd": 1, "per": "day"}]
SHADOW = [{"budget_usd": 0.000001, "per": "day", "mode": "shadow"}]
# A typo with a dot, a name that only begins like a known one, an entry without prices.
UNKNOWN = ["gpt-4o.mini", "gpt-4o-next", "empty"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod that knows prices, and a tenant with a budget of money."""
    prices = overlay(tmp_path_factory.mktemp("prices"))

    def adapt(content: dict[str, Any]) -> None:
        tenants(frugal=DAILY, shade=SHADOW)(content)
        add_models(content, "free", "brand-new", "fine", *UNKNOWN)
        content["prices"] = {"overlays": [prices]}

    async with Scene.open(adapt=adapt) as opened:
        yield opened


async def costs(scene: Scene, tenant: str = "acme") -> list[tuple[str, str]]:
    """Return cost and flags of every record."""
    records = await scene.pod.ledger.records(tenant)
    return [(record["cost_nanousd"], record["flags"]) for record in records]


CACHED = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920},
}
WRITTEN = {
    "input_tokens": 9,
    "cache_creation_input_tokens": 3755,
    "cache_read_input_tokens": 30008,
    "output_tokens": 16,
}
AUDIO = {
    "prompt_tokens": 10,
    "completion_tokens": 592,
    "completion_tokens_details": {"text_tokens": 110, "audio_tokens": 482},
}


async def cost_of(
    scene: Scene,
    usage: dict[str, Any],
    tier: str | None = None,
    api: Api = OPENAI,
    **members: Any,
) -> int:
    """Return what an answer with *usage* cost, streamed and not."""
    found: set[str] = set()
    told = OPENAI.chunk(choices=[], usage=usage, service_tier=tier)
    streams: dict[bool, list[Step]] = {
        False: [reply(api.reply("Hi.", usage=usage, service_tier=tier))],
        True: event_stream([*story(OPENAI)[:-2], told, OPENAI.end()]),
    }
    # Anthropic's streams tell their figures twice: see test_b03_token_classes.py.
    for streamed in (False, True) if api is OPENAI else (False,):
        await scene.clear()
        scene.upstream.play(*streams[streamed])
        body = api.request(stream=streamed, **members)
        answer = await scene.call(body, path=api.path)
        assert answer.status == 200
        await scene.pod.settled()
        [(cost, flags)] = await costs(scene)
        assert flags == ""
        found.add(cost)
    [cost] = found
    return int(cost)


async def test_b03_cached_tokens_have_their_own_price(scene: Scene) -> None:
    """
    What was cached is a part of OpenAI's prompt, and beside Anthropic's.

    BerriAI/litellm#6215
    """
    assert await cost_of(scene, CACHED) == 86 * 4_000 + 1920 * 1_000 + 300 * 20_000
    assert await cost_of(scene, WRITTEN, api=ANTHROPIC) == (
        9 * 3_000 + 3755 * 4_000 + 30008 * 300 + 16 * 15_000
    )


async def test_b03_fractions_are_rounded_up_once(scene: Scene) -> None:
    """
    Prices are finer than a nano-USD, and costs are whole ones: what is left over of all
    classes together makes one more, and not one of each.

    mozilla-ai/otari#198
    """
    # 86 at 0.123457, 1,920 at 0.012346, 300 at 0.765432 nano-USD: 263,951.222 in all.
    assert await cost_of(scene, CACHED, model="fine") == 263_952


async def test_b09_the_tier_that_answered_decides(scene: Scene) -> None:
    """
    Half the price where the response says flex, whatever was asked for.

    BerriAI/litellm#37046
    """
    flex = 86 * 2_000 + 1920 * 500 + 300 * 10_000

    assert await cost_of(scene, CACHED, "flex") == flex
    assert await cost_of(scene, CACHED, "default") == 2 * flex


async def test_b11_sound_has_its_own_price(scene: Scene) -> None:
    """
    Tokens of sound are not billed as text.

    BerriAI/litellm#19771
    """
    expected = 10 * 4_000 + 110 * 20_000 + 482 * 80_000

    assert await cost_of(scene, AUDIO) == expected


async def test_b06_without_a_price_money_is_not_spent(scene: Scene) -> None:
    """
    A model whose price nobody knows is refused where a budget of money applies.

    supernovae-st/nika#1368: a typo with a dot cost nothing.
    """
    await scene.clear()
    answer = await scene.call(
        OPENAI.request(stream=False, model="brand-new"), key=key_of("frugal")
    )

    assert (answer.status, answer.refusal) == (403, "model_unpriced")
    assert "brand-new" in answer.json()["error"]["message"]
    assert answer.detail["retryable"] is False
    assert scene.upstream.requests == []


@pytest.mark.parametrize("name", UNKNOWN)
async def test_b06_almost_a_known_name_is_unknown(scene: Scene, name: str) -> None:
    """
    Nothing is taken for another model's price, nor an entry without prices for free.

    supernovae-st/nika#1368, majiayu000/litellm-rs#831
    """
    await scene.clear()
    body = OPENAI.request(stream=False, model=name)
    answer = await scene.call(body, key=key_of("frugal"))

    assert (answer.status, answer.refusal) == (403, "model_unpriced")
    assert scene.upstream.requests == []
    await scene.pod.settled()
    assert not (await scene.pod.ledger.snapshot("frugal")).spendings


async def test_b06_a_budget_in_shadow_mode_refuses_nothing(scene: Scene) -> None:
    """
    It counts what has a price, above its amount too, and lets pass what has none.

    BerriAI/litellm#36561
    """
    await scene.clear()
    answers = []
    for name in ("gpt-4o", "gpt-4o", "brand-new"):
        scene.upstream.play(reply(OPENAI.reply("Hi.", model=name)))
        body = OPENAI.request(stream=False, model=name)
        answers.append(await scene.call(body, key=key_of("shade")))
        await scene.pod.settled()

    assert [answer.status for answer in answers] == [200] * 3
    cost = 11 * 4_000 + 7 * 20_000
    told = [(str(cost), ""), (str(cost), ""), ("0", "unpriced")]
    assert await costs(scene, "shade") == told
    [level] = (await scene.pod.ledger.snapshot("shade")).spendings.values()
    assert (level.spent, level.reserved) == (2 * cost, 0)


async def test_b06_a_ceiling_is_what_the_unknown_costs(scene: Scene) -> None:
    """
    With a ceiling in the policy they pass, and spend the budget at its prices.

    BerriAI/litellm#36561
    """
    await scene.clear()
    path, [processor] = scene.pod.policy_path, scene.pod.processors
    before = path.read_text()
    content = yaml.safe_load(before)
    ceiling = {"input_usd_per_million": 20, "output_usd_per_million": 100}
    content["prices"]["ceiling"] = ceiling
    loaded = processor.count("policy_loaded")
    path.write_text(yaml.safe_dump(content))
    try:
        await until(lambda: processor.count("policy_loaded") > loaded)
        scene.upstream.play(reply(OPENAI.reply("Hi.", model="brand-new")))
        body = OPENAI.request(stream=False, model="brand-new", max_tokens=900)
        answer = await scene.call(body, key=key_of("frugal"))
        await scene.pod.settled()
    finally:
        path.write_text(before)
        await until(lambda: processor.count("policy_loaded") > loaded + 1)

    assert answer.status == 200
    cost = 11 * 20_000 + 7 * 100_000
    assert await costs(scene, "frugal") == [(str(cost), "")]
    [level] = (await scene.pod.ledger.snapshot("frugal")).spendings.values()
    assert (level.spent, level.reserved) == (cost, 0)


async def test_b06_without_a_budget_it_is_told(scene: Scene) -> None:
    """
    Elsewhere it passes, flagged: its cost is not known, and nobody says that it is 0.

    BerriAI/litellm#36561
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", model="brand-new")))
    answer = await scene.call(OPENAI.request(stream=False, model="brand-new"))

    assert answer.status == 200
    await scene.pod.settled()
    assert await costs(scene) == [("0", "unpriced")]
    [processor] = scene.pod.processors
    assert processor.metric("tokenweir_unpriced_total") >= 1


async def test_b09_a_tier_without_a_price_is_not_the_default_one(scene: Scene) -> None:
    """
    Asked for: refused. Served all the same: it costs what was reserved for it.

    BerriAI/litellm#13810
    """
    await scene.clear()
    refused = await scene.call(
        OPENAI.request(stream=False, service_tier="priority"), key=key_of("frugal")
    )
    assert (refused.status, refused.refusal) == (403, "model_unpriced")

    scene.upstream.play(reply(OPENAI.reply("Hi.", service_tier="priority")))
    answer = await scene.call(
        OPENAI.request(stream=False, max_tokens=100), key=key_of("frugal")
    )
    assert answer.status == 200
    await scene.pod.settled()
    [(cost, flags)] = await costs(scene, "frugal")
    assert flags == "unpriced"
    assert int(cost) > 100 * 20_000


async def test_a_model_that_is_free_passes_a_spent_budget(scene: Scene) -> None:
    """What costs nothing is not refused for want of money."""
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play_next(Hold(gate), reply(OPENAI.reply("Hi.")))
    scene.upstream.play(reply(OPENAI.reply("Hi.", model="free")))
    costly = OPENAI.request(stream=False, max_tokens=16_000, n=3)
    first = asyncio.create_task(scene.call(costly, key=key_of("frugal")))
    await scene.upstream.wait_for_requests(1)

    refused = await scene.call(costly, key=key_of("frugal"))
    free = OPENAI.request(stream=False, model="free", max_tokens=900)
    passed = await scene.call(free, key=key_of("frugal"))
    gate.set()

    assert (refused.status, refused.refusal) == (429, "budget_exhausted")
    assert (passed.status, (await first).status) == (200, 200)
    await scene.pod.settled()
    told = sorted(cost for cost, _ in await costs(scene, "frugal"))
    assert told == ["0", str(11 * 4_000 + 7 * 20_000)]
