"""E06: a body that was edited has the length that is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, Told, both_apis, story
from tests.cases.scene import Scene
from tests.pod import KEY
from tests.scripted_upstream import ReceivedRequest, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
# As apps call it, and as the provider does.
RENAMED = {
    "gpt-4o": "gpt-4o",  # 0
    "gpt-4": "gpt-4o",  # +1
    "gpt-4o1": "gpt-4o",  # -1
    "short": "gpt-4o-mini-2024-07-18-a-much-longer-name",
    "a-long-name-that-is-made-much-shorter-upstream": "o1",
    "long": "g" * 200,
}
CLAUDES = {
    "claude-sonnet-5": "claude-sonnet-5",
    "claude": "claude-sonnet-4-5-20250929",
    "claude-that-has-a-long-name": "c1",
}
TIMES = 'x","model":"evil","y":"'  # looks like a member, and is a text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod that renames models."""
    models = {
        name: {"provider": "openai", "upstream_model": upstream}
        for name, upstream in RENAMED.items()
    }
    models |= {
        name: {"provider": "anthropic", "upstream_model": upstream}
        for name, upstream in CLAUDES.items()
    }
    quotas = [{"tokens_per_minute": 600_000_000}]
    async with Scene.open(quotas=quotas, models=models) as opened:
        yield opened


def length_is_true(received: ReceivedRequest) -> None:
    """Demand one content-length, of as many bytes as there are, and no chunks."""
    assert received.header("content-length") == str(len(received.body))
    assert received.all("transfer-encoding") == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", [*RENAMED, *CLAUDES])
async def test_e06_a_renamed_model(scene: Scene, name: str, stream: bool) -> None:
    """
    A model that gets a longer, shorter or equal name: the length told is the length.

    rossoctl/cortex#820, envoyproxy/envoy#38291, envoyproxy/envoy#28515
    """
    await scene.clear()
    api: Api = OPENAI if name in RENAMED else ANTHROPIC
    if stream:
        scene.upstream.play(*event_stream(story(api)))
    else:
        scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    body = api.request(stream=stream, asked=False, model=name)

    answer = await scene.call(body, path=api.path)

    assert answer.status == 200
    [received] = scene.upstream.requests
    length_is_true(received)
    wanted = json.loads(body) | {"model": (RENAMED | CLAUDES)[name]}
    if stream and api is OPENAI:
        wanted["stream_options"] = {"include_usage": True}
    assert json.loads(received.body) == wanted
    assert list(json.loads(received.body)) == list(wanted)
    await scene.ledger_shows(CHARGED)


@pytest.mark.parametrize("size_bytes", [100_000, 1_000_000, 5_000_000])
async def test_e06_a_large_body(scene: Scene, size_bytes: int) -> None:
    """Also of a body that fills buffers. envoyproxy/envoy#29536"""
    await scene.clear()
    scene.upstream.play(*event_stream(story(OPENAI)))
    text = TIMES + "All work and no play. " * (size_bytes // 22)
    body = OPENAI.request(
        asked=False, model="short", messages=[{"role": "user", "content": text}]
    )

    answer = await scene.call(body)

    assert answer.status == 200
    [received] = scene.upstream.requests
    length_is_true(received)
    sent = json.loads(received.body)
    assert sent["model"] == RENAMED["short"]
    assert sent["messages"] == json.loads(body)["messages"]
    await scene.ledger_shows(CHARGED)


@both_apis
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_e06_a_body_of_no_told_length(
    scene: Scene, api: Api, stream: bool
) -> None:
    """
    A request in chunks is edited as well; its framing is never both.

    rossoctl/cortex#820
    """
    await scene.clear()
    if stream:
        scene.upstream.play(*event_stream(story(api)))
    else:
        scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    name = "short" if api is OPENAI else "claude"
    body = api.request(stream=stream, asked=False, model=name)

    answer = await scene.call(path=api.path, chunks=[body[:20], body[20:]])

    assert answer.status == 200
    [received] = scene.upstream.requests
    assert json.loads(received.body)["model"] == (RENAMED | CLAUDES)[name]
    framing = received.all("content-length"), received.all("transfer-encoding")
    assert framing in (([], ["chunked"]), ([str(len(received.body))], []))
    await scene.ledger_shows(CHARGED)


@both_apis
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_e06_an_http_1_0_client(scene: Scene, api: Api, stream: bool) -> None:
    """
    An HTTP/1.0 client is served: its body edited, its answer whole.

    envoyproxy/envoy#28515: HTTP/1.0 clients got bodies that end with the connection.
    """
    await scene.clear()
    body = api.request(stream=stream, asked=True)
    if stream:
        scene.upstream.play(*event_stream(story(api)))
    else:
        scene.upstream.play(reply(api.reply("Hi.", TOLD)))

    answer = await scene.call(body, path=api.path, version="HTTP/1.0")

    assert answer.status == 200
    assert answer.head.all("transfer-encoding") == []
    assert answer.body == (b"".join(story(api)) if stream else api.reply("Hi.", TOLD))
    [received] = scene.upstream.requests
    length_is_true(received)
    await scene.ledger_shows(CHARGED)


@both_apis
async def test_e06_over_http2(scene: Scene, api: Api) -> None:
    """A body over HTTP/2, of a told length, is edited and framed. rossoctl/cortex#820"""
    await scene.clear()
    scene.upstream.play(*event_stream(story(api)))
    name = "short" if api is OPENAI else "claude"
    body = api.request(asked=False, model=name)

    async with httpx.AsyncClient(http1=False, http2=True) as client:
        answer = await client.post(
            f"http://127.0.0.1:{scene.pod.port}{api.path}",
            content=body,
            headers={"authorization": f"Bearer {KEY}"},
        )

    assert answer.status_code == 200
    [received] = scene.upstream.requests
    length_is_true(received)
    assert json.loads(received.body)["model"] == (RENAMED | CLAUDES)[name]
    await scene.ledger_shows(CHARGED)


ODD_BODIES = {
    "blanks": b' \n{ "model"\t: "short" , "messages" : [ ] ,"stream":true }\n ',
    "model last": b'{"messages":[{"role":"user","content":"x"}],"model":"short"}',
    "escaped key": b'{"mod\\u0065l":"short","messages":[]}',
    "escaped value": b'{"model":"sh\\u006frt","messages":[]}',
    "numbers kept": b'{"model":"short","messages":[],"temperature":1.0,"seed":1e2}',
    "unknown fields": b'{"x":{"model":"y"},"model":"short","messages":[],"z":[1.50]}',
    "its options": b'{"model":"short","messages":[],"stream":true,"stream_options":'
    b'{"include_obfuscation":false}}',
    "null options": b'{"model":"short","messages":[],"stream":true,'
    b'"stream_options":null}',
    "asked for none": b'{"stream_options":{"include_usage":false},"stream":true,'
    b'"model":"short","messages":[]}',
}


@pytest.mark.parametrize("name", ODD_BODIES)
async def test_e06_bodies_that_are_hard_to_edit(scene: Scene, name: str) -> None:
    """
    Only what has to change changes: order, numbers and unknown fields stay.

    rossoctl/cortex#820
    """
    await scene.clear()
    body = ODD_BODIES[name]
    told = Told(3, 4)
    stream = b'"stream":true' in body
    if stream:
        scene.upstream.play(*event_stream(story(OPENAI, told=told)))
    else:
        scene.upstream.play(reply(OPENAI.reply("Hi.", told)))

    answer = await scene.call(body)

    assert answer.status == 200
    [received] = scene.upstream.requests
    length_is_true(received)
    before, after = json.loads(body), json.loads(received.body)
    options = after.pop("stream_options", {})
    wanted = {**before, "model": RENAMED["short"]}
    wanted_options = wanted.pop("stream_options", None) or {}
    assert after == wanted
    assert options == wanted_options | ({"include_usage": True} if stream else {})
    for number in (b"1.0", b"1e2", b"[1.50]"):
        assert (number in received.body) == (number in body)
    await scene.ledger_shows((3, 4))
