"""S04: what is nested deeply breaks nothing, neither as a question nor as an answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, WORDS, Api, both_apis, story
from tests.cases.refusals import expect
from tests.cases.scene import Scene
from tests.cases.stage import Stage
from tests.scripted_upstream import reply
from tokenweir.core.json_text import MAX_DEPTH

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
MARK = '"@"'
DEPTHS = [MAX_DEPTH + 1, 1_000, 10_000, 20_000, 400_000]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod without limits."""
    async with Scene.open() as opened:
        yield opened


def lists(depth: int) -> str:
    """Return arrays inside of arrays."""
    return "[" * depth + "]" * depth


def objects(depth: int) -> str:
    """Return objects inside of objects, as a schema has them."""
    return '{"properties":' * depth + "{}" + "}" * depth


def mixed(depth: int) -> str:
    """Return both in turn, with strings that look like them."""
    pairs = depth // 2
    return '[{"]}\\"":' * pairs + lists(1 + depth % 2) + "}]" * pairs


def unclosed(depth: int) -> str:
    """Return arrays without an end."""
    return "[" * depth


SHAPES: list[Callable[[int], str]] = [lists, objects, mixed, unclosed]

OPENAI_PLACES: dict[str, dict[str, Any]] = {
    "an ignored member": {"x": "@"},
    "metadata": {"metadata": {"a": "@"}},
    "a schema": {"tools": [{"type": "function", "function": {"name": "f", "parameters": "@"}}]},
    "a format": {"response_format": {"type": "json_schema", "json_schema": {"schema": "@"}}},
    "messages": {"messages": "@"},
    "content": {"messages": [{"role": "user", "content": "@"}]},
    "a part": {"messages": [{"role": "user", "content": [{"type": "text", "text": "@"}]}]},
    "the model": {"model": "@"},
    "the cap": {"max_tokens": "@"},
}  # fmt: skip
ANTHROPIC_PLACES: dict[str, dict[str, Any]] = {
    "an ignored member": {"x": "@"},
    "metadata": {"metadata": {"user_id": "@"}},
    "a schema": {"tools": [{"name": "f", "input_schema": "@"}]},
    "system": {"system": [{"type": "text", "text": "@"}]},
    "a tool's result": {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "@"}]}]},
    "a tool's input": {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": "@"}]}]},
    "content": {"messages": [{"role": "user", "content": "@"}]},
}  # fmt: skip
PLACES: list[tuple[Api, str, dict[str, Any]]] = [
    *((OPENAI, name, members) for name, members in OPENAI_PLACES.items()),
    *((ANTHROPIC, name, members) for name, members in ANTHROPIC_PLACES.items()),
]
places = pytest.mark.parametrize(
    ("api", "members"),
    [(api, members) for api, _, members in PLACES],
    ids=[f"{api.name}: {name}" for api, name, _ in PLACES],
)


def body_of(api: Api, members: dict[str, Any], nested: str) -> bytes:
    """Return a request with *nested* in the place that *members* mark."""
    usual = json.loads(api.request(stream=False))
    text = json.dumps(usual | members)
    assert text.count(MARK) == 1
    return text.replace(MARK, nested).encode()


async def still_serves(scene: Scene, pid: int) -> None:
    """Demand that the next request is served, by the same process, without faults."""
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    answer = await scene.call(OPENAI.request(stream=False))

    [processor] = scene.pod.processors
    assert answer.status == 200
    assert processor.process.poll() is None
    assert processor.process.pid == pid
    assert processor.count("fault") == 0
    await scene.ledger_shows(CHARGED)


@places
async def test_s04_a_request_is_refused(
    scene: Scene, api: Api, members: dict[str, Any]
) -> None:
    """
    A body that is nested above the bound, wherever, is a bad request in the API's own
    shape, and the next one is served.

    flop-labs/technocore-chat#130, antirez/ds4#43, raullenchai/Rapid-MLX#798
    """
    await scene.clear()
    pid = scene.pod.processors[0].process.pid
    for shape in SHAPES:
        for depth in DEPTHS:
            body = body_of(api, members, shape(depth))
            expect(await scene.call(body, path=api.path), api, 400, "malformed_request")

    assert not scene.upstream.requests
    await still_serves(scene, pid)


@both_apis
@pytest.mark.parametrize("shape", [*SHAPES, objects])
async def test_s04_nothing_but_depth(
    scene: Scene, api: Api, shape: Callable[[int], str]
) -> None:
    """
    A body that is nothing else is refused as well. ggml-org/llama.cpp#27434
    """
    await scene.clear()
    pid = scene.pod.processors[0].process.pid
    for depth in [*DEPTHS, 1_000_000]:
        body = shape(depth).encode()[: 8 * 1024 * 1024]
        expect(await scene.call(body, path=api.path), api, 400, "malformed_request")

    await still_serves(scene, pid)


@both_apis
@pytest.mark.parametrize("shape", [lists, objects])
async def test_s04_what_apps_nest_passes(
    scene: Scene, api: Api, shape: Callable[[int], str]
) -> None:
    """
    A schema of 100 levels is no attack: it goes on as it was written, and is counted.

    ggml-org/llama.cpp#27434
    """
    await scene.clear()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    places = OPENAI_PLACES if api is OPENAI else ANTHROPIC_PLACES
    body = body_of(api, places["an ignored member"], shape(100))
    schema = body_of(api, places["a schema"], objects(100))

    answers = [await scene.call(each, path=api.path) for each in (body, schema)]

    assert [answer.status for answer in answers] == [200, 200]
    assert [received.body for received in scene.upstream.requests] == [body, schema]
    await scene.ledger_shows(CHARGED, CHARGED)


NESTED = [shape(depth) for shape in SHAPES for depth in (200, 2_000, 20_000)]


@both_apis
async def test_s04_a_reply_passes(stage: Stage, api: Api) -> None:
    """
    A reply that is nested deeply arrives as it is, and is charged by its usage or by
    its size. raullenchai/Rapid-MLX#798
    """
    whole = api.reply("Once upon a time there was a weir.")
    for nested in NESTED:
        first = b'{"x":' + nested.encode() + b"," + whole[1:]
        last = whole[:-1] + b',"x":' + nested.encode() + b"}"
        for body in (first, last, nested.encode()):
            asked = api.request(stream=False)
            answer, settled = await stage.ask(api, [reply(body)], asked)

            assert (answer.status, answer.body) == (200, body)
            if settled.source == "reported":
                assert settled.usage == TOLD.usage
            else:
                assert settled.usage.total_input_tokens > 0
                assert settled.usage.total_output_tokens > 0
    assert stage.pod.processors[0].count("fault") == 0


@both_apis
async def test_s04_a_stream_passes(stage: Stage, api: Api) -> None:
    """
    An event that is nested deeply arrives as it is, and what is behind it is read.

    raullenchai/Rapid-MLX#798
    """
    for nested in NESTED:
        begun, rest = story(api)[:3], story(api)[3:]
        event = f'data: {{"type":"ping","x":{nested}}}\n\n'.encode()
        _, settled = await stage.stream(api, [*begun, event, *rest])

        assert settled.usage == TOLD.usage
        assert settled.source == "reported"
    assert stage.pod.processors[0].count("fault") == 0


@both_apis
async def test_s04_deltas_that_cannot_be_read(stage: Stage, api: Api) -> None:
    """
    Words that stand in an event that is nested too deeply are estimated, not free, if
    no report comes. raullenchai/Rapid-MLX#798
    """
    deep = lists(20_000).encode()
    deltas = [
        api.delta(word).replace(b"data: {", b'data: {"x":' + deep + b",")
        for word in WORDS
    ]
    _, settled = await stage.stream(api, [*api.opening(), *deltas])

    assert settled.usage.total_output_tokens > 0
    assert settled.source in ("counted", "estimated")
