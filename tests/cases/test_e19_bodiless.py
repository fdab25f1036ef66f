"""E19: a request without a body is admitted by its head alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, Api, both_apis
from tests.cases.app_h2 import CallH2
from tests.cases.connection import Answer, Connection, Headers, request
from tests.cases.refusals import expect
from tests.cases.scene import Scene
from tests.pod import KEY, OTHER_KEY, soon
from tests.scripted_upstream import ReceivedRequest, Step, head, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

FREE = (0, 0)
# No timer of ours is involved: those take a second or more.
AT_ONCE_SECONDS = 0.5
QUOTAS = [
    {"tokens_per_minute": 1, "capacity": 100},
    {"requests_per_minute": 1, "capacity": 50},
    {"concurrency": 2},
]
KNOWN = (
    "/",
    "/health",
    "/v1/models",
    "/v1/models?limit=5",
    "/v1/models/gpt-4o",
    "/v1/models/ft:gpt-4o:acme::abc",
    "/v1/models/meta-llama/Llama-3.3-70B",
)
UNKNOWN = (
    "/v1",
    "/v1/files",
    "/v1/files/file-1",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/organization/admin_api_keys",
    "/v1/models/",
    "/favicon.ico",
    "/v1/messages/batches/msgbatch_1/results",
)
PATHS = (*KNOWN, *UNKNOWN)
METHODS = ("GET", "HEAD", "OPTIONS", "DELETE")


def limit_both(content: dict[str, Any]) -> None:
    """Give the other tenant no more than one request."""
    quotas = [{"requests_per_minute": 1, "capacity": 1}]
    content["tenants"]["globex"]["quotas"] = quotas


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod with limits of each kind."""
    async with Scene.open(quotas=QUOTAS, adapt=limit_both) as scene:
        yield scene


def answer_to(asked: ReceivedRequest) -> list[Step]:
    """Return what a provider says; to HEAD the head alone."""
    if asked.method == "HEAD":
        return [
            head(
                headers=[("content-type", "application/json"), ("content-length", "9")]
            )
        ]
    return [reply(b'{"a": [1]}')]


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Return the pod with an empty ledger."""
    await opened.clear()
    opened.upstream.choose(answer_to)
    return opened


async def requests_left(answer: Answer) -> int:
    """Return what *answer* says of the limit on requests."""
    return int(answer.header("x-ratelimit-remaining-requests") or -1)


def speaker(path: str) -> Api:
    """Return the API in which errors of *path* are told."""
    of_messages = path == "/v1/messages" or path.startswith("/v1/messages/")
    return ANTHROPIC if of_messages else OPENAI


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_e19_what_apps_read(scene: Scene, method: str) -> None:
    """
    It passes at once, and costs a request and no token.

    kubeai-project/kubeai#105: "unable to parse model" for a health check.
    """
    waits = []
    for number, path in enumerate(KNOWN, 1):
        answer = await scene.call(method=method, path=path)
        waits.append(answer.seconds)

        assert answer.status == 200
        assert answer.body == (b"" if method == "HEAD" else b'{"a": [1]}')
        assert answer.header("x-ratelimit-remaining-tokens") is None
        assert await requests_left(answer) == 50 - number
        received = scene.upstream.requests[-1]
        assert (received.method, received.target) == (method, path)
        assert received.body == b""
        assert received.header("content-length") in (None, "0")
    soon(waits, AT_ONCE_SECONDS)
    await scene.ledger_shows(*[FREE] * len(KNOWN))
    routes = {each["route"] for each in await scene.pod.ledger.records()}
    assert routes == {"models", "other"}


@pytest.mark.parametrize("method", METHODS)
async def test_e19_what_apps_need_not_do(scene: Scene, method: str) -> None:
    """
    Whatever else the provider's credential could do is refused at once, and costs
    nothing: no file is deleted, no key is listed.

    envoyproxy/ai-gateway#948
    """
    read = method in ("GET", "HEAD")
    waits = []
    for path in UNKNOWN if read else PATHS:
        answer = await scene.call(method=method, path=path)
        waits.append(answer.seconds)

        assert (answer.status, answer.refusal) == (403, "path_not_metered")
        if method != "HEAD":
            expect(answer, speaker(path), 403, "path_not_metered")
    soon(waits, AT_ONCE_SECONDS)
    assert not scene.upstream.requests
    await scene.ledger_shows()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("key", ["nobody", None])
async def test_e19_who_is_nobody_gets_nothing(
    scene: Scene, method: str, key: str | None
) -> None:
    """
    A key is asked for on every path, and with every method.

    Kuadrant/mcp-gateway#640
    """
    for path in PATHS:
        answer = await scene.call(method=method, path=path, key=key)

        assert (answer.status, answer.refusal) == (401, "unknown_key")
        if method != "HEAD":
            expect(answer, speaker(path), 401, "unknown_key")
    assert not scene.upstream.requests
    await scene.ledger_shows()


EMPTY: dict[str, dict[str, Any]] = {
    "a length of 0": {},
    "no chunk": {"chunks": []},
    "an empty chunk's worth": {"chunks": [], "headers": [("x-a", "b")]},
}


@both_apis
@pytest.mark.parametrize("how", EMPTY)
async def test_e19_an_empty_post(scene: Scene, api: Api, how: str) -> None:
    """
    A POST to a metered path without a body is a bad request, however it is framed.

    envoyproxy/ai-gateway#948, envoyproxy/ai-gateway#940
    """
    answers = [await scene.call(path=api.path, **EMPTY[how]) for _ in range(3)]

    for answer in answers:
        expect(answer, api, 400, "malformed_request")
    soon((answer.seconds for answer in answers), AT_ONCE_SECONDS)
    assert not scene.upstream.requests
    await scene.ledger_shows()


async def exchanged(scene: Scene, data: bytes, method: str = "POST") -> Answer:
    """Return the answer to the request *data*."""
    async with Connection.open(scene.pod.port) as app:
        await app.send(data)
        return await app.answer(to=method)


@both_apis
async def test_e19_a_post_without_a_length(scene: Scene, api: Api) -> None:
    """
    A POST that says nothing of a body has none. envoyproxy/ai-gateway#948
    """
    lines = [f"POST {api.path} HTTP/1.1", "host: a", f"authorization: Bearer {KEY}"]
    answer = await exchanged(scene, "\r\n".join([*lines, "", ""]).encode())

    expect(answer, api, 400, "malformed_request")
    assert not scene.upstream.requests
    await scene.ledger_shows()


@both_apis
async def test_e19_an_empty_post_over_http2(scene: Scene, api: Api) -> None:
    """
    The same over HTTP/2, where the body's end is a frame of its own.

    envoyproxy/ai-gateway#940
    """
    asked = await CallH2.begin(scene.pod.port, api.path, b"")
    await asked.over()
    asked.hang_up()

    assert b"malformed_request" in asked.body
    assert not scene.upstream.requests
    await scene.ledger_shows()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("framing", ["length", "chunks", "expected"])
async def test_e19_a_body_where_there_is_none(
    scene: Scene, method: str, framing: str
) -> None:
    """
    A body with a method that has none can't be metered: it is no way around the
    limits. An empty one is none.

    kubeai-project/kubeai#105
    """
    body = OPENAI.request(stream=False)
    headers: Headers = [("expect", "100-continue")] if framing == "expected" else []
    for path in ("/v1/chat/completions", "/v1/models"):
        data = request(
            b"" if framing == "chunks" else body,
            chunks=[body] if framing == "chunks" else None,
            method=method, path=path, headers=headers,
        )  # fmt: skip
        answer = await exchanged(scene, data, method)

        assert (answer.status, answer.refusal) == (403, "path_not_metered")
    assert not scene.upstream.requests
    await scene.ledger_shows()

    answers = [
        await scene.call(method=method, path="/v1/models", chunks=[]),
        await scene.call(
            method=method, path="/v1/models", headers=[("content-length", "0")]
        ),
    ]
    read = method in ("GET", "HEAD")
    assert {answer.status for answer in answers} == {200 if read else 403}
    await scene.ledger_shows(*[FREE] * (2 if read else 0))


@pytest.mark.parametrize(
    "method", ["PUT", "PATCH", "POST", "QUERY", "PROPFIND", "post"]
)
async def test_e19_other_methods(scene: Scene, method: str) -> None:
    """
    A method that has a body is refused where nobody knows the path, empty or not.

    envoyproxy/ai-gateway#948
    """
    waits = []
    for path in (*KNOWN[:3], "/v1/files", "/v1/vector_stores"):
        for body in (b"", b'{"model": "gpt-4o"}'):
            answer = await scene.call(body, method=method, path=path)

            waits.append(answer.seconds)
            if method in ("PUT", "PATCH", "POST"):
                expect(answer, OPENAI, 403, "path_not_metered")
            else:  # some of them Envoy does not take at all
                assert answer.status in (400, 403)
    soon(waits, AT_ONCE_SECONDS)
    assert not scene.upstream.requests
    await scene.ledger_shows()


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@both_apis
async def test_e19_other_methods_on_metered_paths(
    scene: Scene, api: Api, method: str
) -> None:
    """
    A metered path with another method that has a body is no way around the limits.

    envoyproxy/ai-gateway#940
    """
    for body in (b"", b"{}", api.request(stream=False)):
        answer = await scene.call(body, method=method, path=api.path)

        expect(answer, api, 403, "path_not_metered")
    assert not scene.upstream.requests
    await scene.ledger_shows()


async def test_e19_requests_are_limited(scene: Scene) -> None:
    """
    Requests without a body are requests: they use up that limit, and only that.

    Kuadrant/mcp-gateway#640
    """
    answers = [
        await scene.call(method="GET", path="/v1/models", key=OTHER_KEY)
        for _ in range(2)
    ]

    assert answers[0].status == 200
    expect(answers[1], OPENAI, 429, "quota_exhausted")
    await scene.ledger_shows(FREE, tenant="globex")


@pytest.mark.parametrize(
    "data",
    [
        f"GET http://127.0.0.1/v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n",
        f"GET /v1/models HTTP/1.0\r\nauthorization: Bearer {KEY}\r\n\r\n",
        f"OPTIONS * HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n",
        f"GET /v1/models HTTP/1.1\r\nhost: x\r\nupgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAAA\r\nauthorization: Bearer {KEY}\r\n\r\n",
        f"GET /v1/realtime HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: x\r\nauthorization: Bearer {KEY}\r\n\r\n",
        f"CONNECT 127.0.0.1:1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n",
        f"TRACE / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n",
    ],
    ids=["absolute", "1.0", "asterisk", "h2c", "websocket", "connect", "trace"],
)  # fmt: skip
async def test_e19_unusual_requests(scene: Scene, data: str) -> None:
    """
    Unusual requests are answered at once, as any, and leave nothing behind.

    Kuadrant/mcp-gateway#640
    """
    answers = [await exchanged(scene, data.encode()) for _ in range(3)]

    assert {answer.status for answer in answers} <= {200, 400, 403, 404, 405}
    soon((answer.seconds for answer in answers), AT_ONCE_SECONDS)
    await scene.ledger_shows(*[FREE] * len(scene.upstream.requests))


@pytest.mark.parametrize(
    "status", ["404 Not Found", "500 No", "204 No Content", "304 Not Modified"]
)
async def test_e19_whatever_the_provider_says(scene: Scene, status: str) -> None:
    """
    Its answer passes, and what it refused costs no token. envoyproxy/ai-gateway#948
    """
    scene.upstream.choose(lambda _: [reply(b"", status, [("x-a", "b")])])
    answer = await scene.call(method="GET", path="/v1/models/none")

    assert answer.status == int(status[:3])
    assert answer.header("x-a") == "b"
    await scene.ledger_shows(FREE)
