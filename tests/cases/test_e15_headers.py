"""E15: every header that the gateway makes, as it arrives: once, and with a value."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis, story
from tests.cases.connection import Answer, Connection, request
from tests.cases.faulty_processor import Breaks
from tests.cases.refusals import expect, expect_clean_headers
from tests.cases.scene import Scene
from tests.pod import CREDENTIAL, sha256
from tests.scripted_upstream import End, Hold, event_stream, reply

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
# One tenant for each kind of limit, so that one refusal is of one kind.
TENANTS: Mapping[str, list[dict[str, Any]]] = {
    "tokens": [{"tokens_per_minute": 60_000, "capacity": 1_500}],
    "requests": [{"requests_per_minute": 2, "capacity": 1}],
    "slots": [{"concurrency": 1}],
    "all": [
        {"tokens_per_minute": 60_000},
        {"input_tokens_per_minute": 60_000},
        {"output_tokens_per_minute": 60_000},
        {"requests_per_minute": 600, "capacity": 60},
        {"concurrency": 9},
        {"requests_per_minute": 1, "capacity": 1, "mode": "shadow", "name": "ghost"},
    ],
}
DATE = r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"
NUMBER, SECONDS, MOMENT = (
    r"\d+",
    r"(\d+m)?\d+(ms|s)",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
)
Golden = dict[str, str]

BODY: Golden = {
    "content-type": "application/json",
    "content-length": NUMBER,
    "date": DATE,
}
FINAL: Golden = BODY | {"x-should-retry": "false"}
SOON: Golden = BODY | {
    "retry-after": NUMBER, "retry-after-ms": NUMBER, "x-should-retry": "true",
}  # fmt: skip
REQUESTS: Golden = {
    "x-ratelimit-limit-requests": NUMBER,
    "x-ratelimit-remaining-requests": NUMBER,
    "x-ratelimit-reset-requests": SECONDS,
}
TOKENS: Golden = {
    "x-ratelimit-limit-tokens": NUMBER,
    "x-ratelimit-remaining-tokens": NUMBER,
    "x-ratelimit-reset-tokens": SECONDS,
}
# Envoy closes the connection behind each 400 that it sends.
BAD: Golden = FINAL | {"connection": "close"}
REFUSALS: Mapping[str, Golden] = {
    "malformed_request": BAD,
    "path_too_long": FINAL,
    "unknown_key": FINAL | {"www-authenticate": 'Bearer realm="tokenweir"'},
    "model_not_allowed": FINAL,
    "path_not_metered": FINAL,
    "body_too_large": FINAL,
    "encoding_not_metered": FINAL | {"accept-encoding": "gzip, deflate, br, zstd"},
    "request_exceeds_limit": BAD,
    "internal_fault": SOON,
    "ledger_unavailable": SOON,
    "governor_unavailable": BODY | {"retry-after": "1"},
}
PROVOKED_BY: Mapping[str, dict[str, Any]] = {
    "malformed_request": {"max_tokens": "many"},
    "unknown_key": {"tenant": "nobody"},
    "model_not_allowed": {"model": "none"},
    "body_too_large": {"x": "x" * 100_000},
    "request_exceeds_limit": {"tenant": "tokens", "max_tokens": 2_000},
}
BROKEN_BY: Mapping[str, str] = {
    "internal_fault": "raise plan",
    "governor_unavailable": "raise request.session",
}
# What tells how the limits stand: with an answer, be it the provider's or Envoy's.
LIMITS: Golden = {"ratelimit": r'"all\.[a-z_]+";r=\d+;t=\d+(, "all\.[a-z_]+";r=\d+;t=\d+){4}',
    "ratelimit-policy": r'("all\.[a-z_]+";q=\d+;qu="[a-z-]+"(;w=\d+)?(, )?){5}'} | REQUESTS | TOKENS  # fmt: skip
ANTHROPIC_LIMITS: Golden = {
    f"anthropic-ratelimit-{kind}-{what}": MOMENT if what == "reset" else NUMBER
    for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    for what in ("limit", "remaining", "reset")
}


def prepare(content: dict[str, Any]) -> None:
    """Add the tenants, and models of providers that are not there."""
    for name, quotas in TENANTS.items():
        keys = [{"id": name, "sha256": sha256(f"sk-{name}")}]
        content["tenants"][name] = {"keys": keys, "quotas": quotas}
    for dialect in ("openai", "anthropic"):
        dead = {"base_url": "http://127.0.0.1:1", "dialect": dialect}
        content["providers"][f"dead-{dialect}"] = dead
        content["models"][f"dead-{dialect}"] = {"provider": f"dead-{dialect}"}
    content["body_limit"] = 100_000
    content["timeouts"] = {"default": {"total": "1s"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(breaks: Breaks) -> AsyncIterator[Scene]:
    """Give the module a pod in which everything can be refused."""
    options = {"program": "tests.cases.faulty_processor"}
    async with Scene.open(adapt=prepare, options=options) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Return the pod with an empty ledger; the provider answers in both APIs."""
    await opened.clear()
    opened.upstream.choose(
        lambda asked: [
            reply((OPENAI if "chat" in asked.target else ANTHROPIC).reply("Hi.", TOLD))
        ]
    )
    return opened


def expect_just(answer: Answer, golden: Golden) -> None:
    """Demand that *answer* has these headers and no other, each once, well-formed."""
    expect_clean_headers(answer)
    found = dict(answer.head.headers)
    assert set(found) == set(golden)
    for name, value in found.items():
        assert re.fullmatch(golden[name], value), (name, value)


def expect_refusal(answer: Answer, api: Api, refusal: str, golden: Golden) -> None:
    """Demand that *answer* is that *refusal*, to the last header."""
    expect(answer, api, answer.status, refusal)
    assert answer.status >= 400
    expect_just(answer, {**golden, "x-tokenweir-refusal": refusal})


async def ask(scene: Scene, api: Api, tenant: str = "all", **members: Any) -> Answer:
    """Return the answer to the usual request of *tenant*, with *members*."""
    body = api.request(stream=False, **members)
    return await scene.call(body, path=api.path, key=f"sk-{tenant}")


async def provoke(scene: Scene, api: Api, refusal: str, breaks: Breaks) -> Answer:
    """Return an answer that is that *refusal*."""
    if refusal in PROVOKED_BY:
        return await ask(scene, api, **PROVOKED_BY[refusal])
    if refusal in BROKEN_BY:
        breaks(BROKEN_BY[refusal])
        answer = await ask(scene, api)
        breaks("")
        return answer
    if refusal == "ledger_unavailable":
        scene.pod.server.pause()
        answer = await ask(scene, api)
        scene.pod.server.resume()
        return answer
    path, headers = api.path, [("content-encoding", "snappy")]
    if refusal == "path_not_metered":
        path, headers = f"{api.path}/", []
    elif refusal == "path_too_long":
        path, headers = f"{api.path}?{'a&' * 10_000}", []
    data = request(api.request(), path=path, key="sk-all", headers=headers)
    return await sent(scene, data)


async def sent(scene: Scene, data: bytes) -> Answer:
    """Return the answer to the request *data*."""
    async with Connection.open(scene.pod.port) as app:
        await app.send(data)
        return await app.answer()


@both_apis
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_e15_refusals(
    scene: Scene, api: Api, refusal: str, breaks: Breaks
) -> None:
    """
    Each refusal has just the headers that the contract lists, each once and with a
    value.

    vllm-project/semantic-router#253, envoyproxy/envoy#31555, agentgateway#906
    """
    answer = await provoke(scene, api, refusal, breaks)

    expect_refusal(answer, api, refusal, REFUSALS[refusal])
    assert not scene.upstream.requests
    await scene.ledger_shows(tenant="all")


EXHAUSTED: Mapping[str, Golden] = {
    "tokens": SOON | TOKENS | {"ratelimit": r'"tokens\.tokens_per_minute";r=\d+;t=\d+'},
    "requests": SOON
    | REQUESTS
    | {"ratelimit": r'"requests\.requests_per_minute";r=\d+;t=\d+'},
    "slots": SOON | {"ratelimit": r'"slots\.concurrency";r=0;t=\d+'},
}


@both_apis
@pytest.mark.parametrize("tenant", EXHAUSTED)
async def test_e15_exhausted_quotas(scene: Scene, api: Api, tenant: str) -> None:
    """
    A 429 has one wait, told in each of the ways that SDKs look for.

    agentgateway#906: Retry-After came twice. envoyproxy/envoy#37139
    """
    gate = asyncio.Event()
    scene.upstream.play_next(Hold(gate), reply(api.reply("Hi.", TOLD)))
    taken = asyncio.create_task(ask(scene, api, tenant, max_tokens=1_400))
    await scene.upstream.wait_for_requests(1)
    answer = await ask(scene, api, tenant, max_tokens=1_400)
    gate.set()
    assert (await taken).status == 200

    expect_refusal(answer, api, "quota_exhausted", EXHAUSTED[tenant])
    assert answer.status == 429
    detail = answer.detail
    assert answer.header("retry-after-ms") == str(detail["retry_after_ms"])
    reset = [value for name, value in answer.head.headers if "-reset-" in name]
    assert set(reset) <= {f"{answer.header('retry-after')}s"}
    await scene.ledger_shows(CHARGED, tenant=tenant)


def answered(api: Api) -> Golden:
    """Return what an answer of the provider's gets from us."""
    return LIMITS | ANTHROPIC_LIMITS if api is ANTHROPIC else LIMITS


@both_apis
async def test_e15_answers(scene: Scene, api: Api) -> None:
    """
    An answer has the provider's headers, and ours once each; a limit in shadow mode is
    told to nobody.

    vllm-project/semantic-router#253: a header with two values in one was empty.
    """
    answer = await ask(scene, api)

    assert answer.status == 200
    expect_just(answer, BODY | answered(api))
    assert "ghost" not in str(answer.head.headers)

    scene.upstream.play(*event_stream(story(api)))
    streamed = await sent(scene, request(api.request(), path=api.path, key="sk-all"))
    framing = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    expect_just(streamed, framing | {"date": DATE} | answered(api))
    await scene.ledger_shows(CHARGED, CHARGED, tenant="all")


@both_apis
async def test_e15_envoys_own_answers(scene: Scene, api: Api) -> None:
    """
    What Envoy answers in the provider's place looks the same, with our limits.

    envoyproxy/envoy#31555
    """
    gone = await ask(scene, api, model=f"dead-{api.name}")
    scene.upstream.play_next(End.STALL)
    silent = await ask(scene, api)

    expect_refusal(gone, api, "upstream_unavailable", BODY | answered(api))
    expect_refusal(silent, api, "upstream_timeout", BODY | answered(api))
    await scene.pod.settled()


THEIRS = [
    ("content-type", "application/json"),
    ("x-ratelimit-remaining-tokens", "5"),
    ("X-RateLimit-Remaining-Tokens", "6"),
    ("x-ratelimit-limit-requests", "7"),
    ("anthropic-ratelimit-tokens-limit", "8"),
    ("ratelimit", '"theirs";r=9'),
    ("retry-after", "10"),
    ("x-tokenweir-refusal", "draining"),
    ("set-cookie", "a=1"),
    ("set-cookie", "b=2"),
    ("server", "theirs"),
    ("date", "Mon, 01 Jan 2024 00:00:00 GMT"),
    ("x-request-id", "req_1"),
    ("www-authenticate", "Bearer"),
]
MOVED = {
    "x-upstream-ratelimit-remaining-tokens": "5, 6",
    "x-upstream-ratelimit-limit-requests": "7",
    "x-upstream-ratelimit-tokens-limit": "8",
    "x-upstream-ratelimit": '"theirs";r=9',
}


@both_apis
@pytest.mark.parametrize(
    "status", ["200 OK", "429 Too Many Requests", "529 Overloaded"]
)
async def test_e15_a_providers_headers(scene: Scene, api: Api, status: str) -> None:
    """
    A provider's headers of the same names move out of the way of ours, others stay as
    they are, and none of them can pass for the gateway's.

    agentgateway#906, envoyproxy/envoy#29862
    """
    scene.upstream.play(reply(api.reply("Hi.", TOLD), status, THEIRS))
    answer = await ask(scene, api)

    assert answer.status == int(status[:3])
    assert answer.refusal is None
    assert answer.head.all("set-cookie") == ["a=1", "b=2"]
    for name, value in MOVED.items():
        assert answer.header(name) == value
    for name in ("server", "date", "x-request-id", "www-authenticate", "retry-after"):
        assert answer.header(name) == dict(THEIRS)[name]
    for name, value in answered(api).items():
        assert re.fullmatch(value, answer.header(name) or ""), name
    await scene.pod.settled()


@both_apis
async def test_e15_a_providers_request(scene: Scene, api: Api) -> None:
    """
    The provider gets the app's headers, the credential once, and nothing of ours, nor
    what is the app's business alone.

    vllm-project/semantic-router#253
    """
    theirs = [
        ("user-agent", "app/1"),
        ("accept-encoding", "gzip, br"),
        ("x-request-id", "case-e15"),
        ("anthropic-version", "2023-06-01"),
        ("x-custom", "a"),
        ("x-custom", "b"),
        ("api-key", "sk-all"),
        ("x-tokenweir-cluster", "anthropic"),
        ("x-tokenweir-timeout", "slow"),
        ("x-envoy-retry-on", "5xx"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-host", "app.internal"),
        ("forwarded", "for=192.0.2.1"),
        ("cookie", "session=CANARY"),
        ("proxy-authorization", "Basic CANARY"),
        ("te", "trailers"),
    ]
    body = api.request(stream=False)
    data = request(body, path=api.path, key="sk-all", headers=theirs)
    assert (await sent(scene, data)).status == 200

    [received] = scene.upstream.requests
    mine, other = "authorization", "x-api-key"
    credential = f"Bearer {CREDENTIAL}"
    if api is ANTHROPIC:
        mine, other, credential = other, mine, CREDENTIAL
    assert sorted(name.lower() for name, _ in received.headers) == sorted(
        ["host", "content-length", "user-agent", "accept-encoding", "x-request-id",
         "anthropic-version", "x-custom", "x-custom", mine]
    )  # fmt: skip
    assert received.header(mine) == credential
    assert received.header(other) is None
    assert received.header("content-length") == str(len(body))
    assert received.header("accept-encoding") == "identity"
    assert received.header("x-request-id") == "case-e15"
    await scene.ledger_shows(CHARGED, tenant="all")
