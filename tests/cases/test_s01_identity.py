"""S01: who pays is told by the key, and by nothing else that a client can write."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, TOLD
from tests.cases.connection import Answer, Connection, Headers, chunked, request
from tests.cases.refusals import expect
from tests.cases.scene import Scene
from tests.pod import KEY, OTHER_KEY, sha256, until
from tests.scripted_upstream import reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

VICTIM = "globex"
CAPACITY = 300
QUOTA = {"requests_per_minute": 1, "capacity": CAPACITY}
CHARGED = (TOLD.input, TOLD.output)
BODY = OPENAI.request(stream=False)
BEARER = f"Bearer {KEY}"
OTHER_BEARER = f"Bearer {OTHER_KEY}"


def limit_the_victim(content: dict[str, Any]) -> None:
    """Give the victim a limit, too, so that it has a bucket to be drawn from."""
    content["tenants"][VICTIM]["quotas"] = [QUOTA]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod with two tenants."""
    async with Scene.open(quotas=[QUOTA], adapt=limit_the_victim) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Return the pod with an empty ledger."""
    await opened.clear()
    opened.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
    return opened


async def victim_is_untouched(scene: Scene) -> None:
    """Demand that nothing in the ledger is the victim's."""
    await scene.pod.settled()
    snapshot = await scene.pod.ledger.snapshot(VICTIM)
    assert not [name for name in snapshot.buckets if name.startswith(VICTIM)]
    assert not await scene.pod.ledger.records(VICTIM)


async def exchange(port: int, data: bytes) -> Answer:
    """Send *data*, which need not be what HTTP allows, and return the answer."""
    async with Connection.open(port) as app:
        await app.send(data)
        return await app.answer()


def with_lines(*lines: str) -> bytes:
    """Return the usual request with just these header *lines*, and no key."""
    length = f"content-length: {len(BODY)}"
    head = ["POST /v1/chat/completions HTTP/1.1", "host: app.internal", *lines, length]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + BODY


NAMES = (
    "x-tenant",
    "X-TENANT",
    "x-tenant-id",
    "x-tokenweir-tenant",
    "x-tokenweir-key",
    "x-tokenweir-hold",
    "x-tokenweir-ticket",
    "X-Tokenweir-User",
    "x-envoy-tenant",
    "x-user",
    "x-forwarded-user",
    "x-auth-request-user",
    "x-remote-user",
    "x-authenticated-userid",
    "openai-organization",
    "openai-project",
    "baggage",
    "from",
)
TWINS = ("X_Tenant", "x_tokenweir_tenant", "X_Api_Key", "api_key", "Authorization_")
VALUES = (VICTIM, f"{VICTIM}, acme", f" {VICTIM} ", "", f"tenant={VICTIM}")
LINES: list[Headers] = [[(name, value)] for name in NAMES for value in VALUES]
LINES += [[(name, VICTIM)] for name in TWINS]
LINES += [[(name, VICTIM), (name, "acme")] for name in NAMES]
LINES += [[(name, "acme"), (name, VICTIM)] for name in NAMES]


async def test_s01_no_header_names_a_tenant(scene: Scene) -> None:
    """
    Whatever else the client says of itself, once, twice, in any spelling, the tenant
    of the key pays, and nothing that only the governor may say goes upstream.

    grafana/ai-sdk#184, GHSA-vjrc-mh2v-45x6: identity was read from such headers.
    """
    answers = [await scene.call(BODY, headers=lines) for lines in LINES]

    assert {answer.status for answer in answers} == {200}
    await scene.ledger_shows(*[CHARGED] * len(LINES))
    await victim_is_untouched(scene)
    for received in scene.upstream.requests:
        names = [name.lower() for name, _ in received.headers]
        assert not [name for name in names if "_" in name or "tokenweir" in name]
        assert not [name for name in names if name.startswith("x-envoy-")]


BAD_KEYS: dict[str, Sequence[str]] = {
    "no key": [],
    "the victim's name": [f"authorization: Bearer {VICTIM}"],
    "the victim's name beside a key": [f"authorization: {BEARER} {VICTIM}"],
    "the id of a key": ["authorization: Bearer ci"],
    "the digest of a key": [f"authorization: Bearer {sha256(KEY)}"],
    "another case": [f"authorization: Bearer {KEY.upper()}"],
    "a part of a key": [f"authorization: Bearer {KEY[:-1]}"],
    "more than a key": [f"authorization: Bearer {KEY}x"],
    "two schemes": [f"authorization: Bearer {BEARER}"],
    "a quoted key": [f'authorization: Bearer "{KEY}"'],
    "basic": [
        f"authorization: Basic {base64.b64encode(f'acme:{KEY}'.encode()).decode()}"
    ],
    "basic with a key": [f"authorization: Basic {KEY}"],
    "an empty key": ["authorization: Bearer "],
    "an empty header": ["authorization:"],
    "bytes that are no ASCII": [f"authorization: Bearer {KEY}\xe9"],
    "two keys": [f"authorization: {BEARER}", f"authorization: {OTHER_BEARER}"],
    "two keys, turned": [f"authorization: {OTHER_BEARER}", f"authorization: {BEARER}"],
    "two keys in one line": [f"authorization: {BEARER}, {OTHER_BEARER}"],
    "one key in two lines": [f"authorization: {BEARER}", f"Authorization: {BEARER}"],
    "two headers": [f"authorization: {BEARER}", f"x-api-key: {OTHER_KEY}"],
    "two headers, turned": [f"x-api-key: {KEY}", f"authorization: {OTHER_BEARER}"],
    "two other headers": [f"x-api-key: {KEY}", f"api-key: {OTHER_KEY}"],
    "a key and a wrong one": [f"authorization: {BEARER}", "x-api-key: nobody"],
    "a twin": [f"x_api_key: {KEY}"],
    "another twin": [f"api_key: {KEY}"],
    "a cookie": [f"cookie: authorization={BEARER}; x-api-key={KEY}"],
    "for a proxy": [f"proxy-authorization: {BEARER}"],
    "for another API": [f"x-functions-key: {KEY}"],
    "keys for two APIs": [f"authorization: {BEARER}", f"x-goog-api-key: {OTHER_KEY}"],
    "a folded line": ["authorization: x", f" {BEARER}"],
    "hop by hop": [f"authorization: {BEARER}", "connection: authorization"],
}


@pytest.mark.parametrize("name", BAD_KEYS)
async def test_s01_exactly_one_key_that_is_known(scene: Scene, name: str) -> None:
    """
    Anything but one known key, where a key belongs, is refused and costs nobody.

    envoyproxy/gateway#8351, vllm-project/semantic-router#2849
    """
    answer = await exchange(scene.pod.port, with_lines(*BAD_KEYS[name]))

    error = expect(answer, OPENAI, 401, "unknown_key")
    assert answer.header("www-authenticate") == 'Bearer realm="tokenweir"'
    assert KEY not in str(error)
    assert not scene.upstream.requests
    assert not await scene.pod.ledger.records()
    await victim_is_untouched(scene)


GOOD_KEYS: dict[str, Sequence[str]] = {
    "OpenAI's": [f"authorization: {BEARER}"],
    "Anthropic's": [f"x-api-key: {KEY}"],
    "Azure's": [f"api-key: {KEY}"],
    "Google's": [f"x-goog-api-key: {KEY}"],
    "another case": [f"AUTHORIZATION:bEaReR   {KEY} \t"],
    "without a scheme": [f"authorization: {KEY}"],
    "the same twice": [f"authorization: {BEARER}", f"x-api-key: {KEY}"],
    "beside an empty one": [f"authorization: {BEARER}", "x-api-key:"],
    "beside a stranger": [f"authorization: {BEARER}", f"x-functions-key: {OTHER_KEY}"],
    "hop by hop": [f"authorization: {BEARER}", "connection: x-tokenweir-cluster"],
}


@pytest.mark.parametrize("name", GOOD_KEYS)
async def test_s01_a_key_as_sdks_send_it(scene: Scene, name: str) -> None:
    """
    One key pays, however it is sent, and the provider gets its own credential alone.

    envoyproxy/gateway#8351
    """
    answer = await exchange(scene.pod.port, with_lines(*GOOD_KEYS[name]))

    assert answer.status == 200
    await scene.ledger_shows(CHARGED)
    await victim_is_untouched(scene)
    [received] = scene.upstream.requests
    assert KEY not in str(received.headers)
    assert received.header("authorization") == "Bearer sk-provider-CANARY"
    assert received.header("x-api-key") is None
    assert received.header("api-key") is None


async def test_s01_trailers_name_nobody(scene: Scene) -> None:
    """
    What comes behind the body is neither a key nor a word of the governor.

    grafana/ai-sdk#184
    """
    trailers = f"x-api-key: {OTHER_KEY}\r\nx-tokenweir-cluster: anthropic\r\n\r\n"
    data = request(chunks=[BODY]).removesuffix(b"\r\n") + trailers.encode()
    assert data.endswith(b"0\r\n" + trailers.encode())
    assert chunked(BODY) in data

    answer = await exchange(scene.pod.port, data)

    assert answer.status == 200
    await scene.ledger_shows(CHARGED)
    await victim_is_untouched(scene)
    assert b"x-api-key" not in b"".join(map(bytes, scene.upstream.received))


ADDRESSES = (
    "x-forwarded-for",
    "x-real-ip",
    "forwarded",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-envoy-internal",
    "via",
)


async def test_s01_no_address_starts_afresh(scene: Scene) -> None:
    """
    A limit that is used up stays so, from wherever the client claims to call.

    vllm-project/semantic-router#2849: rotating X-Forwarded-For reset the limit.
    """
    for number in range(CAPACITY // 100):
        calls = (
            scene.call(BODY, headers=[("x-forwarded-for", f"10.0.{number}.{n}")])
            for n in range(100)
        )
        await asyncio.gather(*calls)

    answers = [
        await scene.call(BODY, headers=[(name, f"for=192.0.2.{number}")])
        for number, name in enumerate(ADDRESSES)
    ]

    for answer in answers:
        expect(answer, OPENAI, 429, "quota_exhausted")
    await scene.ledger_shows(*[CHARGED] * CAPACITY)
    await victim_is_untouched(scene)


async def test_s01_a_single_tenant_is_who_it_is(opened: Scene) -> None:
    """
    Where all callers are one tenant, nobody is another one by its key or by name.

    grafana/ai-sdk#184
    """
    async with opened.another_pod(single_tenant="acme") as pod:
        await opened.clear()
        opened.upstream.play(reply(OPENAI.reply("Hi.", TOLD)))
        for lines in (
            [f"authorization: {OTHER_BEARER}"],
            [f"authorization: {BEARER}", f"x-api-key: {OTHER_KEY}"],
            [f"x-tenant: {VICTIM}"],
            [],
        ):
            answer = await exchange(pod.port, with_lines(*lines))
            assert answer.status == 200
        await until(pod.ledger.nothing_held)

        await opened.ledger_shows(*[CHARGED] * 4)
        await victim_is_untouched(opened)


async def test_s12_strangers_reach_no_ledger(scene: Scene) -> None:
    """
    A thousand wrong secrets, many at once, cost no call to the ledger, and the tenant
    whose key they resemble has all that it had.

    scaleapi/llm-engine#868: a bucket was charged before the caller was known.
    """
    calls = 'tokenweir_ledger_call_seconds_count{verb="reserve"}'
    [processor] = scene.pod.processors
    assert (await scene.call(BODY)).status == 200
    await scene.ledger_shows(CHARGED)
    before = (await scene.pod.ledger.snapshot()).buckets
    reserved = processor.metric(calls)
    assert reserved > 0

    for number in range(20):
        keys = (f"{KEY}-{number}-{n}" for n in range(50))
        answers = await asyncio.gather(*(scene.call(BODY, key=key) for key in keys))
        assert {answer.status for answer in answers} == {401}

    assert processor.metric(calls) == reserved
    assert (await scene.pod.ledger.snapshot()).buckets == before
    assert len(scene.upstream.requests) == 1
    await scene.ledger_shows(CHARGED)
    await victim_is_untouched(scene)
