"""How a request gets to its provider: address, headers, retries, time-outs."""

import asyncio
import json
import time

import pytest

from tests.envoyconf.client import Reply, request
from tests.envoyconf.gateway import Gateway, Setup, gateway, policy_of, provider
from tests.envoyconf.processor import Answer, Call, forward
from tests.scripted_upstream import End, Hold, Pause, event_stream, reply
from tokenweir.core.policy import TimeoutClass
from tokenweir.envoyconf.routes import authority, route_configuration
from tokenweir.envoyconf.settings import EnvoySettings

POST = request(body=b'{"model": "m"}')
BUSY = "503 Service Unavailable"
TOO_MANY = "429 Too Many Requests"


@pytest.mark.parametrize(
    ("host", "scheme", "port", "expected"),
    [
        ("api.openai.com", "https", 443, "api.openai.com"),
        ("api.openai.com", "https", 8443, "api.openai.com:8443"),
        ("vllm", "http", 80, "vllm"),
        ("vllm", "http", 443, "vllm:443"),
        ("127.0.0.1", "http", 8000, "127.0.0.1:8000"),
        ("::1", "https", 443, "[::1]"),
        ("::1", "http", 8000, "[::1]:8000"),
    ],
)
def test_authority(host: str, scheme: str, port: int, expected: str) -> None:
    """The Host header has the port only where it is not the scheme's own."""
    assert authority(provider("p", port, host, scheme=scheme)) == expected


def test_a_route_for_each_provider_and_class() -> None:
    """
    Every provider has a route for each path of answers and each timeout class, the
    default's last.
    """
    classes = {name: TimeoutClass(name) for name in ("default", "slow")}
    policy = policy_of(provider("a", 1), provider("b", 2), timeout_classes=classes)

    [host] = route_configuration(policy, EnvoySettings()).virtual_hosts

    assert [route.name for route in host.routes] == [
        "connect",
        "whole",
        *("a/slow/native", "a/default/native", "a/slow/observe", "a/default/observe"),
        *("a/slow", "a/default"),
        *("b/slow/native", "b/default/native", "b/slow/observe", "b/default/observe"),
        *("b/slow", "b/default"),
        "not-admitted",
    ]


# === what the provider gets =====================================================


async def test_provider_gets_the_apps_request(gate: Gateway) -> None:
    """What the provider receives is the app's own, but for the encoding it asks for."""
    sent = [
        "authorization: Bearer app",
        "user-agent: sdk/1.0",
        "x-stainless-lang: python",
        "accept-encoding: gzip, br",
        "x-request-id: from-the-app",
    ]
    await gate.ask(request(body=b"{}", headers=sent))

    [received] = gate.upstream.requests
    assert dict(received.headers) == {
        "host": f"127.0.0.1:{gate.upstream.port}",
        "authorization": "Bearer app",
        "user-agent": "sdk/1.0",
        "x-stainless-lang": "python",
        "x-request-id": "from-the-app",
        "content-length": "2",
        "accept-encoding": "identity",
    }
    assert len(received.headers) == 7


async def test_app_gets_the_providers_reply(gate: Gateway) -> None:
    """The response's headers are the provider's own, `server` among them."""
    headers = [
        ("content-type", "application/json"),
        ("server", "cloudflare"),
        ("date", "Tue, 01 Sep 2026 00:00:00 GMT"),
        ("x-request-id", "req_1"),
        ("x-ratelimit-remaining-tokens", "17"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
    ]
    gate.upstream.play(reply(b"{}", headers=headers))

    answer = await gate.ask(POST)

    assert answer.headers == (*headers, ("content-length", "2"))


async def test_provider_can_not_pass_for_the_governor(gate: Gateway) -> None:
    """A refusal header from a provider does not reach the app."""
    gate.upstream.play(reply(b"{}", headers=[("x-tokenweir-refusal", "fake")]))

    assert (await gate.ask(POST)).header("x-tokenweir-refusal") is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/chat/completions", "/anthropic/v1/chat/completions"),
        ("/v1/models?limit=2&after=a%2Fb", "/anthropic/v1/models?limit=2&after=a%2Fb"),
        ("/", "/anthropic/"),
        ("/anthropic/v1", "/anthropic/anthropic/v1"),
    ],
)
async def test_path_prefix(path: str, expected: str) -> None:
    """The provider's prefix goes before the app's path; the query stays."""
    async with gateway(Setup(up={"path_prefix": "/anthropic"})) as gate:
        await gate.ask(request("GET", path))

        assert [received.target for received in gate.upstream.requests] == [expected]


# === retries ====================================================================


@pytest.mark.parametrize("status", [BUSY, TOO_MANY])
@pytest.mark.parametrize("size", [24, 1_048_576])
async def test_retry_replays_the_changed_body_once(
    gate: Gateway, status: str, size: int
) -> None:
    """E08: what is sent again is the changed body, whole and once."""
    changed = b"c" * size
    gate.upstream.play_next(reply(status=status))
    gate.upstream.play(reply(b'{"ok": 1}'))

    async def admit(call: Call) -> Answer:
        length = {"content-length": str(size)}
        return forward(call, "up", body=changed, headers=length)

    gate.processor.admit = admit
    answer = await gate.ask(POST)

    assert (answer.status, answer.body) == (200, b'{"ok": 1}')
    assert [received.body for received in gate.upstream.requests] == [changed] * 2
    assert len(gate.processor.of("admission")) == 1
    assert len(gate.processor.of("response")) == 1


async def test_retries_end() -> None:
    """After the policy's number of retries the provider's own answer passes."""
    async with gateway(Setup(policy={"retries": 1})) as gate:
        gate.upstream.play(reply(b'{"own": true}', status=BUSY))

        answer = await gate.ask(POST)

        assert (answer.status, answer.body) == (503, b'{"own": true}')
        assert answer.header("x-tokenweir-refusal") is None
        assert len(gate.upstream.requests) == 2


async def test_no_retries() -> None:
    """With no retries in the policy a request is sent once."""
    async with gateway(Setup(policy={"retries": 0})) as gate:
        gate.upstream.play(reply(status=BUSY))

        assert (await gate.ask(POST)).status == 503
        assert len(gate.upstream.requests) == 1


@pytest.mark.parametrize(
    "status", ["500 Oops", "502 Bad Gateway", "504 Timeout", "529 Overloaded", "400 No"]
)
async def test_what_may_have_worked_is_not_repeated(gate: Gateway, status: str) -> None:
    """Other errors pass at once and untouched: the work may have been done."""
    gate.upstream.play(reply(b'{"own": true}', status=status))

    answer = await gate.ask(POST)

    assert str(answer.status) == status[:3]
    assert answer.body == b'{"own": true}'
    assert len(gate.upstream.requests) == 1


@pytest.mark.parametrize("end", [End.RESET, End.CLOSE])
async def test_reset_after_the_request_is_not_repeated(gate: Gateway, end: End) -> None:
    """A provider that took the request and vanished is not asked again."""
    gate.upstream.play(end)

    answer = await gate.ask(POST)

    assert answer.status == 503
    assert answer.header("x-tokenweir-refusal") == "upstream_unavailable"
    assert len(gate.upstream.requests) == 1


async def test_apps_can_not_ask_for_retries(gate: Gateway) -> None:
    """Envoy's own request headers are not for apps."""
    sent = ["x-envoy-retry-on: 5xx", "x-envoy-max-retries: 9"]
    sent += ["x-envoy-upstream-rq-timeout-ms: 1"]
    gate.upstream.play(Pause(0.05), reply(status="500 Oops"))

    answer = await gate.ask(request(body=b"{}", headers=sent))

    assert answer.status == 500
    assert len(gate.upstream.requests) == 1


async def _ask_after(gate: Gateway, *headers: tuple[str, str]) -> Reply:
    gate.upstream.play_next(reply(b"{}", status=TOO_MANY, headers=headers))
    gate.upstream.play(reply(b"{}"))
    return await gate.ask(POST)


@pytest.mark.parametrize(
    "header",
    [
        ("retry-after", "600"),
        ("retry-after", "3"),
        ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"),
        ("x-should-retry", "false"),
    ],
)
async def test_long_waits_are_the_apps(gate: Gateway, header: tuple[str, str]) -> None:
    """C07: a provider that asks for a longer wait is not asked again meanwhile."""
    answer = await _ask_after(gate, header)

    assert answer.status == 429
    assert header in answer.headers
    assert answer.header("x-envoy-ratelimited") is None
    assert len(gate.upstream.requests) == 1


async def test_short_waits_are_kept(gate: Gateway) -> None:
    """C07: a short Retry-After is waited for before the next attempt."""
    began = time.monotonic()
    answer = await _ask_after(gate, ("retry-after", "1"))

    assert answer.status == 200
    assert time.monotonic() - began >= 1
    assert len(gate.upstream.requests) == 2


async def test_wait_limit_is_a_setting() -> None:
    """A platform team can have no Retry-After waited for at all."""
    async with gateway(Setup(settings={"retry_after_limit_ms": 500})) as gate:
        answer = await _ask_after(gate, ("retry-after", "1"))

        assert answer.status == 429


# === time-outs ==================================================================


def _admit_to(gate: Gateway, timeout_class: str) -> None:
    async def admit(call: Call) -> Answer:
        return forward(call, "up", timeout_class=timeout_class)

    gate.processor.admit = admit


@pytest.mark.parametrize("timeout_class", ["short", "nervous"])
async def test_provider_is_silent(gate: Gateway, timeout_class: str) -> None:
    """A provider that sends nothing in the class's time is given up."""
    _admit_to(gate, timeout_class)
    gate.upstream.play(End.STALL)

    answer = await gate.ask(POST)

    assert answer.status == 504
    assert answer.header("x-tokenweir-refusal") == "upstream_timeout"
    assert json.loads(answer.body)["error"]["code"] == "upstream_timeout"
    await gate.upstream.wait_for_hang_ups(1)


async def test_slow_but_steady_stream(gate: Gateway) -> None:
    """A stream may be longer than the idle time, as long as pieces come."""
    _admit_to(gate, "nervous")
    pieces = [b"data: %d\n\n" % number for number in range(8)]
    gate.upstream.play(*event_stream(pieces, 0.1))

    answer = await gate.ask(POST)

    assert (answer.body, answer.whole) == (b"".join(pieces), True)


async def test_total_time_ends_a_stream(gate: Gateway) -> None:
    """A class with a total time ends an answer that takes longer."""
    _admit_to(gate, "short")
    pieces = [b"data: %d\n\n" % number for number in range(8)]
    gate.upstream.play(*event_stream(pieces, 0.1))

    answer = await gate.ask(POST)

    assert (answer.status, answer.whole) == (200, False)


async def test_unknown_class_is_the_default(gate: Gateway) -> None:
    """A timeout class that Envoy was not rendered for yet is no reason to refuse."""
    _admit_to(gate, "unheard-of")

    answer = await gate.ask(POST)

    assert answer.status == 200
    assert len(gate.upstream.requests) == 1


async def test_provider_that_was_another_one(gate: Gateway) -> None:
    """A cluster's name is not a provider's: what has moved leads nowhere."""
    gate.processor.cluster = "up-0123456789"

    answer = await gate.ask(POST)

    assert answer.status == 503
    assert answer.header("x-tokenweir-refusal") == "envoy_outdated"
    assert gate.upstream.requests == []


# === the limit of a body ========================================================


@pytest.mark.parametrize("chunked", [False, True])
async def test_body_above_the_limit(chunked: bool) -> None:
    """
    E01: what is above the limit and the room for edits is refused in JSON, also where
    the processor reads no body that could tell.
    """
    limit = 1_200_000 + 65_536
    sizes = (limit - 1, limit, limit + 1)
    async with gateway(Setup(policy={"body_limit_bytes": 1_200_000})) as gate:
        answers = []
        for size in sizes:
            body = b"b" * size
            data = request(path="/v1/files", body=body)
            if chunked:
                framed = f"{size:x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
                data = request(headers=["transfer-encoding: chunked"]) + framed
            answers.append(await gate.ask(data))

        assert [answer.status for answer in answers] == [200, 200, 413]
        assert answers[2].header("x-tokenweir-refusal") == "body_too_large"
        assert json.loads(answers[2].body)["error"]["code"] == "body_too_large"
        assert len(gate.upstream.requests) == 2


async def test_body_above_the_limit_before_the_head_is_answered() -> None:
    """E02: it is refused at once, even if the processor still owes an answer."""
    patient = {"admission_timeout_ms": 60_000}
    limit = {"body_limit_bytes": 1_200_000}
    async with gateway(Setup(policy=limit, settings=patient)) as gate:
        never = asyncio.Event()

        async def stall(call: Call) -> None:
            await never.wait()

        gate.processor.before_head = stall
        data = request(path="/v1/files", body=b"b" * 3_000_000)
        for _ in range(10):
            async with asyncio.timeout(20):
                assert (await gate.ask(data)).status == 413


async def test_streams_are_independent(gate: Gateway) -> None:
    """A held exchange does not hold others on the same worker."""
    release = asyncio.Event()
    gate.upstream.play_next(Hold(release), reply(b"{}"))
    held = asyncio.ensure_future(gate.ask(POST))
    await gate.upstream.wait_for_requests(1)

    assert (await gate.ask(POST)).status == 200
    release.set()
    assert (await held).status == 200
