"""An encoded request is metered as it would be without its coding, or refused."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import brotli
import httpx
import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis, story
from tests.cases.connection import Answer, Connection, request
from tests.cases.scene import Scene
from tests.core.codings.encoders import ENCODERS, zstandard
from tests.pod import KEY
from tests.scripted_upstream import event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

KIB, MIB = 1024, 1024 * 1024
LIMIT = MIB
QUOTAS = [{"requests_per_minute": 6_000}, {"tokens_per_minute": 600_000_000}]
MODELS = {
    "gpt-4o": {"provider": "openai"},
    "alias": {"provider": "openai", "upstream_model": "gpt-4o"},
    "claude-sonnet-5": {"provider": "anthropic"},
}
CHARGED = (TOLD.input, TOLD.output)
COUNT_TOKENS = "/v1/messages/count_tokens"
codings = pytest.mark.parametrize("coding", ENCODERS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    """Give the module a pod that takes bodies up to `LIMIT`."""
    async with Scene.open(quotas=QUOTAS, models=MODELS, body_limit=LIMIT) as opened:
        yield opened


async def ask(
    scene: Scene,
    api: Api,
    body: bytes,
    header: str,
    *,
    chunks: bool = False,
    path: str = "",
) -> Answer:
    """Send *body* under the content-encoding *header*."""
    return await scene.call(
        body,
        path=path or api.path,
        headers=[("content-encoding", header), ("content-type", "application/json")],
        chunks=[body[:9], body[9:]] if chunks else None,
    )


def refused(answer: Answer, status: int, why: str) -> None:
    """Demand a refusal in the API's own form."""
    assert (answer.status, answer.refusal) == (status, why)
    assert answer.detail["retryable"] is False
    assert answer.json()["error"]["message"]


# === metered as if it were plain ==================================================


@both_apis
@codings
@pytest.mark.parametrize("chunks", [False, True], ids=["length", "chunks"])
async def test_the_provider_gets_what_the_app_sent(
    scene: Scene, api: Api, coding: str, chunks: bool
) -> None:
    """Where nothing is edited, each byte passes, and the header that explains them."""
    await scene.clear()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    header, encode = ENCODERS[coding]
    body = encode(api.request(stream=False))

    answer = await ask(scene, api, body, header, chunks=chunks)

    assert answer.status == 200
    [received] = scene.upstream.requests
    assert received.body == body
    assert received.header("content-encoding") == header
    await scene.ledger_shows(CHARGED)


@both_apis
async def test_the_same_charges(scene: Scene, api: Api) -> None:
    """What is counted here, and what is reserved, does not depend on the coding."""
    await scene.clear()
    scene.upstream.play(reply(api.reply("Once upon a time.", TOLD, usage=None)))
    plain = api.request(
        stream=False, messages=[{"role": "user", "content": "Ünïcödé 日本語. " * 999}]
    )

    assert (await ask(scene, api, plain, "identity")).status == 200
    for header, encode in ENCODERS.values():
        assert (await ask(scene, api, encode(plain), header)).status == 200

    await scene.pod.settled()
    charges = await scene.charges()
    assert len(charges) == 1 + len(ENCODERS)
    assert len(set(charges)) == 1
    assert charges[0][0] > 999


@codings
@pytest.mark.parametrize("chunks", [False, True], ids=["length", "chunks"])
async def test_an_edited_body_goes_as_it_is(
    scene: Scene, coding: str, chunks: bool
) -> None:
    """A body that policy changes reaches the provider plain, with its true length."""
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    header, encode = ENCODERS[coding]
    plain = OPENAI.request(stream=False, model="alias")

    answer = await ask(scene, OPENAI, encode(plain), header, chunks=chunks)

    assert answer.status == 200
    [received] = scene.upstream.requests
    assert received.body == plain.replace(b'"alias"', b'"gpt-4o"')
    assert received.all("content-encoding") == []
    if not chunks:
        assert received.header("content-length") == str(len(received.body))
    await scene.ledger_shows(CHARGED)


@pytest.mark.parametrize("coding", ["gzip", "br in zstd in gzip"])
async def test_a_stream_that_nobody_asked_to_report(scene: Scene, coding: str) -> None:
    """The report that is asked for reaches no app, whatever its request's coding."""
    await scene.clear()
    scene.upstream.play(*event_stream(story(OPENAI)))
    header, encode = ENCODERS[coding]
    plain = OPENAI.request(asked=False)

    answer = await ask(scene, OPENAI, encode(plain), header)

    assert answer.body == b"".join(story(OPENAI)).replace(OPENAI.report(), b"")
    [received] = scene.upstream.requests
    assert json.loads(received.body) == json.loads(plain) | {
        "stream_options": {"include_usage": True}
    }
    await scene.ledger_shows(CHARGED)


async def test_counting_tokens(scene: Scene) -> None:
    """A path without tokens is read all the same: it names a model."""
    await scene.clear()
    scene.upstream.play(reply(b'{"input_tokens": 5}'))
    plain = ANTHROPIC.request(stream=False)

    ok = await ask(scene, ANTHROPIC, zstandard(plain), "zstd", path=COUNT_TOKENS)
    bad = await ask(scene, ANTHROPIC, plain, "zstd", path=COUNT_TOKENS)

    assert ok.status == 200
    refused(bad, 400, "malformed_request")
    await scene.ledger_shows((0, 0))


# === refused ======================================================================


def broken_bodies() -> dict[str, tuple[str, bytes]]:
    """Return bodies that are not what their header says."""
    plain = OPENAI.request(stream=False)
    found: dict[str, tuple[str, bytes]] = {"nothing": ("gzip", b"")}
    for name, (header, encode) in ENCODERS.items():
        whole = encode(plain)
        found[f"{name}, cut off"] = header, whole[:-1]
        found[f"{name}, with more behind"] = header, whole + b"more"
        found[f"{name}, plain"] = header, plain
    found["another"] = "br", gzip.compress(plain)
    found["one of two"] = "gzip, br", brotli.compress(plain)
    found["the other order"] = "br, gzip", brotli.compress(gzip.compress(plain))
    found["a wrong checksum"] = "gzip", gzip.compress(plain)[:-8] + b"\1" * 8
    found["no JSON"] = "gzip", gzip.compress(b"no JSON")
    found["twice a name"] = "zstd", zstandard(b'{"model":"gpt-4o","model":"gpt-4o"}')
    found["UTF-16"] = "br", brotli.compress(plain.decode().encode("utf-16"))
    found["a byte-order mark"] = "deflate", zlib.compress(b"\xef\xbb\xbf" + plain)
    return found


BROKEN = broken_bodies()


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_not_what_it_says(scene: Scene, name: str) -> None:
    """It is a 400 in the API's form, costs nothing, and reaches no provider."""
    await scene.clear()
    header, body = BROKEN[name]

    refused(await ask(scene, OPENAI, body, header), 400, "malformed_request")

    assert scene.upstream.requests == []
    await scene.ledger_shows()


@both_apis
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip in br"])
@pytest.mark.parametrize("size_bytes", [LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT])
async def test_the_limit_is_for_what_it_means(
    scene: Scene, api: Api, coding: str, size_bytes: int
) -> None:
    """A body is as large as what it decodes to: up to the limit it passes."""
    await scene.clear()
    scene.upstream.play(reply(api.reply("Hi.", TOLD)))
    header, encode = ENCODERS[coding]
    bare = api.request(stream=False)

    answer = await ask(
        scene, api, encode(bare[:-1] + b" " * (size_bytes - len(bare)) + b"}"), header
    )

    if size_bytes <= LIMIT:
        assert answer.status == 200
        await scene.ledger_shows(CHARGED)
    else:
        refused(answer, 413, "body_too_large")
        assert scene.upstream.requests == []
        await scene.ledger_shows()


@pytest.mark.parametrize("header", ["gzip", "br", "zstd"])
async def test_too_much_of_what_is_encoded(scene: Scene, header: str) -> None:
    """The limit is for the bytes that come as well, whatever they would mean."""
    await scene.clear()

    refused(
        await ask(scene, OPENAI, b"\x1f" * (LIMIT + 1), header), 413, "body_too_large"
    )

    await scene.ledger_shows()


def bombs() -> dict[str, tuple[str, bytes]]:
    """Return small bodies that hold much, or much work."""
    much = b"a" * 100 * MIB
    fast: dict[str, Callable[[bytes], bytes]] = {
        "gzip": partial(gzip.compress, compresslevel=1),
        "br": partial(brotli.compress, quality=1),
        "zstd": zstandard,
    }
    found = {name: (name, encode(much)) for name, encode in fast.items()}
    found["twice"] = "gzip, gzip", gzip.compress(found["gzip"][1])
    found["thrice"] = "gzip, gzip, br", brotli.compress(found["twice"][1])
    found["members"] = "gzip", gzip.compress(b"") * (LIMIT // 24)
    found["frames"] = "zstd", zstandard(b"") * (LIMIT // 16)
    return found


def peak_bytes(pid: int) -> int:
    """Return the most memory that process *pid* ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * KIB
    raise AssertionError("no VmHWM")


async def test_bombs(scene: Scene) -> None:
    """They are refused in bounded memory, and others are served as ever."""
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    [processor] = scene.pod.processors
    # What counts tokens is loaded for the first of them.
    assert (await ask(scene, OPENAI, OPENAI.request(stream=False), "")).status == 200
    before = peak_bytes(processor.process.pid)

    for header, bomb in bombs().values():
        for api in (OPENAI, ANTHROPIC):
            answer = await ask(scene, api, bomb[:LIMIT], header)
            assert (answer.status, answer.refusal) in (
                (413, "body_too_large"),
                (400, "malformed_request"),
            )
        assert (
            await ask(scene, OPENAI, OPENAI.request(stream=False), "")
        ).status == 200

    # One of them is 100 MB, if it is kept; two and three times the limit are not.
    assert peak_bytes(processor.process.pid) - before < 50 * MIB
    await scene.ledger_shows(*[CHARGED] * (1 + len(bombs())))


async def test_an_unknown_coding_is_told_by_the_head(scene: Scene) -> None:
    """Nobody has to send a body that would not be taken."""
    await scene.clear()
    head = request(
        b"x" * 99, headers=[("content-encoding", "snappy"), ("expect", "100-continue")]
    ).removesuffix(b"x" * 99)

    async with Connection.open(scene.pod.port) as app:
        await app.send(head)
        answer = await app.answer()

    refused(answer, 415, "encoding_not_metered")
    assert answer.header("accept-encoding") == "gzip, deflate, br, zstd"
    await scene.ledger_shows()


async def test_codings_in_several_headers(scene: Scene) -> None:
    """Two headers are one list, so that none of the two hides the other."""
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    plain = OPENAI.request(stream=False)
    both = [("content-encoding", "gzip"), ("content-encoding", "br")]
    hidden = [("content-encoding", "identity"), ("content-encoding", "gzip")]

    taken = await scene.call(brotli.compress(gzip.compress(plain)), headers=both)
    also = await scene.call(gzip.compress(plain), headers=hidden)
    not_taken = await scene.call(plain, headers=hidden)

    assert (taken.status, also.status) == (200, 200)
    refused(not_taken, 400, "malformed_request")
    await scene.ledger_shows(CHARGED, CHARGED)


@pytest.mark.parametrize("size_bytes", [LIMIT, LIMIT + 1, 3 * LIMIT])
@pytest.mark.parametrize("announced", [True, False], ids=["length", "frames"])
@pytest.mark.parametrize("coding", ["plain", "zstd"])
async def test_the_limit_over_http2(
    scene: Scene, size_bytes: int, announced: bool, coding: str
) -> None:
    """The limit is the same in HTTP/2, with a length or without."""
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    header, encode = ENCODERS.get(coding, ("identity", bytes))
    bare = OPENAI.request(stream=False)
    body = encode(bare[:-1] + b" " * (size_bytes - len(bare)) + b"}")

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 100_000):
            yield body[at : at + 100_000]

    async with httpx.AsyncClient(http1=False, http2=True, timeout=60) as app:
        answer = await app.post(
            f"http://127.0.0.1:{scene.pod.port}{OPENAI.path}",
            content=body if announced else pieces(),
            headers={"authorization": f"Bearer {KEY}", "content-encoding": header},
        )

    assert answer.http_version == "HTTP/2"
    assert answer.status_code == (200 if size_bytes <= LIMIT else 413)
    assert ("x-tokenweir-refusal" in answer.headers) is (size_bytes > LIMIT)
    await scene.ledger_shows(*[CHARGED] * (size_bytes <= LIMIT))
