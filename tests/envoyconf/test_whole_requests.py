"""Requests that the processor is shown whole: which they are, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.h2_app import AppH2
from tests.envoyconf.access_log_service import AccessLogService
from tests.envoyconf.certificates import Authority
from tests.envoyconf.client import Reply, request
from tests.envoyconf.gateway import Gateway, Setup, gateway
from tests.envoyconf.h2_upstream import H2Upstream
from tests.envoyconf.processor import HEAD, Answer, Call, forward, refuse
from tests.scripted_upstream import LAST_CHUNK, chunk, reply
from tokenweir.core.dialects import COUNTING_FORMS, METERED_FORMS, METERED_PATHS
from tokenweir.core.dialects.path_form import MODEL
from tokenweir.core.identify import TOKEN_FREE_PATHS
from tokenweir.envoyconf.filters import ADMISSION_FILTER, WHOLE_LIMIT_BYTES

BODY = b'{"model": "m"}'
POST = request(body=BODY)
FORMS = (*METERED_FORMS, *COUNTING_FORMS)
READ_PATHS = (
    *dict.fromkeys((*METERED_PATHS, *TOKEN_FREE_PATHS)),
    *(form.text.replace(MODEL, "gpt-4o.mini_1") for form in FORMS),
)


def admissions(gate: Gateway) -> list[Call]:
    """Return the calls of the admission filter."""
    return gate.processor.of("admission")


def sent_upstream(gate: Gateway) -> int:
    """Return how many bytes the provider has received, on whatever connection."""
    return sum(map(len, gate.upstream.received))


# === which they are =============================================================


async def test_one_message(gate: Gateway) -> None:
    """
    The body comes alone, with all of the head as Envoy has it; nothing of that goes
    upstream.
    """
    lines = ["authorization: Bearer k", "content-type: application/json", "x-own: 1"]
    answer = await gate.ask(request(path="/v1/messages?a=b", body=BODY, headers=lines))

    assert answer.status == 200
    [call] = admissions(gate)
    assert call.kinds() == ["request_body"]
    assert call.body("request_body") == BODY
    assert list(call.attributes(0)) == [HEAD]
    head = call.headers()
    assert head.pop("x-request-id")
    assert head == {
        ":method": ["POST"],
        ":path": ["/v1/messages?a=b"],
        ":scheme": ["http"],
        ":authority": ["app.internal"],
        "authorization": ["Bearer k"],
        "content-type": ["application/json"],
        "x-own": ["1"],
        "content-length": ["14"],
        "x-forwarded-proto": ["http"],
        "x-envoy-external-address": ["127.0.0.1"],
    }
    [received] = gate.upstream.requests
    assert {name for name, _ in received.headers} == {
        "host",
        "authorization",
        "content-type",
        "x-own",
        "content-length",
        "x-request-id",
        "accept-encoding",
    }


async def test_every_path_that_is_read(gate: Gateway) -> None:
    """Wherever a body is read, it is shown whole."""
    async with await gate.connect() as app:
        for path in READ_PATHS:
            assert (await app.ask(request(path=path, body=BODY))).status == 200

    assert [call.kinds() for call in admissions(gate)] == [["request_body"]] * len(
        READ_PATHS
    )
    assert [call.headers()[":path"] for call in admissions(gate)] == [
        [path] for path in READ_PATHS
    ]


async def test_lines_stay_apart(gate: Gateway) -> None:
    """Headers that come more than once, or are empty, are told as they came."""
    lines = ["x-api-key: a", "x-api-key: a", "api-key:", "x-own: 1, 2", "x-own: 3"]
    await gate.ask(request(body=BODY, headers=lines))

    [call] = admissions(gate)
    assert call.whole
    head = call.headers()
    assert head["x-api-key"] == ["a", "a"]
    assert head["api-key"] == [""]
    assert head["x-own"] == ["1, 2", "3"]


THE_LONG_WAY = {
    "chunks": request(headers=["transfer-encoding: chunked"])
    + chunk(BODY)
    + LAST_CHUNK,
    "no body": request(),
    "no length": request(headers=["content-length: 0"]),
    "no chunk": request(headers=["transfer-encoding: chunked"]) + LAST_CHUNK,
    "another method": request("PUT", body=BODY),
    "another path": request(path="/v1/files", body=BODY),
    "a path alike": request(path="/v1/chat/completions/", body=BODY),
    "a path that is read, and more": request(path="/model/a/b/converse", body=BODY),
    "a form": request(
        path="/v1/images/edits",
        body=BODY,
        headers=["content-type: Multipart/Form-Data; boundary=x"],
    ),
    "a coding": request(body=BODY, headers=["content-encoding: gzip"]),
    "letters": request(body=BODY, headers=["x-own: \xe9"]),
    "Latin-1": request(body=BODY, headers=["x-own: ?"]).replace(b"?", b"\xe9", 1),
    "a tab": request(body=BODY, headers=["x-own: a\tb"]),
    "a long head": request(body=BODY, headers=["x-own: " + "x" * 40_000]),
    "a large body": request(body=b" " * (WHOLE_LIMIT_BYTES + 1)),
}


@pytest.mark.parametrize("name", THE_LONG_WAY)
async def test_the_long_way(gate: Gateway, name: str) -> None:
    """Whatever is not as usual has its head shown first, and is admitted as ever."""
    data = THE_LONG_WAY[name]
    if name == "a large body":
        gate.processor.admit = refuse_large
    answer = await gate.ask(data)

    assert answer.status == (413 if name == "a large body" else 200)
    [call] = admissions(gate)
    assert call.kinds()[0] == "request_headers"
    assert call.attributes(0) == {}


async def refuse_large(call: Call) -> Answer:
    """Say that it is too large."""
    del call
    return refuse(413)


@pytest.mark.parametrize(("size", "whole"), [(30_000, True), (33_000, False)])
async def test_long_heads(gate: Gateway, size: int, whole: bool) -> None:
    """A head that is shown twice is within what Envoy takes; a longer one is not."""
    line = "x-own: " + "x" * size
    answer = await gate.ask(request(body=BODY, headers=[line]))

    assert answer.status == 200
    [call] = admissions(gate)
    assert call.whole is whole
    assert call.headers()["x-own"] == ["x" * size]
    assert gate.upstream.requests[0].header("x-own") == "x" * size


LENGTH = ("content-length", str(len(BODY)))


@pytest.mark.parametrize(
    ("headers", "body", "kinds"),
    [
        ([LENGTH], BODY, ["request_body"]),
        ([], BODY, ["request_headers", "request_body"]),
        ([], b"", ["request_headers"]),
    ],
)
async def test_http2(
    gate: Gateway, headers: Sequence[tuple[str, str]], body: bytes, kinds: list[str]
) -> None:
    """Over HTTP/2 a request is shown whole if it says how long it is."""
    async with AppH2.open(gate.port) as app:
        stream = app.begin("/v1/chat/completions", body, headers=headers, end=True)
        answer = await app.answer(stream)

    assert answer.status == 200
    [call] = admissions(gate)
    assert call.kinds() == kinds
    assert gate.upstream.requests[0].body == body


async def test_trailers(gate: Gateway) -> None:
    """What stands behind a body is nobody's key, and makes nobody wait."""
    async with AppH2.open(gate.port) as app:
        stream = app.begin("/v1/chat/completions", BODY, headers=[LENGTH])
        app.end_with(stream, [("x-tokenweir-cluster", "dead"), ("x-own", "1")])
        answer = await app.answer(stream)

    assert answer.status == 200
    [call] = admissions(gate)
    assert call.kinds() == ["request_body"]
    assert call.body("request_body") == BODY
    assert gate.upstream.requests[0].body == BODY


# === before it is admitted ======================================================


async def test_nothing_goes_out_before_the_answer(gate: Gateway) -> None:
    """The provider sees no connection and no byte until the request is admitted."""
    asked, answer_now = asyncio.Event(), asyncio.Event()
    before = gate.upstream.connections, sent_upstream(gate)

    async def admit(call: Call) -> Answer:
        asked.set()
        await answer_now.wait()
        return forward(call, "up")

    gate.processor.admit = admit
    async with await gate.connect() as app:
        app.send(POST)
        await asked.wait()
        # It would have gone by now: other requests are served meanwhile.
        for _ in range(3):
            assert (await gate.ask(request("GET", "/" + "x" * 70_000))).status == 431
        assert (gate.upstream.connections, sent_upstream(gate)) == before
        answer_now.set()
        assert (await app.reply()).status == 200


async def test_a_refusal_goes_nowhere(gate: Gateway) -> None:
    """Who is refused has reached no provider: no connection was opened for it."""
    before = gate.upstream.connections, sent_upstream(gate)
    gate.processor.admit = refused
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(gate.ask(POST)) for _ in range(10)]

    assert {task.result().status for task in asked} == {429}
    assert all(call.whole for call in admissions(gate))
    assert (gate.upstream.connections, sent_upstream(gate)) == before


async def refused(call: Call) -> Answer:
    """Say no."""
    del call
    return refuse(429)


async def test_who_leaves_while_sending_is_nobodys_business(gate: Gateway) -> None:
    """An app that is gone before its request was there has asked for nothing."""
    async with await gate.connect() as app:
        app.send(POST[:-1])
        # Its head has been read by the time when that of another one is answered.
        assert (await gate.ask(POST)).status == 200
    assert (await gate.ask(POST)).status == 200

    assert len(admissions(gate)) == 2
    assert len(gate.upstream.requests) == 2


# === what is applied ============================================================


async def test_changes(gate: Gateway) -> None:
    """Headers are set, replaced and taken out, the path among them."""

    async def admit(call: Call) -> Answer:
        headers = {"authorization": "Bearer own", ":path": "/v1/x?y=1", "x-new": "é"}
        answer = forward(call, "up", headers=headers)
        changes = answer.dynamic_metadata.fields["tokenweir"].struct_value["request"]
        changes.update({"remove": {"x-api-key": True, "x-own": True}})
        return answer

    gate.processor.admit = admit
    lines = ["authorization: app", "x-api-key: a", "x-api-key: b", "x-own: 1"]
    await gate.ask(request(body=BODY, headers=lines))

    [received] = gate.upstream.requests
    assert received.target == "/v1/x?y=1"
    assert received.all("authorization") == ["Bearer own"]
    assert received.header("x-new") == "é".encode().decode("latin-1")
    assert not received.all("x-api-key") + received.all("x-own")
    assert not [name for name, _ in received.headers if "tokenweir" in name]


@pytest.mark.parametrize(
    "value", ["a\r\nx-smuggled: 1", "a\nx-smuggled: 1", "a\r", "a\0b"]
)
async def test_values_that_are_no_line(gate: Gateway, value: str) -> None:
    """A value that would begin another header is refused, as Envoy itself does."""

    async def admit(call: Call) -> Answer:
        return forward(call, "up", headers={"authorization": value})

    gate.processor.admit = admit
    answer = await gate.ask(POST)

    assert answer.header("x-tokenweir-refusal") == "governor_unavailable"
    assert gate.upstream.requests == []


SIZES = [0, 1, 13, 15, 200, 100_000]
NOT_UTF_8 = b'{"\xff\xfe\x00": "\xc3"}'


def with_length_kept(bootstrap: dict[str, Any]) -> None:
    """Have admission keep a content-length that nobody has put right."""
    admission_of(bootstrap)["allow_content_length_header"] = True


def that_fails_open(bootstrap: dict[str, Any]) -> None:
    """Have admission let pass what was not answered."""
    admission_of(bootstrap)["failure_mode_allow"] = True


def manager_of(bootstrap: dict[str, Any]) -> Any:
    """Return the configuration of the connection manager."""
    [listener] = bootstrap["static_resources"]["listeners"]
    return listener["filter_chains"][0]["filters"][0]["typed_config"]


def admission_of(bootstrap: dict[str, Any]) -> Any:
    """Return that of the admission filter."""
    filters = manager_of(bootstrap)["http_filters"]
    return next(f for f in filters if f["name"] == ADMISSION_FILTER)["typed_config"]


def changed_to(sizes: Sequence[int | None]) -> Any:
    """Return what admits each request with a body of the next size; None: as it is."""
    left = iter(sizes)

    async def admit(call: Call) -> Answer:
        size = next(left)
        return forward(call, "up", body=None if size is None else b"z" * size)

    return admit


@pytest.mark.parametrize("kept", [False, True], ids=["length goes", "length is kept"])
async def test_no_byte_is_taken_for_another_request(kept: bool) -> None:
    """
    However a body is changed and framed, on a connection that is used again the
    provider reads each request as one, and no byte beside them.

    Envoy itself would send the old length beside a longer body where
    `allow_content_length_header` is set: the rest would begin the next request.
    """
    sizes: list[int | None] = [None, *SIZES, None, *reversed(SIZES), None]
    chunks = request(headers=["transfer-encoding: chunked"]) + chunk(BODY) + LAST_CHUNK
    waiting = request(body=BODY, headers=["expect: 100-continue"])
    setup = Setup(adapt=with_length_kept) if kept else Setup()
    async with gateway(setup) as gate, await gate.connect() as app:
        gate.processor.admit = changed_to(sizes)
        for number, _ in enumerate(sizes):
            # Those that go the long way between them share the connections.
            if number % 3 == 1:
                gate.processor.admit, admit = as_it_is, gate.processor.admit
                assert (await app.ask(chunks)).status == 200
                gate.processor.admit = admit
            body = NOT_UTF_8 if number % 2 else BODY
            assert (await app.ask(request(body=body))).status == 200
        gate.processor.admit = as_it_is
        app.send(waiting)
        assert (
            await app.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        )
        assert (await app.reply()).status == 200

        whole = [call for call in admissions(gate) if call.whole]
        assert len(whole) == len(sizes) + 1
        [raw] = gate.upstream.received
        assert raw.count(b"HTTP/1.1\r\n") == len(gate.upstream.requests)
        bodies = [
            each.body for each in gate.upstream.requests if "length" in framing(each)
        ]
        expected = [
            (NOT_UTF_8 if number % 2 else BODY) if size is None else b"z" * size
            for number, size in enumerate(sizes)
        ]
        assert bodies == [*expected, BODY]


async def as_it_is(call: Call) -> Answer:
    """Admit it unchanged."""
    return forward(call, "up")


def framing(received: Any) -> str:
    """Return how *received* tells where it ends; demand that it does so once."""
    length, coding = received.all("content-length"), received.all("transfer-encoding")
    assert len(length) + len(coding) == 1
    assert not length or int(length[0]) == len(received.body)
    return "length" if length else "chunks"


async def test_http2_upstream(tmp_path: Path) -> None:
    """Over HTTP/2 the length goes with the body as well."""
    authority = Authority.create(tmp_path)
    context = authority.server_context("localhost", alpn=("h2",))
    async with H2Upstream(context) as upstream:
        up = {"scheme": "https", "host": "localhost", "ca_file": str(authority.file)}
        async with gateway(Setup(up=up | {"port": upstream.port})) as gate:
            gate.processor.admit = changed_to([None, *SIZES])
            for _ in (None, *SIZES):
                assert (await gate.ask(POST)).status == 200

    assert upstream.bodies == [BODY, *(b"z" * size for size in SIZES)]
    assert [each["content-length"] for each in upstream.requests] == [
        str(len(body)) for body in upstream.bodies
    ]


async def test_a_retry_replays_it(gate: Gateway) -> None:
    """What is sent again is what was admitted: the changed body and head, once asked."""
    gate.upstream.play_next(reply(status="503 Busy"))
    gate.processor.admit = changed_to([100])

    answer = await gate.ask(POST)

    assert answer.status == 200
    assert [each.body for each in gate.upstream.requests] == [b"z" * 100] * 2
    first, second = (dict(each.headers) for each in gate.upstream.requests)
    assert first == second
    assert len(admissions(gate)) == 1


# === no answer ==================================================================


ERRORS = {
    "/v1/chat/completions": "code",
    "/v1/messages": "type",
    "/v1beta/models/m:generateContent": "status",
    "/model/m/converse": "message",
}


def refusal_in(answer: Reply, path: str) -> dict[str, Any]:
    """Return the object `tokenweir` of a refusal in the dialect of *path*."""
    told: dict[str, Any] = json.loads(answer.body)
    error = told if path.startswith("/model/") else told["error"]
    assert ERRORS[path] in error
    assert ("type" in told) is (path == "/v1/messages")
    detail: dict[str, Any] = error["tokenweir"]
    return detail


async def test_without_an_answer_nothing_passes() -> None:
    """
    Nothing is forwarded that was not admitted, even if the filter were told to let it
    pass; the caller hears whose fault it is in its own dialect, and when to come back.
    """
    async with gateway(Setup(adapt=that_fails_open)) as gate:
        for admit in (silent, broken):
            gate.processor.admit = admit
            await refused_in_each_dialect(gate)
        await gate.processor.stop()
        await refused_in_each_dialect(gate)
        await gate.processor.start()
        gate.processor.admit = as_it_is
        assert (await gate.ask(POST)).status == 200

        assert len(gate.upstream.requests) == 1


async def silent(call: Call) -> Answer:
    """Answer, but name no provider."""
    answer = forward(call, "up", metadata={})
    answer.ClearField("dynamic_metadata")
    return answer


async def broken(call: Call) -> Answer:
    """Answer nothing."""
    raise RuntimeError(f"sk-CANARY {call.role}")


async def refused_in_each_dialect(gate: Gateway) -> None:
    """Demand a refusal on the governor's part, on the paths of each API."""
    for path in ERRORS:
        answer = await gate.ask(request(path=path, body=BODY))

        assert answer.status == 503
        assert answer.header("x-tokenweir-refusal") == "governor_unavailable"
        assert answer.header("retry-after") == "1"
        detail = refusal_in(answer, path)
        assert detail["refusal"] == "governor_unavailable"
        assert detail["retry_after_ms"] == 1_000


@pytest.mark.parametrize(
    "changes", [{}, {"set": {}}, {"set": {"a": 1}, "remove": {}}, "text", 7, None]
)
async def test_changes_of_another_kind(gate: Gateway, changes: Any) -> None:
    """What can't be applied whole is not applied at all: it goes nowhere."""

    async def admit(call: Call) -> Answer:
        answer = forward(call, "up")
        told = answer.dynamic_metadata.fields["tokenweir"].struct_value
        told.update({"request": changes})
        return answer

    gate.processor.admit = admit
    answer = await gate.ask(POST)

    assert answer.header("x-tokenweir-refusal") == "governor_unavailable"
    assert gate.upstream.requests == []


# === what is told of it =========================================================


async def test_secrets_are_told_to_the_provider_alone() -> None:
    """
    Neither the provider's credential nor the app's key nor the ticket is where it does
    not belong: in an access log, a later message, or a header upstream.
    """
    folder = Path(tempfile.mkdtemp(prefix="tw-als-"))

    def adapt(bootstrap: dict[str, Any]) -> None:
        add_access_logs(bootstrap, folder)

    said = {"ticket": "TICKET", "hold": "hold-1"}

    async def admit(call: Call) -> Answer:
        secret = {"authorization": "Bearer sk-CANARY-provider"}
        return forward(call, "up", headers=secret, metadata=said)

    async with (
        AccessLogService(folder / "log") as log,
        gateway(Setup(adapt=adapt)) as gate,
    ):
        gate.processor.admit = admit
        line = ["authorization: Bearer sk-CANARY-app", "x-request-id: id-1"]
        assert (await gate.ask(request(body=BODY, headers=line))).status == 200
        told = await log.until_it_has(b"hold-1")
        written = json.dumps(gate.envoy.access_log(1)) + (folder / "all").read_text()
        [call] = gate.processor.of("response")
        later = [call.metadata(number) for number in range(len(call.messages))]

    assert "TICKET" in written
    for text in (told.decode("latin-1"), written, str(later)):
        assert "CANARY" not in text
        assert "x-tokenweir-whole" not in text
    [received] = gate.upstream.requests
    assert received.header("authorization") == "Bearer sk-CANARY-provider"
    assert b"CANARY-app" not in gate.upstream.received[0]
    assert b"TICKET" not in gate.upstream.received[0]


def add_access_logs(bootstrap: dict[str, Any], folder: Path) -> None:
    """Log all metadata there are, to a file and to a service in *folder*."""
    http2: dict[str, Any] = {"explicit_http_config": {"http2_protocol_options": {}}}
    protocol = (
        "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    )
    endpoint = {"address": {"pipe": {"path": str(folder / "log")}}}
    bootstrap["static_resources"]["clusters"].append(
        {
            "name": "log",
            "type": "STATIC",
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": protocol,
                    **http2,
                }
            },
            "load_assignment": {
                "cluster_name": "log",
                "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}],
            },
        }
    )
    common = {
        "log_name": "test",
        "transport_api_version": "V3",
        "grpc_service": {"envoy_grpc": {"cluster_name": "log"}},
        "buffer_size_bytes": 0,
    }
    kinds = "type.googleapis.com/envoy.extensions.access_loggers"
    text = "%DYNAMIC_METADATA(tokenweir)% %REQ(x-tokenweir-whole)%\n"
    manager_of(bootstrap)["access_log"] += [
        {
            "name": "grpc",
            "typed_config": {
                "@type": f"{kinds}.grpc.v3.HttpGrpcAccessLogConfig",
                "common_config": common,
                "additional_request_headers_to_log": ["x-tokenweir-whole"],
            },
        },
        {
            "name": "file",
            "typed_config": {
                "@type": f"{kinds}.file.v3.FileAccessLog",
                "path": str(folder / "all"),
                "log_format": {"text_format_source": {"inline_string": text}},
            },
        },
    ]
