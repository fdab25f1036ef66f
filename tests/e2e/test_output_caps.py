"""Caps on output through a real Envoy, as apps with either SDK see them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.cases.apis import ANTHROPIC, OPENAI, QUESTION, Told
from tests.cases.priced import overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.scripted_upstream import event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CAP, UNSET = 300, 200
LARGE_NANOUSD, SONNET_NANOUSD = 20_000, 15_000
TOLD = Told(11, CAP)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """One pod: acme is capped, others are not; one of them is downgraded as well."""
    prices = overlay(tmp_path_factory.mktemp("prices"))
    cheaper = {"downgrade_to": "gpt-4o-mini", "hard_limit_tokens": 90_000}

    def adapt(content: dict[str, Any]) -> None:
        spent = {"budget_tokens": 1_000, "per": "day", "on_exceeded": cheaper}
        tenants(free=[{"concurrency": 9}], cheaper=[spent])(content)
        content["prices"] = {"overlays": [prices]}
        content["caps"] = [
            {"output_tokens": CAP, "if_unset": UNSET, "tenants": ["acme"]},
            {"output_tokens": 50, "models": ["gpt-4o-mini"]},
        ]

    async with Scene.open(adapt=adapt) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def openai(scene: Scene) -> AsyncIterator[AsyncOpenAI]:
    """OpenAI's SDK as an app makes it, before a fresh start."""
    await scene.clear()
    async with AsyncOpenAI(base_url=scene.pod.url, api_key="sk-tw-acme") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def anthropic(scene: Scene) -> AsyncIterator[AsyncAnthropic]:
    """Anthropic's SDK as an app makes it, before a fresh start."""
    await scene.clear()
    base = scene.pod.url.removesuffix("/v1")
    async with AsyncAnthropic(base_url=base, api_key="sk-tw-acme") as made:
        yield made


def sent(scene: Scene) -> dict[str, Any]:
    """Return the body that the provider was sent last."""
    body: dict[str, Any] = json.loads(scene.upstream.requests[-1].body)
    return body


async def recorded(scene: Scene, tenant: str = "acme") -> dict[str, str]:
    """Return the newest record of *tenant*, once nothing is held."""
    await scene.pod.settled()
    return dict((await scene.pod.ledger.records(tenant))[-1])


def at_cap() -> bytes:
    """Return an answer of OpenAI's that ended at its cap."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "Once upon"},
        "finish_reason": "length",
    }
    return OPENAI.reply("", TOLD, choices=[choice])


async def test_openai(scene: Scene, openai: AsyncOpenAI) -> None:
    """The provider is told the lower cap, the app by a header; the record has both."""
    scene.upstream.play(reply(at_cap()))
    raw = await openai.chat.completions.with_raw_response.create(
        model="gpt-4o",
        max_tokens=2_000,
        messages=[{"role": "user", "content": QUESTION}],
    )
    answer = raw.parse()
    record = await recorded(scene)

    assert answer.choices[0].finish_reason == "length"
    assert raw.headers["x-tokenweir-output-cap"] == f"{CAP};from=2000"
    assert sent(scene)["max_tokens"] == CAP
    assert "max_completion_tokens" not in sent(scene)
    assert (record["capped_from"], record["output_cap"]) == ("2000", str(CAP))
    assert record["flags"] == "cap_reached"
    assert record["cap_saved_nanousd"] == str(1_700 * LARGE_NANOUSD)


async def test_openai_streamed_without_a_cap(scene: Scene, openai: AsyncOpenAI) -> None:
    """One is set; the app sees where the answer ended, and no report it did not ask."""
    end = [OPENAI.choice({}, "length"), OPENAI.report(TOLD), OPENAI.end()]
    scene.upstream.play(*event_stream([OPENAI.delta("Once"), *end]))
    stream = await openai.chat.completions.create(
        model="gpt-4o", stream=True, messages=[{"role": "user", "content": QUESTION}]
    )
    events = [event async for event in stream]
    record = await recorded(scene)

    assert [each.choices[0].finish_reason for each in events] == [None, "length"]
    assert stream.response.headers["x-tokenweir-output-cap"] == f"{UNSET};from=unset"
    assert sent(scene)["max_completion_tokens"] == UNSET
    assert (record["capped_from"], record["output_cap"]) == ("unset", str(UNSET))
    assert int(record["cap_saved_nanousd"]) == (4_096 - UNSET) * LARGE_NANOUSD


async def test_anthropic(scene: Scene, anthropic: AsyncAnthropic) -> None:
    """The same in the other API, where every app has a cap of its own."""
    scene.upstream.play(
        reply(ANTHROPIC.reply("Once upon", TOLD, stop_reason="max_tokens"))
    )
    raw = await anthropic.messages.with_raw_response.create(
        model="claude-sonnet-5",
        max_tokens=1_000,
        messages=[{"role": "user", "content": QUESTION}],
    )
    answer = await raw.parse()
    record = await recorded(scene)

    assert answer.stop_reason == "max_tokens"
    assert raw.headers["x-tokenweir-output-cap"] == f"{CAP};from=1000"
    assert sent(scene)["max_tokens"] == CAP
    assert record["flags"] == "cap_reached"
    assert record["cap_saved_nanousd"] == str(700 * SONNET_NANOUSD)


async def test_anthropic_streamed_below_its_cap(
    scene: Scene, anthropic: AsyncAnthropic
) -> None:
    """An answer that ends by itself is capped, and has saved nothing by it."""
    scene.upstream.play(
        *event_stream(
            [
                *ANTHROPIC.opening(Told(11, 7)),
                ANTHROPIC.delta("Once"),
                *ANTHROPIC.finish(),
                ANTHROPIC.report(Told(11, 7)),
                ANTHROPIC.end(),
            ]
        )
    )
    async with anthropic.messages.stream(
        model="claude-sonnet-5",
        max_tokens=1_000,
        messages=[{"role": "user", "content": QUESTION}],
    ) as stream:
        answer = await stream.get_final_message()
    record = await recorded(scene)

    assert answer.stop_reason == "end_turn"
    assert stream.response.headers["x-tokenweir-output-cap"] == f"{CAP};from=1000"
    assert sent(scene)["max_tokens"] == CAP
    assert (record["output_cap"], record["flags"]) == (str(CAP), "")
    assert record["cap_saved_nanousd"] == "0"


async def test_every_other_byte_is_the_apps(scene: Scene) -> None:
    """Blanks, order, spelling of numbers, members that nobody knows: all stay."""
    await scene.clear()
    scene.upstream.play(reply(at_cap()))
    body = (
        b'{ "max_tokens" :2000,"temperature":1.0, "model" : "gpt-4o" ,'
        b'"messages":[ {"role":"user","content":"\\u00fc"}],"x":[1e5, {"max_tokens":9}] }'
    )
    answer = await scene.call(body)

    assert answer.status == 200
    assert scene.upstream.requests[-1].body == body.replace(b":2000", b":300")


async def test_whoever_is_not_capped(scene: Scene) -> None:
    """Another tenant's request passes byte by byte, and nothing is told."""
    await scene.clear()
    scene.upstream.play(reply(at_cap()))
    body = OPENAI.request(stream=False, max_tokens=2_000)
    answer = await scene.call(body, key=key_of("free"))
    record = await recorded(scene, "free")

    assert answer.header("x-tokenweir-output-cap") is None
    assert scene.upstream.requests[-1].body == body
    assert (record["capped_from"], record["output_cap"], record["flags"]) == ("",) * 3


async def test_a_downgrade_with_a_cap_of_its_own(scene: Scene) -> None:
    """The cheaper model's cap is written beside its name, and both are told."""
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 985))))
    body = OPENAI.request(stream=False, max_tokens=900)
    first = await scene.call(body, key=key_of("cheaper"))
    await scene.pod.settled()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 7), model="gpt-4o-mini")))
    second = await scene.call(body, key=key_of("cheaper"))
    record = await recorded(scene, "cheaper")

    assert first.header("x-tokenweir-output-cap") is None
    assert second.header("x-tokenweir-downgraded-from") == "gpt-4o"
    assert second.header("x-tokenweir-output-cap") == "50;from=900"
    edited = body.replace(b'"gpt-4o"', b'"gpt-4o-mini"').replace(b": 900", b": 50")
    assert scene.upstream.requests[-1].body == edited
    cost = 11 * 1_000 + 7 * 2_000
    assert record["cost_nanousd"] == str(cost)
    assert record["saved_nanousd"] == str(11 * 4_000 + 7 * LARGE_NANOUSD - cost)


async def test_thinking_without_room(scene: Scene) -> None:
    """Refused in the API's own shape before anything is sent."""
    await scene.clear()
    thinking = {"type": "enabled", "budget_tokens": 4_000}
    body = ANTHROPIC.request(stream=False, max_tokens=8_000, thinking=thinking)
    answer = await scene.call(body, path=ANTHROPIC.path)

    assert (answer.status, answer.refusal) == (400, "malformed_request")
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "300 tokens" in answer.json()["error"]["message"]
    assert scene.upstream.requests == []


async def test_what_envoy_tries_again_has_the_cap_too(scene: Scene) -> None:
    """A retry sends what was decided, and is one exchange with one hold."""
    await scene.clear()
    scene.upstream.play_next(reply(b"{}", "503 Service Unavailable"))
    scene.upstream.play(reply(at_cap()))
    body = OPENAI.request(stream=False, max_tokens=2_000)
    answer = await scene.call(body)
    record = await recorded(scene)

    assert answer.status == 200
    bodies = {each.body for each in scene.upstream.requests}
    assert bodies == {body.replace(b": 2000", b": 300")}
    assert len(scene.upstream.requests) == 2
    assert record["requests"] == "2"
