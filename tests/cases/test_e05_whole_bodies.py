"""E05: the provider gets the bytes that were metered, and all of them."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis
from tests.cases.connection import MESSAGES, Connection, chunked, request
from tests.cases.scene import Scene
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUOTAS = [{"requests_per_minute": 6_000}, {"tokens_per_minute": 600_000_000}]
CHARGED = (TOLD.input, TOLD.output)
SIZES = [1_023, 1_024, 1_025, 16_384, 65_535, 65_536, 65_537, 1_048_576, 3_000_000]


def that_pass_unread(content: dict[str, Any]) -> None:
    """Let bodies on unknown paths pass."""
    content["providers"]["openai"]["unknown_paths"] = "opaque"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod."""
    async with Scene.open(quotas=QUOTAS, adapt=that_pass_unread) as opened:
        yield opened


def pieces_of(body: bytes, most: int) -> list[bytes]:
    """Return *body* in pieces of random sizes, but not too many of them."""
    sizes = random.Random(7)
    pieces, at = [], 0
    while at < len(body):
        size = sizes.randint(1, most)
        pieces.append(body[at : at + size])
        at += size
    return pieces


@both_apis
@pytest.mark.parametrize("size_bytes", SIZES)
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_e05_the_body_arrives_as_it_was_metered(
    scene: Scene, api: Api, size_bytes: int, framing: str
) -> None:
    """
    However it is cut, the provider receives each byte once, and no other.

    envoyproxy/envoy#40340: the first chunk went upstream unseen.
    """
    await scene.clear()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    bare = api.request(stream=False)
    body = bare[:-1] + b" " * (size_bytes - len(bare)) + b"}"
    chunks = pieces_of(body, max(64, size_bytes // 20)) if framing == "chunks" else None

    answer = await scene.call(body, path=api.path, chunks=chunks)

    assert answer.status == 200
    [received] = scene.upstream.requests
    assert received.body == body
    await scene.ledger_shows(CHARGED)


async def test_e05_a_body_that_comes_byte_by_byte(scene: Scene) -> None:
    """
    A request in packets of a byte is one request. envoyproxy/envoy#29302
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body = OPENAI.request(stream=False)

    async with Connection.open(scene.pod.port) as app:
        for byte in request(body):
            await app.send(bytes([byte]))
        answer = await app.answer()

    assert answer.status == 200
    [received] = scene.upstream.requests
    assert received.body == body
    await scene.ledger_shows(CHARGED)


async def test_e05_requests_one_after_the_other_on_one_connection(
    scene: Scene,
) -> None:
    """
    Ten requests in one go (pipelining) are ten exchanges, in order.

    envoyproxy/envoy#27542
    """
    await scene.clear()
    texts = itertools.count()
    scene.upstream.choose(
        lambda _: [reply(OPENAI.reply(f"number {next(texts)}", TOLD))]
    )
    body = OPENAI.request(stream=False)

    async with Connection.open(scene.pod.port) as app:
        await app.send(request(body) * 10)
        answers = [await app.answer() for _ in range(10)]

    said = [answer.json()["choices"][0]["message"]["content"] for answer in answers]
    assert said == [f"number {number}" for number in range(10)]
    assert [each.body for each in scene.upstream.requests] == [body] * 10
    await scene.ledger_shows(*[CHARGED] * 10)


async def test_e05_refusals_and_answers_on_one_connection(scene: Scene) -> None:
    """
    What is refused on a connection leaves nothing of its body to the next request.

    envoyproxy/envoy#27542
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body = OPENAI.request(stream=False)
    asked = [
        (401, request(body, key="sk-nobody")),
        (200, request(body)),
        (400, request(b'{"model":"gpt-4o"')),
        (200, request(chunks=[body])),
        (403, request(OPENAI.request(model="gpt-99"))),
        (415, request(body, headers=[("content-encoding", "snappy")])),
        (200, request(method="GET", path="/v1/models")),
        (401, request(chunks=[body], key=None)),
        (400, request()),
        (200, request(body)),
    ]

    async with contextlib.AsyncExitStack() as stack:
        app = await stack.enter_async_context(Connection.open(scene.pod.port))
        for status, data in asked:
            await app.send(data)
            answer = await app.answer()
            assert answer.status == status
            # Whoever is refused before the body was read is told to connect again.
            if answer.header("connection") == "close":
                app = await stack.enter_async_context(Connection.open(scene.pod.port))

    assert [each.body for each in scene.upstream.requests] == [body, body, b"", body]
    await scene.ledger_shows(CHARGED, CHARGED, CHARGED, (0, 0))


async def test_e05_what_follows_the_body_is_not_part_of_it(scene: Scene) -> None:
    """
    Bytes behind a body's end are no body, and reach no provider.

    envoyproxy/envoy#40340
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    body = OPENAI.request(stream=False)
    stowaway = b'{"model": "gpt-4o", "smuggled": true}\r\n\r\n'

    async with Connection.open(scene.pod.port) as app:
        await app.send(request(body) + stowaway)
        first = await app.answer()
        second = await app.answer()

    assert (first.status, second.status) == (200, 400)
    assert b"smuggled" not in b"".join(map(bytes, scene.upstream.received))
    await scene.ledger_shows(CHARGED)


SMUGGLED = {
    "length and chunks": ("content-length: 5\r\ntransfer-encoding: chunked", 400),
    "two lengths": ("content-length: 5\r\ncontent-length: 6", 400),
    "a length list": ("content-length: 5, 5", 400),
    "a negative length": ("content-length: -5", 400),
    "a signed length": ("content-length: +5", 400),
    "a length in hex": ("content-length: 0x5", 400),
    "an unknown coding": ("transfer-encoding: gzip, chunked", 501),
    "chunked twice": ("transfer-encoding: chunked, chunked", 501),
    "a blank before the colon": ("content-length : 5", 400),
    "a folded line": ("x-a: b\r\n content-length: 5", 400),
}


@pytest.mark.parametrize("name", SMUGGLED)
async def test_e05_lengths_that_could_be_read_in_two_ways(
    scene: Scene, name: str
) -> None:
    """
    A request whose end is not certain is refused, and reaches no provider.

    envoyproxy/envoy#40340: what was not metered from byte 0 must not pass.
    """
    await scene.clear()
    lines, status = SMUGGLED[name]
    body = OPENAI.request(stream=False)
    head = request(body).replace(
        f"content-length: {len(body)}".encode(), lines.encode()
    )

    async with Connection.open(scene.pod.port) as app:
        await app.send(head + chunked(body) + chunked(b""))
        answer = await app.answer()

    assert answer.status in (status, 400)
    assert scene.upstream.requests == []
    await scene.ledger_shows()


@pytest.mark.parametrize("size_bytes", [0, 1, *SIZES])
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_e05_bodies_that_pass_unread_pass_whole(
    scene: Scene, size_bytes: int, framing: str
) -> None:
    """
    What policy lets pass unread arrives as it was sent, and is one request.

    envoyproxy/envoy#40340, envoyproxy/envoy#29441: overrides of the mode were ignored.
    """
    await scene.clear()
    scene.upstream.play(reply(b"RIFF", headers=[("content-type", "audio/wav")]))
    body = random.Random(3).randbytes(size_bytes)
    chunks = pieces_of(body, max(64, size_bytes // 20)) if framing == "chunks" else None

    answer = await scene.call(body, path="/v1/vector_stores", chunks=chunks)

    assert (answer.status, answer.body) == (200, b"RIFF")
    [received] = scene.upstream.requests
    assert received.body == body
    await scene.ledger_shows((0, 0))
    [record] = await scene.pod.ledger.records()
    assert (record["route"], record["requests"]) == ("opaque", "1")


async def test_e05_count_tokens_passes_as_it_was_sent(scene: Scene) -> None:
    """A path without tokens gets its body whole, too. Wei-Shaw/sub2api#5456"""
    await scene.clear()
    scene.upstream.play(reply(b'{"input_tokens": 5}'))
    turns = f'[{{"content": "{"é" * 30_000}" , "role":"user"}}]'
    model = f'"model" : "{ANTHROPIC.model}"'
    body = f'{{ "x":1.0, {model} ,"messages": {turns}\n}}'.encode()

    answer = await scene.call(body, path=f"{MESSAGES}/count_tokens")

    assert answer.status == 200
    [received] = scene.upstream.requests
    assert received.body == body
    assert received.header("x-api-key") is not None
    await scene.ledger_shows((0, 0))


async def test_e05_trailers_are_no_body(scene: Scene) -> None:
    """
    Trailers of a chunked request neither stop it nor reach the body.

    envoyproxy/envoy#29302
    """
    await scene.clear()
    scene.upstream.play(reply(ANTHROPIC.reply("Hi.", TOLD)))
    body = ANTHROPIC.request(stream=False)
    whole = request(path=MESSAGES, chunks=[body]).removesuffix(b"\r\n")

    async with Connection.open(scene.pod.port) as app:
        await app.send(whole + b"x-checksum: 1\r\nauthorization: Bearer other\r\n\r\n")
        answer = await app.answer()

    assert answer.status == 200
    [received] = scene.upstream.requests
    assert received.body == body
    assert received.all("authorization") == []
    await scene.ledger_shows(CHARGED)
