"""Requests that do not come whole, and providers that switch protocols."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import TOLD, Api, both_apis, story
from tests.cases.connection import Answer, Connection, chunked, request
from tests.cases.refusals import expect
from tests.cases.scene import STREAM_HEAD, Scene
from tests.pod import until
from tests.scripted_upstream import LAST_CHUNK, Pause, chunk, head, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
FREE = (0, 0)
IDLE_SECONDS = 2
LIMITS = {"upload_idle_timeout_ms": IDLE_SECONDS * 1_000, "upload_timeout_ms": 5_000}
UPLOAD = "/v1/files"
QUOTAS = [
    {"tokens_per_minute": 1, "capacity": 1_000_000},
    {"requests_per_minute": 1, "capacity": 100},
    {"concurrency": 1},
]
SWITCH = head(
    "101 Switching Protocols", [("upgrade", "websocket"), ("connection", "upgrade")]
)


def prepare(content: dict[str, Any]) -> None:
    """Let one path pass unread, with little patience."""
    content["providers"]["openai"]["unknown_paths"] = [f"POST {UPLOAD}"]
    content["timeouts"] = {"short": {"idle": f"{IDLE_SECONDS}s"}}
    content["route_timeouts"] = {"opaque": "short"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod with one slot, whose Envoy does not wait for long."""
    options = {"envoy_settings": LIMITS}
    async with Scene.open(quotas=QUOTAS, adapt=prepare, options=options) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Give a test the pod with an empty ledger."""
    return await opened.clear()


def begun(framing: str, path: str, body: bytes) -> bytes:
    """Return a request of which half the body is missing."""
    half = body[: len(body) // 2]
    if framing == "length":
        whole = request(body, path=path)
        return whole[: len(whole) - len(body) + len(half)]
    whole = request(path=path, chunks=[half])
    return whole.removesuffix(chunked(b""))


async def left_waiting(scene: Scene, data: bytes) -> Answer:
    """Return the answer to the request *data*, of which no more comes."""
    async with Connection.open(scene.pod.port) as app:
        await app.send(data)
        return await app.answer()


@both_apis
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_an_upload_that_stalls(scene: Scene, api: Api, framing: str) -> None:
    """
    It is ended, told so in the caller's dialect, reaches nobody and takes nothing: the
    only slot is free.
    """
    answer = await left_waiting(scene, begun(framing, api.path, api.request()))

    expect(answer, api, 408, "request_timeout")
    assert not scene.upstream.requests
    await scene.ledger_shows()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    after = await scene.call(api.request(stream=False), path=api.path)
    assert after.status == 200
    await scene.ledger_shows(CHARGED)


@both_apis
async def test_an_upload_that_never_ends(scene: Scene, api: Api) -> None:
    """A byte now and then does not keep a request alive for ever."""
    async with Connection.open(scene.pod.port) as app:
        await app.send(begun("length", api.path, api.request()))
        reading = asyncio.create_task(app.answer())
        while not reading.done():
            await app.send(b" ")
            await asyncio.sleep(0.3)
        answer = await reading

    expect(answer, api, 408, "request_timeout")
    assert not scene.upstream.requests
    await scene.ledger_shows()


async def test_an_unread_upload_that_stalls(scene: Scene) -> None:
    """What passes unread is ended by its route's idle time, and frees its slot."""
    answer = await left_waiting(scene, begun("length", UPLOAD, b"x" * 1_000))

    assert (answer.status, answer.refusal) == (408, "request_timeout")
    await scene.ledger_shows(FREE)
    scene.upstream.play(reply(b"{}"))
    assert (await scene.call(b"x" * 1_000, path=UPLOAD)).status == 200
    await scene.ledger_shows(FREE, FREE)


@both_apis
async def test_long_answers_are_not_hurt(scene: Scene, api: Api) -> None:
    """An answer may pause for longer than a request may, and last longer in all."""
    pieces = [chunk(piece) for piece in story(api)]
    pause = Pause(IDLE_SECONDS + 1)
    scene.upstream.play(pause, STREAM_HEAD, *pieces[:3], pause, *pieces[3:], LAST_CHUNK)
    answer = await scene.call(api.request(), path=api.path)

    assert answer.body == b"".join(story(api))
    await scene.ledger_shows(CHARGED)


@both_apis
@pytest.mark.parametrize("more", [b"", b"\x81\x05hello"])
async def test_a_provider_that_switches_protocols(
    scene: Scene, api: Api, more: bytes
) -> None:
    """
    An app that asked for no other protocol gets an error, and the connection of that
    provider is closed; nothing stays held.
    """
    scene.upstream.play(SWITCH + more)
    answer = await scene.call(api.request(), path=api.path)

    expect(answer, api, 502, "upstream_invalid")
    await until(lambda: scene.upstream.hang_ups > 0)
    await scene.pod.settled()
    [(_, output)] = await scene.charges()
    assert output == 0


@both_apis
async def test_an_app_that_wants_to_switch(scene: Scene, api: Api) -> None:
    """A WebSocket is refused by name, before anybody is asked."""
    headers = [("connection", "Upgrade"), ("upgrade", "websocket")]
    answer = await scene.call(api.request(), path=api.path, headers=headers)

    expect(answer, api, 403, "upgrade_not_metered")
    assert not scene.upstream.requests
    await scene.ledger_shows()
