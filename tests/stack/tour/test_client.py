"""Asking a gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from tokenweir.stack.ports import free_port
from tokenweir.stack.tour.call import PATH, Call
from tokenweir.stack.tour.client import Answer, Client, NoAnswerError, health

CALL = Call("m", "Hello", 60)
STREAM = Call("m", "Hello", 60, stream=True)
WORDS = ("one ", "two ", "three ")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """What begins to serve a handler on every path, and returns its URL."""
    runners: list[web.AppRunner] = []

    async def begin(handler: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}"

    yield begin
    for runner in runners:
        await runner.cleanup()


def chunk(text: str) -> bytes:
    """Return an event of a stream with *text*."""
    return (
        f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode()
    )


async def test_an_answer_is_kept_whole(serve: Serve) -> None:
    """Key, id and body are sent; status, headers, text and usage come back."""
    seen: list[tuple[str, str, str, str]] = []

    async def handle(request: web.Request) -> web.Response:
        headers = request.headers
        body = await request.text()
        seen.append(
            (request.path, headers["authorization"], headers["x-request-id"], body)
        )
        content = {
            "choices": [{"message": {"content": "Hi"}}],
            "usage": {"total_tokens": 3},
        }
        return web.json_response(content, headers={"X-RateLimit-Limit-Tokens": "9"})

    async with Client(await serve(handle), "sk-1") as client:
        answer = await client.send(CALL, "tour-1")

    assert seen == [(PATH, "Bearer sk-1", "tour-1", CALL.body)]
    assert (answer.status, answer.text, answer.usage) == (
        200,
        "Hi",
        {"total_tokens": 3},
    )
    assert answer.headers["x-ratelimit-limit-tokens"] == "9"
    assert (answer.refusal, answer.told) == ("", {})


async def test_a_stream_is_read_to_its_end(serve: Serve) -> None:
    """Its texts are kept, what has none is passed over, and the first one is told of."""
    firsts: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b': hello\n\ndata: {"choices": []}\n\ndata: broken\n\n')
        for word in WORDS:
            await response.write(chunk(word))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def on_first() -> None:
        firsts.append("first")

    async with Client(await serve(handle), "sk-1") as client:
        answer = await client.send(STREAM, "tour-1", on_first=on_first)

    assert answer.parts == WORDS
    assert answer.text == "one two three "
    assert firsts == ["first"]


async def test_hanging_up_closes_the_connection(serve: Serve) -> None:
    """After so many texts no more are read, though the stream would never end."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(chunk("on "))

    async with Client(await serve(handle), "sk-1") as client:
        answer = await client.send(STREAM, "tour-1", most_parts=3)

    assert answer.parts == ("on ", "on ", "on ")


async def test_a_refused_stream_is_json(serve: Serve) -> None:
    """What is refused has a body, also if a stream was asked for."""
    told = {"error": {"message": "over", "tokenweir": {"quota": "q"}}}

    async def handle(_: web.Request) -> web.Response:
        headers = {"x-tokenweir-refusal": "quota_exhausted"}
        return web.json_response(told, status=429, headers=headers)

    async with Client(await serve(handle), "sk-1") as client:
        answer = await client.send(STREAM, "tour-1")

    assert (answer.status, answer.refusal) == (429, "quota_exhausted")
    assert answer.told == {"quota": "q"}
    assert answer.text == ""


async def test_who_does_not_answer_is_told_with_what_to_do() -> None:
    """Neither a gateway nor an admin port that is not there is a traceback."""
    nobody = f"http://127.0.0.1:{free_port()}"

    async with Client(nobody, "sk-CANARY") as client:
        with pytest.raises(
            NoAnswerError, match=r"Does `tokenweir up` still run\?"
        ) as no:
            await client.send(CALL, "tour-1")
    assert "CANARY" not in str(no.value)
    with pytest.raises(NoAnswerError, match="--admin says another"):
        await health(nobody)


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1"])
async def test_what_is_no_url_is_told(url: str) -> None:
    """A word that names no place is no traceback either."""
    async with Client(url, "sk-1") as client:
        with pytest.raises(NoAnswerError):
            await client.send(CALL, "tour-1")


async def test_health_is_what_the_processor_says(serve: Serve) -> None:
    """Its status and its checks; nonsense is no check."""

    async def ready(request: web.Request) -> web.Response:
        assert request.path == "/readyz"
        return web.json_response({"checks": {"ledger": "ok"}}, status=503)

    async def strange(_: web.Request) -> web.Response:
        return web.Response(text="[1]")

    assert await health(await serve(ready)) == (503, {"checks": {"ledger": "ok"}})
    assert await health(await serve(strange)) == (200, {})


def test_members_of_a_strange_shape_are_nothing() -> None:
    """An answer that is no chat completion has no text, no usage and no reason."""
    answer = Answer(200, {}, {"choices": [], "usage": 3, "error": "no"})

    assert (answer.text, answer.usage, answer.told) == ("", {}, {})
