"""What becomes of a request before the processor sees it, and how apps may speak."""

import asyncio
import re
from pathlib import Path

import h2.config
import h2.connection
import httpx
import pytest
from hpack import Decoder
from hyperframe.frame import Frame, HeadersFrame

from tests.envoy_process import EnvoyProcess
from tests.envoyconf.client import App, ask, request
from tests.envoyconf.gateway import Gateway, Setup, gateway, policy_of
from tests.scripted_upstream import LAST_CHUNK, event_stream, head, reply
from tokenweir.envoyconf.bootstrap import render
from tokenweir.envoyconf.listener import NOT_FROM_APPS, NOT_FROM_APPS_PREFIXES
from tokenweir.envoyconf.settings import EnvoySettings

README = Path(__file__).parents[2] / "envoy" / "README.md"
POST = request(body=b'{"model": "m"}')
EVENTS = [b"data: 1\n\n", b"data: 2\n\n"]


# === governor headers ===========================================================


@pytest.mark.parametrize(
    "line",
    [
        "x-tokenweir-tenant: victim",
        "X-TokenWeir-Tenant: victim",
        "x-tokenweir-cluster: dead",
        "x-tokenweir-timeout: short",
        "x-tokenweir-role: response",
        "x_tokenweir_tenant: victim",
        "x-tokenweir_cluster: dead",
        "x-tokenweir-: empty",
        "x-envoy-retry-on: 5xx",
        "x-envoy-upstream-alt-stat-name: a",
    ],
)
async def test_governor_headers_of_apps(gate: Gateway, line: str) -> None:
    """S01: no app can pass a header that means something to us, however spelt."""
    answer = await gate.ask(request(body=b"{}", headers=[line, line]))

    assert answer.status == 200
    for headers in (
        gate.processor.calls[0].headers(),
        dict(gate.upstream.requests[0].headers),
    ):
        assert [name for name in headers if "tenant" in name or "_" in name] == []
        ours = [name for name in headers if name.startswith(("x-tokenweir", "x-envoy"))]
        assert set(ours) <= {"x-envoy-external-address"}


async def test_app_can_not_choose_a_provider(gate: Gateway) -> None:
    """S01: the routing headers of an app lead nowhere, even on a refused request."""
    gate.processor.cluster = "nowhere"
    lines = ["x-tokenweir-cluster: up", "x-tokenweir-timeout: default"]

    answer = await gate.ask(request(body=b"{}", headers=lines))

    assert answer.status == 503
    assert gate.upstream.requests == []


# === what is no provider's business =============================================


def test_headers_are_documented() -> None:
    """Envoy's README lists what is taken out, and nothing else."""
    section = README.read_text().split("## What is taken out")[1].split("\n## ")[0]
    taken_out = {f"{prefix}*" for prefix in NOT_FROM_APPS_PREFIXES} | {*NOT_FROM_APPS}

    assert set(re.findall(r"`([a-z0-9-]+\*?)`", section)) == taken_out


async def test_headers_that_go_nowhere(gate: Gateway) -> None:
    """
    An app's session, who it is to others, and what is about its connection to us reach
    neither processor nor provider; the rest does.
    """
    names = [f"{prefix}x" for prefix in NOT_FROM_APPS_PREFIXES] + [*NOT_FROM_APPS]
    lines = [f"{name}: CANARY" for name in names]
    upper = [f"{name.title()}: CANARY, CANARY" for name in names]
    answer = await gate.ask(request(body=b"{}", headers=[*lines, *upper, "x-own: 1"]))

    assert answer.status == 200
    assert dict(gate.upstream.requests[0].headers)["x-own"] == "1"
    assert b"CANARY" not in gate.upstream.received[0]
    assert "CANARY" not in str(gate.processor.calls[0].headers())


@pytest.mark.parametrize(
    "protocol", ["websocket", "TLS/1.0", "foo/1", "h2c, websocket"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_upgrades_are_refused(gate: Gateway, method: str, protocol: str) -> None:
    """An app that wants another protocol is told that it can't be metered."""
    lines = ["connection: upgrade", f"upgrade: {protocol}"]
    answer = await gate.ask(request(method, "/v1/realtime", headers=lines))

    assert answer.status == 403
    assert answer.header("x-tokenweir-refusal") == "upgrade_not_metered"
    assert gate.processor.calls == []
    assert gate.upstream.requests == []


async def test_an_offer_of_http_2_is_overlooked(gate: Gateway) -> None:
    """Some clients offer HTTP/2 with each request, and do without it as well."""
    lines = ["connection: upgrade, http2-settings", "upgrade: h2c"]
    lines += ["http2-settings: AAMAAABkAAQAAP__"]
    answer = await gate.ask(request(body=b"{}", headers=lines))

    assert answer.status == 200
    names = {name for name, _ in gate.upstream.requests[0].headers}
    assert not names & {"upgrade", "connection", "http2-settings"}


# === paths ======================================================================


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/v1/../admin", "/admin"),
        ("//v1///chat/completions", "/v1/chat/completions"),
        ("/v1/./models?a=/../b", "/v1/models?a=/../b"),
        ("/v1/%63hat", "/v1/chat"),
        ("/v1/%2e%2e/admin", "/admin"),
        (
            "/model/arn%3Aaws%2Fus.a-v1%3A0/invoke",
            "/model/arn%3Aaws%2Fus.a-v1%3A0/invoke",
        ),
        ("/v1%2fadmin", "/v1%2fadmin"),
        ("/v1%5Cadmin", "/v1%5Cadmin"),
        ("/v1/a%2f..%2fadmin", "/v1/a%2f..%2fadmin"),
    ],
)
async def test_paths_are_normal(gate: Gateway, path: str, seen: str) -> None:
    """
    Processor and provider see the same path, whatever it was spelt like.

    Escaped slashes stay: it is for the processor to tell where they lead.
    """
    await gate.ask(request("GET", path))

    assert gate.processor.calls[0].headers()[":path"] == [seen]
    assert gate.upstream.requests[0].target == seen


@pytest.mark.parametrize("path", ["/%00", "*"])
async def test_paths_that_read_in_two_ways(gate: Gateway, path: str) -> None:
    """A path that others could read in another way is refused."""
    answer = await gate.ask(request("GET", path))

    assert answer.status in (400, 404)
    assert answer.header("x-tokenweir-refusal") == "malformed_request"
    assert gate.processor.calls == []


# === malformed requests =========================================================


@pytest.mark.parametrize(
    "data",
    [
        request(headers=["content-length: 3", "transfer-encoding: chunked"])
        + LAST_CHUNK,
        request(headers=["content-length: 3", "content-length: 4"]) + b"abcd",
        request(headers=["transfer-encoding: gzip, chunked"]) + LAST_CHUNK,
        request(headers=["transfer-encoding : chunked"]) + LAST_CHUNK,
        request(headers=["x-a: b\0c"]),
        b"POST / HTTP/1.1\r\n\r\n",
        b"BREW / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
async def test_smuggling_and_nonsense(gate: Gateway, data: bytes) -> None:
    """What two servers could take for different requests is refused."""
    answer = await gate.ask(data)

    assert answer.status in (400, 501)
    assert gate.processor.calls == []
    assert gate.upstream.requests == []


@pytest.mark.parametrize(
    "lines", [["x-long: " + "a" * 70_000], [f"x-{n}: 1" for n in range(120)]]
)
async def test_too_many_headers(gate: Gateway, lines: list[str]) -> None:
    """Headers above the limits are refused in JSON."""
    answer = await gate.ask(request(headers=lines))

    assert answer.status == 431
    assert answer.header("x-tokenweir-refusal") == "malformed_request"


@pytest.mark.parametrize(
    "data",
    [
        b"CONNECT evil:443 HTTP/1.1\r\nhost: evil:443\r\n\r\n",
        request("GET", headers=["connection: upgrade", "upgrade: websocket"]),
    ],
)
async def test_tunnels_are_refused(gate: Gateway, data: bytes) -> None:
    """Nothing can turn a connection into a tunnel past the governor."""
    answer = await gate.ask(data)

    assert answer.status == 403
    assert gate.processor.calls == []


# === protocols ==================================================================


async def test_http_1_0(gate: Gateway) -> None:
    """An HTTP/1.0 app gets no chunks: the length, or the end of the connection."""
    gate.upstream.play_next(reply(b'{"n": 1}'))
    gate.upstream.play_next(*event_stream(EVENTS))
    old = request(body=b"{}", version="HTTP/1.0")

    plain, stream = await gate.ask(old), await gate.ask(old)

    assert (plain.version, plain.status, plain.body) == ("HTTP/1.0", 200, b'{"n": 1}')
    assert plain.header("content-length") == "8"
    assert stream.header("transfer-encoding") is None
    assert stream.body == b"".join(EVENTS)


async def test_http_1_0_without_a_host(gate: Gateway) -> None:
    """HTTP/1.0 needs no Host header."""
    answer = await gate.ask(b"GET /v1/models HTTP/1.0\r\n\r\n")

    assert answer.status == 200


async def test_keep_alive(gate: Gateway) -> None:
    """A connection serves one request after the other, refused ones too."""
    async with await gate.connect() as app:
        statuses = []
        for cluster in ("up", "nowhere", "up"):
            gate.processor.cluster = cluster
            statuses.append((await app.ask(POST)).status)

    assert statuses == [200, 503, 200]


async def test_expect_continue(gate: Gateway) -> None:
    """An app that waits for 100 Continue gets it from Envoy, at once."""
    async with await gate.connect() as app:
        app.send(request(headers=["expect: 100-continue", "content-length: 2"]))
        interim = await app.reply(bodiless=True)
        answer = await app.ask(b"{}")

    assert (interim.status, answer.status) == (100, 200)
    assert gate.upstream.requests[0].body == b"{}"


async def test_http_2(gate: Gateway) -> None:
    """Apps may speak HTTP/2 in the clear, many exchanges at a time."""
    gate.upstream.choose(
        lambda received: (
            event_stream(EVENTS) if received.target == "/stream" else [reply(b"{}")]
        )
    )
    async with httpx.AsyncClient(http1=False, http2=True) as client:
        base = f"http://127.0.0.1:{gate.port}"
        paths = ["/stream", "/plain"] * 4
        answers = await asyncio.gather(
            *(client.post(base + path, content=b"{}") for path in paths)
        )

    assert {answer.http_version for answer in answers} == {"HTTP/2"}
    assert [answer.status_code for answer in answers] == [200] * 8
    assert {answer.content for answer in answers[::2]} == {b"".join(EVENTS)}
    assert {answer.headers["content-length"] for answer in answers[1::2]} == {"2"}


async def test_http_2_hang_up(gate: Gateway) -> None:
    """An app that resets an HTTP/2 stream is seen to leave."""
    gate.upstream.play(*event_stream(EVENTS)[:-1])
    url = f"http://127.0.0.1:{gate.port}/v1/chat/completions"
    async with (
        httpx.AsyncClient(http1=False, http2=True) as client,
        client.stream("POST", url, content=b"{}") as answer,
    ):
        async for _ in answer.aiter_raw():
            break
    response = gate.processor.of("response")[0]
    await gate.processor.wait_for(lambda: response.ended is not None)

    assert not response.messages[-1].response_body.end_of_stream


async def test_http_2_connect(gate: Gateway) -> None:
    """A tunnel over HTTP/2 is refused as well."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration())
    connection.initiate_connection()
    connection.send_headers(1, [(":method", "CONNECT"), (":authority", "evil:443")])
    async with await App.connect(gate.port) as app, asyncio.timeout(20):
        app.send(connection.data_to_send())
        fields: list[tuple[str, str]] = []
        while not fields:
            frame, length = Frame.parse_frame_header(
                memoryview(await app.reader.readexactly(9))
            )
            frame.parse_body(memoryview(await app.reader.readexactly(length)))
            if isinstance(frame, HeadersFrame):
                fields = [(str(k), str(v)) for k, v in Decoder().decode(frame.data)]

    assert fields[0] == (":status", "403")
    assert gate.processor.calls == []


async def test_head_has_a_length_and_no_body(gate: Gateway) -> None:
    """The length of a HEAD is the provider's, and the connection goes on."""
    gate.upstream.play(head(headers=[("content-length", "1234")]))
    async with await gate.connect() as app:
        first = await app.ask(request("HEAD", "/v1/models"))
        second = await app.ask(request("HEAD", "/v1/models"))

    assert (first.status, second.status) == (200, 200)
    assert first.header("content-length") == "1234"


# === the listener ===============================================================


async def test_nothing_is_deprecated(gate: Gateway) -> None:
    """Envoy has nothing to say against the configuration."""
    said = [line for line in gate.envoy.log().splitlines() if "][info][" not in line]

    assert said == []


async def test_a_port_has_one_envoy(gate: Gateway) -> None:
    """A second Envoy on the same port does not start, instead of taking half of it."""
    settings = EnvoySettings(listen_port=gate.port, processor_sockets=("/nowhere",))
    bootstrap = render(policy_of(), settings)

    with pytest.raises(RuntimeError, match="Address already in use"):
        await asyncio.to_thread(EnvoyProcess.start, bootstrap)


async def test_connections_are_bounded() -> None:
    """Connections above the limit are closed, and others live on."""
    async with gateway(Setup(settings={"max_connections": 2})) as gate:
        async with await gate.connect() as first, await gate.connect() as second:
            answers = [await app.ask(POST) for app in (first, second)]
            turned_away = await ask(gate.port, POST)

        assert [answer.status for answer in answers] == [200, 200]
        assert turned_away.status == 0
