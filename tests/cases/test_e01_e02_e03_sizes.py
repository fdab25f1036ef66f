"""E01, E02, E03: how large a request and an answer may be, and what is said then."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, Told, both_apis
from tests.cases.connection import Answer, Connection, call, request
from tests.cases.scene import STREAM_HEAD, Scene
from tests.pod import KEY
from tests.scripted_upstream import LAST_CHUNK, End, chunk, head, reply
from tokenweir.envoyconf.filters import DRAIN_LIMIT_BYTES

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

KIB, MIB = 1024, 1024 * 1024
LIMIT = MIB
QUOTAS = [{"requests_per_minute": 6_000}, {"concurrency": 100}]
CHARGED = (TOLD.input, TOLD.output)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod that takes bodies up to `LIMIT`."""
    async with Scene.open(
        quotas=QUOTAS,
        body_limit=LIMIT,
        models={
            "gpt-4o": {"provider": "openai", "upstream_model": "gpt-4o-2024-08-06"},
            "claude-*": {"provider": "anthropic"},
        },
    ) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def roomy() -> AsyncIterator[Scene]:
    """Give the module a pod that takes as large bodies as there can be."""
    async with Scene.open(quotas=QUOTAS, body_limit="64MiB") as opened:
        yield opened


def sized(api: Api, size_bytes: int, *, stream: bool = False) -> bytes:
    """Return a request of exactly *size_bytes*, most of it prompt."""
    room = size_bytes - len(api.request(stream=stream, user="")) - 100
    text = "All work and no play makes Jack a dull boy. " * (room // 44)
    body = api.request(
        stream=stream, messages=[{"role": "user", "content": text}], metadata={}
    )
    padding = size_bytes - len(body)
    assert padding >= 0
    return body[:-1] + b" " * padding + body[-1:]


def told_in_dialect(answer: Answer, api: Api) -> None:
    """Demand an error as *api* writes it, which no retry mends."""
    assert answer.status == 413
    assert answer.refusal == "body_too_large"
    assert answer.header("content-type") == "application/json"
    error = answer.json()["error"]
    if api.name == "anthropic":
        assert answer.json()["type"] == "error"
        assert error["type"] == "request_too_large"
    else:
        assert error["type"] == "invalid_request_error"
        assert error["code"] == "body_too_large"
    assert error["message"]
    assert error["tokenweir"]["retryable"] is False


# === E01 ==========================================================================


@both_apis
@pytest.mark.parametrize("chunks", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize(
    "size_bytes",
    [32_767, 32_768, 32_769, 65_535, 65_536, 65_537, LIMIT - 1, LIMIT],
)
async def test_e01_up_to_the_limit_it_passes(
    scene: Scene, api: Api, size_bytes: int, chunks: bool
) -> None:
    """
    What is not above the limit passes whole, also where an edit makes it larger.

    envoyproxy/ai-gateway#827: 32,769 bytes were too many, by accident.
    """
    await scene.clear()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    body = sized(api, size_bytes)
    pieces = [body[:1], body[1:40_000], body[40_000:]] if chunks else None

    answer = await scene.call(
        body, path=api.path, chunks=pieces and [piece for piece in pieces if piece]
    )

    assert answer.status == 200
    [received] = scene.upstream.requests
    if api is OPENAI:  # the model has another name there
        assert received.body == body.replace(b'"gpt-4o"', b'"gpt-4o-2024-08-06"')
    else:
        assert received.body == body
    await scene.ledger_shows(CHARGED)


@both_apis
@pytest.mark.parametrize("chunks", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize(
    "size_bytes",
    [
        LIMIT + 1,
        LIMIT + 2,
        LIMIT + 64 * KIB - 1,  # Envoy's own limit leaves room for edits
        LIMIT + 64 * KIB,
        LIMIT + 64 * KIB + 1,
        2 * MIB,
        20 * MIB,
    ],
)
async def test_e01_above_the_limit_it_is_refused(
    scene: Scene, api: Api, size_bytes: int, chunks: bool
) -> None:
    """
    One byte above the limit is 413, in the API's own form, and costs nothing.

    envoyproxy/ai-gateway#827
    """
    await scene.clear()
    body = sized(api, size_bytes)
    halves = [body[: size_bytes // 2], body[size_bytes // 2 :]] if chunks else None

    answer = await scene.call(body, path=api.path, chunks=halves)

    told_in_dialect(answer, api)
    assert scene.upstream.requests == []
    await scene.ledger_shows()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    assert (await scene.call(api.request(stream=False), path=api.path)).status == 200


@both_apis
async def test_e01_who_is_still_sending_is_told(scene: Scene, api: Api) -> None:
    """
    Of a body that nobody reads to its end, the refusal comes while it is still to be
    sent, and is whole.

    envoyproxy/ai-gateway#827, envoyproxy/envoy#39365
    """
    await scene.clear()
    body = sized(api, 10 * MIB)
    endless = request(body, path=api.path).replace(
        f"content-length: {len(body)}".encode(),
        f"content-length: {DRAIN_LIMIT_BYTES + 1}".encode(),
    )
    assert endless.count(str(DRAIN_LIMIT_BYTES + 1).encode()) == 1

    async with Connection.open(scene.pod.port) as app:
        await app.send(endless[: LIMIT + 70 * KIB])
        told_in_dialect(await app.answer(), api)

    await scene.ledger_shows()


async def test_e01_sdks_read_the_refusal(scene: Scene) -> None:
    """
    SDKs that write a large body first, and read then, get the 413 and no reset.
    """
    await scene.clear()
    url = f"http://127.0.0.1:{scene.pod.port}"
    text = "x" * (30 * MIB)
    asked: list[Any] = [{"role": "user", "content": text}]
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as first,
        anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as second,
    ):
        for _ in range(2):
            with pytest.raises(openai.APIStatusError) as told:
                await first.chat.completions.create(model="gpt-4o", messages=asked)
            assert told.value.status_code == 413
            with pytest.raises(anthropic.APIStatusError) as also:
                await second.messages.create(
                    model="claude-x", max_tokens=9, messages=asked
                )
            assert also.value.status_code == 413

    await scene.ledger_shows()


@both_apis
async def test_e01_an_expectation_is_met(scene: Scene, api: Api) -> None:
    """
    An app that asks before it sends (`expect: 100-continue`) is let in.

    envoyproxy/ai-gateway#827
    """
    await scene.clear()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    body = sized(api, LIMIT)
    whole = request(body, path=api.path, headers=[("expect", "100-continue")])

    async with Connection.open(scene.pod.port) as app:
        await app.send(whole[: -len(body)])
        assert await app.line() == b"HTTP/1.1 100 Continue"
        assert await app.line() == b""
        await app.send(body)
        answer = await app.answer()

    assert answer.status == 200
    await scene.ledger_shows(CHARGED)


@pytest.mark.parametrize("size_bytes", [LIMIT, LIMIT + 1])
async def test_e01_paths_that_nobody_reads_have_the_limit_too(
    scene: Scene, size_bytes: int
) -> None:
    """
    Counting tokens is a way to load the provider as well. Wei-Shaw/sub2api#5456
    """
    await scene.clear()
    scene.upstream.play(reply(b'{"input_tokens": 5}'))
    body = sized(ANTHROPIC, size_bytes)

    answer = await scene.call(body, path="/v1/messages/count_tokens")

    if size_bytes > LIMIT:
        told_in_dialect(answer, ANTHROPIC)
        await scene.ledger_shows()
    else:
        assert answer.status == 200
        await scene.ledger_shows((0, 0))


# === E02 ==========================================================================


async def test_e02_a_slow_answer_to_the_head_makes_nobody_hang() -> None:
    """
    10 MB come while the processor has not answered the head: 413 each time, and soon.

    envoyproxy/envoy#39365: no 413 at all, until the time-out.
    """
    program = "tests.cases.slow_processor"
    async with Scene.open(
        options={"program": program}, quotas=QUOTAS, body_limit=LIMIT
    ) as slow:
        body = request(sized(OPENAI, 10 * MIB))
        answers = [
            answer
            for _ in range(5)
            for answer in await asyncio.gather(
                *(call(slow.pod.port, body) for _ in range(10))
            )
        ]

        for answer in answers:
            told_in_dialect(answer, OPENAI)
            assert answer.seconds < 5.0
        assert slow.upstream.requests == []
        await slow.ledger_shows()


async def test_e02_one_large_body_does_not_keep_others_waiting(scene: Scene) -> None:
    """
    While ten large bodies are refused, a small request is served. envoyproxy/envoy#39365
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    large = request(sized(OPENAI, 20 * MIB))

    refused = [asyncio.create_task(call(scene.pod.port, large)) for _ in range(10)]
    served = await scene.call(OPENAI.request(stream=False))
    answers = await asyncio.gather(*refused)

    assert served.status == 200
    assert {answer.status for answer in answers} == {413}
    await scene.ledger_shows(CHARGED)


# === E03 ==========================================================================

SIZES = [4_194_303, 4_194_304, 4_194_305, 44_000_000]


@both_apis
@pytest.mark.parametrize("size_bytes", SIZES)
@pytest.mark.parametrize("framing", ["length", "chunks", "until closed"])
async def test_e03_large_answers(
    roomy: Scene, api: Api, size_bytes: int, framing: str
) -> None:
    """
    Answers around gRPC's usual 4 MiB, and of 44 MB, arrive whole and are charged.

    envoyproxy/ai-gateway#1209: "received message larger than max", and an empty 500.
    """
    await roomy.clear()
    whole = api.reply("", TOLD)
    # Usage comes last: what is above 8 MiB is only read at its end.
    at = whole.rindex(b'"usage"')
    body = whole[:at] + b'"padding": "' + b"x" * (size_bytes - len(whole) - 16)
    body += b'", ' + whole[at:]
    body += b" " * (size_bytes - len(body))
    if framing == "length":
        roomy.upstream.play(reply(body))
    elif framing == "chunks":
        headers = [("content-type", "application/json")]
        headers += [("transfer-encoding", "chunked")]
        pieces = [chunk(body[i : i + MIB]) for i in range(0, len(body), MIB)]
        roomy.upstream.play(head(headers=headers), *pieces, LAST_CHUNK)
    else:
        headers = [("content-type", "application/json"), ("connection", "close")]
        roomy.upstream.play(head(headers=headers), body, End.CLOSE)

    answer = await roomy.call(api.request(stream=False), path=api.path)

    assert answer.status == 200
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(body).digest()
    await roomy.ledger_shows(CHARGED)


@both_apis
@pytest.mark.parametrize("size_bytes", [640_000, *SIZES[:3], 20_000_000])
async def test_e03_large_requests(roomy: Scene, api: Api, size_bytes: int) -> None:
    """
    Requests of that size reach the provider whole, and are charged.

    envoyproxy/ai-gateway#1209
    """
    await roomy.clear()
    roomy.upstream.play(reply(api.reply("Hi.", TOLD)))
    body = sized(api, size_bytes)

    answer = await roomy.call(body, path=api.path)

    assert answer.status == 200
    [received] = roomy.upstream.requests
    assert received.body == body
    await roomy.ledger_shows(CHARGED)


@both_apis
async def test_e03_a_large_stream(roomy: Scene, api: Api) -> None:
    """
    A stream of 44 MB in long events arrives whole, and its report is found.

    envoyproxy/ai-gateway#1209
    """
    await roomy.clear()
    deltas = [api.delta("x" * 1_000_000) for _ in range(44)]
    pieces = [*api.opening(), *deltas, *api.finish(), api.report(), api.end()]
    roomy.upstream.play(STREAM_HEAD, *map(chunk, pieces), LAST_CHUNK)

    answer = await roomy.call(api.request(), path=api.path)

    assert answer.body == b"".join(pieces)
    await roomy.ledger_shows(CHARGED)


@both_apis
@pytest.mark.parametrize("size_bytes", [9_000_000, 44_000_000])
async def test_e03_a_large_answer_that_says_nothing(
    roomy: Scene, api: Api, size_bytes: int
) -> None:
    """
    A large answer without a report is estimated, never above what was reserved.

    envoyproxy/ai-gateway#1209: the reservation has to be released in any case.
    """
    await roomy.clear()
    body = b'{"padding": "' + b"x" * size_bytes + b'"}'
    roomy.upstream.play(reply(body))

    answer = await roomy.call(api.request(stream=False, max_tokens=700), path=api.path)

    assert answer.body == body
    await roomy.pod.settled()
    [(input_tokens, output_tokens)] = await roomy.charges()
    assert 10 <= input_tokens <= 20
    assert output_tokens == 700
    [record] = await roomy.pod.ledger.records()
    assert record["source"] == "estimated"


async def test_e03_a_large_report_is_a_report(roomy: Scene) -> None:
    """A report as large as a model's context is taken. envoyproxy/ai-gateway#1209"""
    await roomy.clear()
    roomy.upstream.play(reply(OPENAI.reply("Hi.", Told(2_000_000, 65_000))))

    assert (await roomy.call(OPENAI.request(stream=False))).status == 200
    await roomy.ledger_shows((2_000_000, 65_000))
