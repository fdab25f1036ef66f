"""E08: what is sent again is the whole request, once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD, Api, both_apis, story
from tests.cases.connection import request
from tests.cases.scene import STREAM_HEAD, Scene, key_of, tenants
from tests.scripted_upstream import End, Step, chunk, event_stream, reply
from tokenweir.core.bucket import UNITS_PER_TOKEN

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
QUOTAS = [
    {"requests_per_minute": 1, "capacity": 1_000},
    {"tokens_per_minute": 600_000_000},
]
SMALL = [{"requests_per_minute": 1, "capacity": 1}]
MODELS = {
    "gpt-4o": {"provider": "openai"},
    "renamed": {"provider": "openai", "upstream_model": "gpt-4o-mini-2024-07-18"},
    "claude-*": {"provider": "anthropic"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod that tries twice more."""
    async with Scene.open(
        adapt=tenants(small=SMALL), quotas=QUOTAS, models=MODELS, retries=2
    ) as opened:
        yield opened


async def requests_charged(scene: Scene) -> int:
    """Return how many requests left the bucket."""
    state = await scene.pod.ledger.snapshot()
    [bucket] = [each for each in state.buckets.values() if each.capacity == 1_000]
    return round(bucket.capacity - bucket.level_units / UNITS_PER_TOKEN)


def refusing(status: str = "503 Service Unavailable", *waits: str) -> bytes:
    """Return a provider's refusal, to be repeated after *waits*."""
    headers = [("content-type", "application/json")]
    headers += [("retry-after", wait) for wait in waits]
    return reply(b'{"error":{"message":"busy"}}', status, headers)


@both_apis
@pytest.mark.parametrize("size_bytes", [0, 16_384, 1_048_576, 4_000_000])
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_e08_each_attempt_has_the_body_once(
    scene: Scene, api: Api, size_bytes: int, framing: str
) -> None:
    """
    After a 503 the second attempt's body equals the first, and is there once.

    envoyproxy/envoy#36119, envoyproxy/envoy#45470, envoyproxy/envoy#27216: the provider
    got the body twice in one request.
    """
    await scene.clear()
    scene.upstream.play_next(refusing())
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    bare = api.request(stream=False)
    body = bare[:-1] + b" " * max(0, size_bytes - len(bare)) + b"}"
    chunks = [body[:10], body[10:]] if framing == "chunks" else None

    answer = await scene.call(body, path=api.path, chunks=chunks)

    assert answer.status == 200
    assert [each.body for each in scene.upstream.requests] == [body, body]
    await scene.ledger_shows(CHARGED)
    assert await requests_charged(scene) == 2  # by attempts
    [record] = await scene.pod.ledger.records()
    assert record["requests"] == "2"


@pytest.mark.parametrize("size_bytes", [0, 1_048_576])
async def test_e08_an_edited_body_is_edited_once(scene: Scene, size_bytes: int) -> None:
    """
    A renamed model and the question for usage are in each attempt, once.

    envoyproxy/envoy#36119
    """
    await scene.clear()
    scene.upstream.play_next(refusing())
    scene.upstream.play_next(refusing("429 Too Many Requests", "1"))
    scene.upstream.play(*event_stream(story(OPENAI)))
    bare = OPENAI.request(asked=False, model="renamed")
    body = bare[:-1] + b" " * max(0, size_bytes - len(bare)) + b"}"

    answer = await scene.call(body)

    assert answer.status == 200
    assert OPENAI.report() not in answer.body  # it was not asked for
    bodies = {each.body for each in scene.upstream.requests}
    assert len(scene.upstream.requests) == 3
    assert len(bodies) == 1
    sent = json.loads(bodies.pop())
    assert sent["model"] == "gpt-4o-mini-2024-07-18"
    assert sent["stream_options"] == {"include_usage": True}
    for received in scene.upstream.requests:
        assert received.header("content-length") == str(len(received.body))
        assert received.header("authorization") is not None
    await scene.ledger_shows(CHARGED)
    assert await requests_charged(scene) == 3


async def test_e08_all_attempts_fail(scene: Scene) -> None:
    """
    The last refusal reaches the app as it is; three requests, and no token, are charged.

    envoyproxy/envoy#45470
    """
    await scene.clear()
    scene.upstream.play(refusing())

    answer = await scene.call(OPENAI.request(stream=False))

    assert answer.status == 503
    assert answer.refusal is None
    assert answer.body == b'{"error":{"message":"busy"}}'
    assert len(scene.upstream.requests) == 3
    await scene.ledger_shows((0, 0))
    assert await requests_charged(scene) == 3


async def test_e08_attempts_are_a_debt_that_delays_the_next(scene: Scene) -> None:
    """
    One request is reserved, three are charged: the next caller waits for those two too.

    envoyproxy/envoy#45470
    """
    await scene.clear()
    for _ in range(2):
        scene.upstream.play_next(refusing())
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body, key = OPENAI.request(stream=False), key_of("small")

    assert (await scene.call(body, key=key)).status == 200
    await scene.ledger_shows(CHARGED, tenant="small")
    [stored] = (await scene.pod.ledger.snapshot("small")).buckets.values()
    assert -2 * UNITS_PER_TOKEN <= stored.level_units < -1 * UNITS_PER_TOKEN
    refused = await scene.call(body, key=key)
    assert (refused.status, refused.refusal) == (429, "quota_exhausted")
    # Until three are earned, of which one may be there by now.
    assert 120 < int(refused.header("retry-after") or 0) <= 180
    assert len(scene.upstream.requests) == 3
    await scene.ledger_shows(CHARGED, tenant="small")
    [record] = await scene.pod.ledger.records("small")
    assert record["requests"] == "3"


MAY_HAVE_WORKED: dict[str, list[Step]] = {
    "reset": [End.RESET],
    "closed": [End.CLOSE],
    "500": [reply(b"{}", "500 Internal Server Error")],
    "502": [reply(b"{}", "502 Bad Gateway")],
    "504": [reply(b"{}", "504 Gateway Timeout")],
    "half a head": [b"HTTP/1.1 200 OK\r\nconte", End.RESET],
    "a head": [STREAM_HEAD, End.RESET],
    "half a stream": [STREAM_HEAD, chunk(OPENAI.delta("Once")), End.RESET],
}


@pytest.mark.parametrize("name", MAY_HAVE_WORKED)
async def test_e08_what_may_have_worked_is_not_repeated(
    scene: Scene, name: str
) -> None:
    """
    A request that may have been worked on is sent once: a repeated one costs twice.

    envoyproxy/envoy#27216
    """
    await scene.clear()
    scene.upstream.play(*MAY_HAVE_WORKED[name])

    await scene.until_recorded(request(OPENAI.request(stream=True)))

    assert len(scene.upstream.requests) == 1
    assert await requests_charged(scene) == 1


@pytest.mark.parametrize(
    ("waits", "attempts"),
    [((), 3), (("0",), 3), (("1",), 3), (("600",), 1), (("soon",), 1)],
    ids=str,
)
async def test_e08_a_long_wait_is_the_apps(
    scene: Scene, waits: tuple[str, ...], attempts: int
) -> None:
    """
    A provider that asks for a short wait is asked again, one that asks for a long is not.

    api7/aisix#46, superagent-ai/superagent#1145
    """
    await scene.clear()
    scene.upstream.play(refusing("429 Too Many Requests", *waits))

    answer = await scene.call(OPENAI.request(stream=False))

    assert answer.status == 429
    assert answer.refusal is None
    assert answer.head.all("retry-after") == list(waits)
    assert len(scene.upstream.requests) == attempts
    await scene.ledger_shows((0, 0))
    assert await requests_charged(scene) == attempts
