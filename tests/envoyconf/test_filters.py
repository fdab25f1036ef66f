"""What admission and the response filter do to an exchange, seen from all sides."""

import pytest

from tests.envoyconf.client import request
from tests.envoyconf.gateway import Gateway, Setup, gateway
from tests.envoyconf.processor import Answer, Call, forward, refuse
from tests.scripted_upstream import (
    LAST_CHUNK,
    chunk,
    event_stream,
    reply,
)
from tokenweir.envoyconf.filters import (
    ADMISSION_FILTER,
    APPLY_FILTER,
    OBSERVE_FILTER,
    RESPONSE_FILTER,
    WATCH_FILTER,
    http_filters,
    lua_source,
)
from tokenweir.envoyconf.settings import EnvoySettings

POST = request(body=b'{"model": "m"}')
GOVERNOR_GONE = ("x-tokenweir-refusal", "governor_unavailable")


def test_order() -> None:
    """The stripping filter is nearest to the app, the router nearest to providers."""
    names = [entry.name for entry in http_filters(EnvoySettings())]

    assert names == [
        WATCH_FILTER,
        ADMISSION_FILTER,
        APPLY_FILTER,
        RESPONSE_FILTER,
        OBSERVE_FILTER,
        "envoy.filters.http.router",
    ]


def test_scripts_are_package_data() -> None:
    """The Lua scripts are found beside the module."""
    assert "function envoy_on_response" in lua_source("watch.lua")
    assert "function envoy_on_request" in lua_source("drain.lua")
    assert "function envoy_on_request" in lua_source("apply.lua")
    assert "function envoy_on_response" in lua_source("retry_after.lua")


# === what passes through ========================================================


async def test_replies_keep_their_framing(gate: Gateway) -> None:
    """A content-length stays, chunks stay chunks, and no byte is touched."""
    gate.upstream.play_next(reply(b'{"n": 1}'))
    gate.upstream.play_next(*event_stream([b"data: x\n\n"]))

    plain, stream = await gate.ask(POST), await gate.ask(POST)

    assert plain.header("content-length") == "8"
    assert plain.header("transfer-encoding") is None
    assert stream.header("content-length") is None
    assert (stream.header("transfer-encoding"), stream.whole) == ("chunked", True)
    assert (plain.body, stream.body) == (b'{"n": 1}', b"data: x\n\n")


@pytest.mark.parametrize("size", [4_194_303, 4_194_304, 4_194_305, 44_000_000])
async def test_large_replies(gate: Gateway, size: int) -> None:
    """E03: a response above gRPC's default message size arrives whole."""
    gate.upstream.play(reply(b"r" * size))

    answer = await gate.ask(POST)

    assert (len(answer.body), answer.whole) == (size, True)
    assert answer.header("content-length") == str(size)


LIMIT = 8 * 1024 * 1024


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions?a=1",
        "/v1/messages",
        "/openai/deployments/gpt-4o.mini_1/chat/completions?api-version=2024-10-21",
        "/model/arn%3Aaws%2Fus.a-v1%3A0/converse",
        "/model/us.a-v1:0/invoke-with-response-stream?x",
    ],
)
async def test_too_large_requests_are_read_to_their_end(
    gate: Gateway, path: str
) -> None:
    """
    The processor is shown one byte more than the limit, which no JSON has, so that it
    refuses; the rest is read and dropped, and the connection is still of use.
    """

    async def admit(call: Call) -> Answer:
        fits = len(call.body("request_body")) <= LIMIT
        return forward(call, "up") if fits else refuse(413)

    gate.processor.admit = admit
    async with await gate.connect() as app:
        for size, status in ((4 * LIMIT, 413), (4 * LIMIT, 413), (LIMIT, 200)):
            app.send(request(path=path, body=b" " * size))
            assert (await app.reply()).status == status

    calls = [call for call in gate.processor.calls if call.role == "admission"]
    shown = [call.body("request_body") for call in calls]
    assert shown == [b" " * LIMIT + b"\0"] * 2 + [b" " * LIMIT]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/messages"),
        ("POST", "/v1/files"),
        ("POST", "/openai/deployments/a/b/chat/completions"),
        ("POST", "/model/a/b/converse"),
        ("POST", "/openai/deployments/a/chat/completions/x"),
    ],
)
async def test_what_nobody_reads_is_not_cut(
    gate: Gateway, method: str, path: str
) -> None:
    """Where no body is read, a part of one could be forwarded: so Envoy refuses."""
    answer = await gate.ask(
        request(path=path, body=b" " * (LIMIT + 70_000)).replace(
            b"POST", method.encode(), 1
        )
    )

    assert answer.status == 413
    assert gate.upstream.requests == []


async def test_large_requests(gate: Gateway) -> None:
    """E03: so does a request, up to the policy's limit."""
    size = 6_000_000
    answer = await gate.ask(request(body=b"q" * size))

    assert answer.status == 200
    assert len(gate.processor.of("admission")[-1].body("request_body")) == size
    assert len(gate.upstream.requests[0].body) == size


@pytest.mark.parametrize("growth", [1, -1, 0, 100_000])
@pytest.mark.parametrize("chunked", [False, True])
async def test_changed_body_has_its_own_length(
    gate: Gateway, growth: int, chunked: bool
) -> None:
    """E06: a body that grew or shrank goes out with the length that it has now."""
    body = b"x" * 50
    changed = b"y" * (len(body) + growth)

    async def admit(call: Call) -> Answer:
        length = {"content-length": str(len(changed))}
        return forward(call, "up", body=changed, headers=length)

    gate.processor.admit = admit
    sent = request(headers=["transfer-encoding: chunked"]) + chunk(body)
    answer = await gate.ask(sent + LAST_CHUNK if chunked else request(body=body))

    assert answer.status == 200
    [received] = gate.upstream.requests
    assert received.body == changed
    assert received.header("content-length") == str(len(changed))
    assert received.header("transfer-encoding") is None


async def test_changed_body_without_a_new_length_is_not_sent(gate: Gateway) -> None:
    """
    A length that would lie about the body is refused: no request is smuggled. Of a
    request that is shown whole it is put right: see `test_whole_requests.py`.
    """

    async def admit(call: Call) -> Answer:
        return forward(call, "up", body=b"z" * 100)

    gate.processor.admit = admit
    answer = await gate.ask(request(path="/v1/files", body=b"{}"))

    assert answer.status == 503
    assert GOVERNOR_GONE in answer.headers
    assert gate.upstream.requests == []


async def test_body_at_the_limit_may_grow() -> None:
    """A body as large as it may be can be edited."""
    limit = 1_100_000
    async with gateway(Setup(policy={"body_limit_bytes": limit})) as gate:

        async def admit(call: Call) -> Answer:
            body = call.body("request_body") + b"e" * 64
            return forward(
                call, "up", body=body, headers={"content-length": str(len(body))}
            )

        gate.processor.admit = admit
        answer = await gate.ask(request(body=b"b" * limit))

        assert answer.status == 200
        assert len(gate.upstream.requests[0].body) == limit + 64
        assert "envoy bug" not in gate.envoy.log()


async def test_headers_that_admission_sets(gate: Gateway) -> None:
    """The processor can replace credentials, and the path where that names a model."""

    async def admit(call: Call) -> Answer:
        swap = {"authorization": "Bearer provider", "x-api-key": "provider"}
        swap[":path"] = "/openai/deployments/small/embeddings?api-version=1"
        return forward(call, "up", headers=swap)

    gate.processor.admit = admit
    await gate.ask(request(headers=["authorization: Bearer app"]))

    [received] = gate.upstream.requests
    assert received.header("authorization") == "Bearer provider"
    assert received.header("x-api-key") == "provider"
    assert received.target == "/openai/deployments/small/embeddings?api-version=1"


@pytest.mark.parametrize(
    "name", [":method", ":authority", "host", ":scheme", "x-envoy-max-retries"]
)
async def test_headers_that_admission_must_not_set(gate: Gateway, name: str) -> None:
    """A change of what routes a request is refused, not ignored."""

    async def admit(call: Call) -> Answer:
        return forward(call, "up", headers={name: "/v1/files"})

    gate.processor.admit = admit
    answer = await gate.ask(POST)

    assert answer.status == 503
    assert GOVERNOR_GONE in answer.headers
    assert gate.upstream.requests == []
