"""Google's Gemini API through the pod, against a provider that plays exact bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD, data, encoded
from tests.cases.connection import Answer, Connection, request
from tests.cases.scene import STREAM_HEAD, Scene
from tests.pod import CREDENTIAL, KEY, OTHER_KEY, until
from tests.scripted_upstream import (
    End,
    Hold,
    ReceivedRequest,
    chunk,
    event_stream,
    reply,
)

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MODEL = "/v1beta/models/gemini-2.5-flash"
BODY = encoded({"contents": [{"role": "user", "parts": [{"text": "Tell a story."}]}]})
USAGE = {
    "promptTokenCount": 10,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 7,
    "totalTokenCount": 22,
}
SIDES = (10, 12)
WORDS = "Once upon a time there was a weir, and it was old."


def piece(text: str, usage: dict[str, int] | None = None) -> dict[str, Any]:
    """Return a piece of an answer, the last one with *usage*."""
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": [{"text": text}]}
    }
    if usage is None:
        return {"candidates": [candidate], "modelVersion": "gemini-2.5-flash"}
    candidate["finishReason"] = "STOP"
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-flash",
    }


PIECES = [piece("Once"), piece(" upon"), piece(" a time.", USAGE)]


def at_google(content: dict[str, Any]) -> None:
    """Have Google beside the others; globex has few tokens."""
    content["providers"]["google"] = {
        "base_url": content["providers"]["openai"]["base_url"] + "/v1beta",
        "dialect": "gemini",
        "credential": "env:OPENAI_API_KEY",
    }
    google = {"provider": "google", "max_output_tokens": 8192}
    content["providers"]["openai"] |= {
        "base_url": content["providers"]["openai"]["base_url"] + "/v1beta/openai",
        "version_path": "",
    }
    content["models"] |= {
        "gemini-2.5-flash": google,
        "renamed": google | {"upstream_model": "gemini-2.5-flash"},
    }
    content["tenants"]["globex"]["quotas"] = [
        {"tokens_per_minute": 1, "capacity": 1_000},
        {"requests_per_minute": 1, "capacity": 1, "routes": ["count_tokens"]},
    ]
    content["caps"] = [{"output_tokens": 2_000, "tenants": ["acme"]}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod."""
    async with Scene.open(adapt=at_google) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Give a test the pod with an empty ledger."""
    return await opened.clear()


async def asked(scene: Scene, path: str, body: bytes = BODY, key: str = KEY) -> Answer:
    """Return the answer to *body*, with the key where Google's SDKs put it."""
    headers = [("x-goog-api-key", key)]
    return await scene.call(body, path=path, key=None, headers=headers)


def received(scene: Scene) -> ReceivedRequest:
    """Return what Google got: its own key, and no other."""
    [got] = scene.upstream.requests
    assert got.header("x-goog-api-key") == CREDENTIAL
    assert KEY not in got.target
    assert got.all("authorization") == []
    return got


async def test_an_answer(scene: Scene) -> None:
    """An answer passes byte by byte, and is settled as it reports: thoughts too."""
    body = encoded(piece("Once.", USAGE))
    scene.upstream.play(reply(body))
    answer = await asked(scene, f"{MODEL}:generateContent")

    assert (answer.status, answer.body) == (200, body)
    got = received(scene)
    assert got.target == f"{MODEL}:generateContent"
    assert json.loads(got.body)["generationConfig"] == {"maxOutputTokens": 2_000}
    await scene.ledger_shows(SIDES)
    [usage] = await scene.pod.ledger.usages("acme")
    assert (usage.cached_input_tokens, usage.reasoning_tokens) == (4, 7)
    [record] = await scene.pod.ledger.records()
    assert (record["route"], record["model"]) == (
        "generate_content",
        "gemini-2.5-flash",
    )


async def test_a_key_in_the_query(scene: Scene) -> None:
    """A key in the query pays, goes no further, and is in no log."""
    scene.upstream.play(*event_stream([data(each) for each in PIECES]))
    path = f"/v1beta/models/renamed:streamGenerateContent?alt=sse&key={KEY}"
    answer = await scene.call(BODY, path=path, key=None)

    assert answer.body == b"".join(data(each) for each in PIECES)
    assert received(scene).target == f"{MODEL}:streamGenerateContent?alt=sse"
    await scene.ledger_shows(SIDES)
    logs = [each.log.read_text() for each in scene.pod.processors]
    assert KEY not in "".join([*logs, scene.pod.envoy.log()])


async def test_an_array_of_pieces(scene: Scene) -> None:
    """A stream without events is one array, whose last element reports."""
    parts = [b"[" + encoded(PIECES[0]), *(b",\r\n" + encoded(p) for p in PIECES[1:])]
    steps = event_stream([*parts, b"]"])
    scene.upstream.play(*steps)
    answer = await asked(scene, f"{MODEL}:streamGenerateContent")

    assert answer.body == b"".join([*parts, b"]"])
    await scene.ledger_shows(SIDES)
    [record] = await scene.pod.ledger.records()
    assert record["source"] == "reported"


async def test_a_cut_stream(scene: Scene) -> None:
    """Of a stream that breaks off, what passed is charged."""
    passed = asyncio.Event()
    first = chunk(data(piece(WORDS)))
    scene.upstream.play(STREAM_HEAD, first, Hold(passed), End.CLOSE)
    path = f"{MODEL}:streamGenerateContent?alt=sse"
    asking = request(BODY, path=path, key=None, headers=[("x-goog-api-key", KEY)])
    async with Connection.open(scene.pod.port) as app:
        await app.send(asking)
        await app.head()
        assert WORDS.encode() in await app.chunk()
        passed.set()
        await until(lambda: scene.pod.ledger.nothing_held("acme"))

    async def is_recorded() -> bool:
        return bool(await scene.charges())

    await until(is_recorded)
    [(into, out_of)] = await scene.charges()
    assert into > 0
    assert out_of >= 10


async def test_counting_and_embeddings(scene: Scene) -> None:
    """A count costs no tokens, and vectors only what goes in."""
    scene.upstream.play(reply(b'{"totalTokens": 5}'))
    counted = await asked(scene, f"{MODEL}:countTokens")
    scene.upstream.play(reply(b'{"embedding": {"values": [0.1]}}'))
    body = encoded({"content": {"parts": [{"text": "Tell a story."}]}})
    embedded = await asked(scene, f"{MODEL}:embedContent", body)

    assert (counted.status, embedded.status) == (200, 200)

    async def are_recorded() -> bool:
        return len(await scene.charges()) > 1

    await until(are_recorded)
    free, (into, out_of) = await scene.charges()
    assert free == (0, 0)
    assert into > 0
    assert out_of == 0


async def test_the_root_for_other_sdks(scene: Scene) -> None:
    """Google's API for OpenAI's SDKs has a root of its own."""
    body = OPENAI.reply("Once.")
    scene.upstream.play(reply(body))
    answer = await scene.call(OPENAI.request(stream=False))

    assert answer.body == body
    [got] = scene.upstream.requests
    assert got.target == "/v1beta/openai/chat/completions"
    await scene.ledger_shows((TOLD.input, TOLD.output))


async def test_refusals(scene: Scene) -> None:
    """Who is refused reads it as Google would say it, when to come back included."""
    unknown = await asked(scene, f"{MODEL}:generateContent", key="nobody")
    malformed = await asked(scene, f"{MODEL}:generateContent", b"[]")
    wrong = await asked(scene, "/v1beta/models/gpt-4o:generateContent")
    scene.upstream.play(reply(b'{"totalTokens": 5}'))
    first = await asked(scene, f"{MODEL}:countTokens", key=OTHER_KEY)
    over = await asked(scene, f"{MODEL}:countTokens", key=OTHER_KEY)

    statuses = [
        (answer.status, answer.json()["error"]["status"])
        for answer in (unknown, malformed, wrong, over)
    ]
    assert first.status == 200
    assert statuses == [
        (401, "UNAUTHENTICATED"),
        (400, "INVALID_ARGUMENT"),
        (400, "INVALID_ARGUMENT"),
        (429, "RESOURCE_EXHAUSTED"),
    ]
    error = over.json()["error"]
    assert error["code"] == 429
    [retry] = error["details"]
    assert retry["retryDelay"].endswith("s")
    assert error["tokenweir"]["limit"] == "requests_per_minute"
    assert len(scene.upstream.requests) == 1
