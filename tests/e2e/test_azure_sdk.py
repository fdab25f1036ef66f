"""OpenAI's SDK for Azure, against a provider that plays exact bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncAzureOpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from tests.cases.apis import OPENAI, TOLD, Told, story
from tests.cases.openai_apis import EMBEDDINGS, RESPONSES
from tests.cases.scene import Scene
from tests.pod import CREDENTIAL, KEY, until
from tests.scripted_upstream import End, Hold, ReceivedRequest, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

VERSION = "2024-10-21"
SIDES = (TOLD.input, TOLD.output)
ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
NO_USAGE = b'"stream_options"'


def at_azure(content: dict[str, Any]) -> None:
    """Have Azure run all models of OpenAI's, one of them by another name."""
    provider = content["providers"]["openai"]
    provider |= {"dialect": "azure", "base_url": f"{provider['base_url']}/openai/v1"}
    content["models"]["renamed"] = {"provider": "openai", "upstream_model": "prod-2"}
    content["tenants"]["globex"]["quotas"] = [
        {"tokens_per_minute": 1, "capacity": 1_000}
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod before Azure."""
    async with Scene.open(adapt=at_azure) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Give a test the pod with an empty ledger."""
    return await opened.clear()


def client(scene: Scene, key: str = KEY, version: str = VERSION) -> AsyncAzureOpenAI:
    """Return the SDK as an app makes it."""
    return AsyncAzureOpenAI(
        azure_endpoint=f"http://127.0.0.1:{scene.pod.port}",
        api_key=key,
        api_version=version,
        max_retries=0,
    )


def received(scene: Scene) -> ReceivedRequest:
    """Return what Azure got: its own key, where it looks for it, and no other."""
    [request] = scene.upstream.requests
    assert request.header("api-key") == CREDENTIAL
    assert request.all("authorization") == []
    return request


async def charged(scene: Scene) -> tuple[int, int]:
    """Return what the only exchange was charged, input and output, once it was."""
    await until(lambda: scene.pod.ledger.nothing_held("acme"))

    async def is_recorded() -> bool:
        return bool(await scene.charges())

    await until(is_recorded)
    [sides] = await scene.charges()
    return sides


async def test_chat_of_a_deployment(scene: Scene) -> None:
    """The deployment is the model, in the path; what is reported is settled."""
    scene.upstream.play(reply(OPENAI.reply("Once.")))
    async with client(scene) as app:
        answer = await app.chat.completions.create(model="gpt-4o", messages=ASKED)

    assert answer.choices[0].message.content == "Once."
    assert received(scene).target == (
        f"/openai/deployments/gpt-4o/chat/completions?api-version={VERSION}"
    )
    await scene.ledger_shows(SIDES)
    [record] = await scene.pod.ledger.records()
    assert (record["route"], record["model"]) == ("chat_completions", "gpt-4o")


async def test_a_deployment_by_another_name(scene: Scene) -> None:
    """A model that the policy calls otherwise is called by its deployment's name."""
    scene.upstream.play(reply(EMBEDDINGS.reply("AAAAAA==", Told(TOLD.input, 0))))
    async with client(scene) as app:
        await app.embeddings.create(model="renamed", input="Hi")

    assert received(scene).target == (
        f"/openai/deployments/prod-2/embeddings?api-version={VERSION}"
    )
    assert await charged(scene) == (TOLD.input, 0)


@pytest.mark.parametrize("version", [VERSION, "2024-06-01"])
async def test_streams(scene: Scene, version: str) -> None:
    """A stream's usage is asked for where the version can tell it, else counted."""
    reports = version == VERSION
    pieces = [OPENAI.opening()[0], OPENAI.delta("Once upon a time"), *OPENAI.finish()]
    pieces += [OPENAI.report()] if reports else []
    scene.upstream.play(*event_stream([*pieces, OPENAI.end()]))
    async with client(scene, version=version) as app:
        stream = await app.chat.completions.create(
            model="gpt-4o", messages=ASKED, stream=True
        )
        chunks = [chunk async for chunk in stream]

    assert [chunk.usage for chunk in chunks] == [None] * 3
    assert (NO_USAGE in received(scene).body) is reports
    sides = await charged(scene)
    assert (sides == SIDES) is reports
    assert sides[1] > 0


async def test_responses(scene: Scene) -> None:
    """A response's model is in its body, and so it stays."""
    scene.upstream.play(*event_stream(story(RESPONSES)))
    async with client(scene, version="preview") as app:
        stream = await app.responses.create(model="renamed", input="Hi", stream=True)
        events = [event async for event in stream]

    assert events[-1].type == "response.completed"
    request = received(scene)
    assert request.target == "/openai/responses?api-version=preview"
    assert b'"prod-2"' in request.body
    await scene.ledger_shows(SIDES)


async def test_every_byte(scene: Scene) -> None:
    """What Azure sends reaches the app as it is, its filters' results too."""
    body = OPENAI.reply("Once.", prompt_filter_results=[{"prompt_index": 0}])
    scene.upstream.play(reply(body))
    answer = await scene.call(
        OPENAI.request(stream=False), path="/openai/v1/chat/completions"
    )

    assert (answer.status, answer.body) == (200, body)
    await scene.ledger_shows(SIDES)


async def read_on(
    stream: openai.AsyncStream[ChatCompletionChunk], passed: asyncio.Event
) -> None:
    """Read *stream* to its end, and tell when text has come."""
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            passed.set()


async def test_a_cut_stream(scene: Scene) -> None:
    """Of a stream that breaks off, what passed is charged."""
    pieces = [OPENAI.opening()[0], OPENAI.delta("Once upon a time there was a weir")]
    passed = asyncio.Event()
    steps = event_stream(pieces)[:-1]
    scene.upstream.play(*steps, Hold(passed), End.CLOSE)
    async with client(scene) as app:
        stream = await app.chat.completions.create(
            model="gpt-4o", messages=ASKED, stream=True
        )
        with pytest.raises(openai.APIConnectionError):
            await read_on(stream, passed)

    into, out_of = await charged(scene)
    assert into > 0
    assert out_of >= 7


async def test_refusals(scene: Scene) -> None:
    """Who is over a limit, or calls what is not there, reads it in Azure's form."""
    async with client(scene, "sk-tw-globex") as app:
        with pytest.raises(openai.BadRequestError) as never:
            await app.chat.completions.create(
                model="gpt-4o", messages=ASKED, max_tokens=5_000
            )
        with pytest.raises(openai.PermissionDeniedError) as unknown:
            await app.chat.completions.create(model="gpt-9", messages=ASKED)

    assert isinstance(never.value.body, dict)
    assert never.value.body["tokenweir"]["limit"] == "tokens_per_minute"
    assert unknown.value.code == "model_not_allowed"
    openai_path = await scene.call(OPENAI.request(stream=False))
    assert openai_path.status == 400
    assert b"azure" in openai_path.body
    assert scene.upstream.requests == []
