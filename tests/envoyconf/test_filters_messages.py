"""What the processor is shown of an exchange, and how it is told the end."""

import asyncio

import pytest

from tests.envoyconf.client import request
from tests.envoyconf.gateway import Gateway
from tests.envoyconf.processor import Answer, Call, forward, refuse
from tests.scripted_upstream import (
    LAST_CHUNK,
    End,
    Pause,
    event_stream,
    head,
    reply,
)

POST = request(body=b'{"model": "m"}')
GOVERNOR_GONE = ("x-tokenweir-refusal", "governor_unavailable")


# === what the processor is shown ===============================================


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
async def test_messages_of_a_post(gate: Gateway, path: str) -> None:
    """
    Admission sees head and body, in one message or in two; the response filter head,
    response and body.
    """
    gate.upstream.play(reply(b'{"ok": true}'))

    answer = await gate.ask(request(path=path, body=b'{"model": "m"}'))

    assert (answer.status, answer.body) == (200, b'{"ok": true}')
    admission, response = gate.processor.calls
    assert admission.kinds()[-1] == "request_body"
    assert admission.whole is (path == "/v1/chat/completions")
    assert len(admission.messages) == 1 + (not admission.whole)
    assert admission.headers()[":path"] == [path]
    assert admission.body("request_body") == b'{"model": "m"}'
    assert response.kinds()[:2] == ["request_headers", "response_headers"]
    assert response.body("response_body") == b'{"ok": true}'
    assert response.messages[-1].response_body.end_of_stream


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
async def test_messages_of_a_bodiless_request(gate: Gateway, method: str) -> None:
    """Without a body the head alone is admitted, whatever the method."""
    head_only = head(headers=[("content-length", "2")])
    gate.upstream.play(head_only if method == "HEAD" else reply(b"{}"))

    answer = await gate.ask(request(method, "/v1/models"))

    assert answer.status == 200
    assert answer.header("content-length") == "2"
    assert gate.upstream.requests[0].method == method
    admission, response = gate.processor.calls
    assert admission.kinds() == ["request_headers"]
    assert admission.messages[0].request_headers.end_of_stream
    assert response.kinds()[:2] == ["request_headers", "response_headers"]


@pytest.mark.parametrize("framing", ["content-length: 0", "transfer-encoding: chunked"])
async def test_messages_of_an_empty_post(gate: Gateway, framing: str) -> None:
    """An empty body is either none or a body message without bytes."""
    tail = LAST_CHUNK if "chunked" in framing else b""

    answer = await gate.ask(request(headers=[framing]) + tail)

    assert answer.status == 200
    assert gate.processor.calls[0].body("request_body") == b""
    assert gate.upstream.requests[0].body == b""


async def test_attributes_come_with_the_response_head(gate: Gateway) -> None:
    """Code details and attempts are attributes of the response head, once."""
    gate.upstream.play_next(reply(status="503 Busy"))
    gate.upstream.play(reply(b"{}"))

    await gate.ask(POST)

    response = gate.processor.of("response")[0]
    assert response.attributes(0) == {}
    assert response.attributes(1) == {
        "response.code_details": "via_upstream",
        "upstream.request_attempt_count": 2.0,
    }
    assert response.attributes(2) == {}


async def test_metadata_crosses_from_admission_to_response(gate: Gateway) -> None:
    """Every message of the response filter carries admission's metadata."""
    gate.upstream.play(*event_stream([b"data: 1\n\n", b"data: 2\n\n"], 0.02))
    said = {"tenant": "acme", "hold": "h-1"}

    async def admit(call: Call) -> Answer:
        return forward(call, "up", metadata=said)

    gate.processor.admit = admit
    await gate.ask(POST)

    response = gate.processor.of("response")[0]
    carried = [response.metadata(i) for i in range(len(response.messages))]
    seen: dict[str, object] = {
        "tokenweir": said | {"request": {}}
    }  # what was changed is gone
    assert carried == [seen] * len(response.messages)


# === how a stream of the response filter ends ===================================


async def test_client_leaves_before_the_provider_answers(gate: Gateway) -> None:
    """A client that hangs up before a response is seen as a closed stream."""
    gate.upstream.play(End.STALL)

    async with await gate.connect() as app:
        app.send(POST)
        await gate.upstream.wait_for_requests(1)
    response = gate.processor.of("response")[0]
    await gate.processor.wait_for(lambda: response.ended is not None)

    assert response.kinds() == ["request_headers"]
    await gate.upstream.wait_for_hang_ups(1)


async def test_client_leaves_during_the_stream(gate: Gateway) -> None:
    """A client that hangs up in a stream is seen as a closed stream, without an end."""
    gate.upstream.play(*event_stream([b"data: 1\n\n"])[:-1], End.STALL)

    async with await gate.connect() as app:
        app.send(POST)
        await app.reader.readuntil(b"data: 1")
    response = gate.processor.of("response")[0]
    await gate.processor.wait_for(lambda: response.ended is not None)

    assert response.body("response_body") == b"data: 1\n\n"
    assert not response.messages[-1].response_body.end_of_stream
    await gate.upstream.wait_for_hang_ups(1)


async def test_provider_resets_during_the_stream(gate: Gateway) -> None:
    """A provider that resets in a stream is seen as a closed stream, without an end."""
    pieces = event_stream([b"data: 1\n\n"])[:-1]
    gate.upstream.play(*pieces, Pause(0.1), End.RESET)

    answer = await gate.ask(POST)
    response = gate.processor.of("response")[0]
    await gate.processor.wait_for(lambda: response.ended is not None)

    assert (answer.status, answer.body, answer.whole) == (
        200,
        b"data: 1\n\n",
        False,
    )
    assert not response.messages[-1].response_body.end_of_stream


async def test_client_leaves_while_admission_is_owed(gate: Gateway) -> None:
    """A client that hangs up while admission is awaited cancels the call."""
    never = asyncio.Event()

    async def admit(call: Call) -> Answer:
        await never.wait()
        return forward(call, "up")

    gate.processor.admit = admit
    async with await gate.connect() as app:
        app.send(POST)
        await gate.processor.wait_for(
            lambda: any("request_body" in call.kinds() for call in gate.processor.calls)
        )
    await gate.processor.wait_for(lambda: gate.processor.calls[0].ended is not None)

    assert gate.processor.calls[0].ended == "cancelled"
    assert gate.upstream.requests == []


@pytest.mark.parametrize(
    ("cluster", "details"),
    [
        ("dead", "upstream_reset_before_response_started{remote_connection_failure"),
        ("lost", "no_healthy_upstream"),
    ],
)
async def test_envoys_own_answer_is_shown(
    gate: Gateway, cluster: str, details: str
) -> None:
    """What Envoy answers for a provider is shown like a response, with the reason."""
    gate.processor.cluster = cluster

    answer = await gate.ask(POST)

    response = gate.processor.of("response")[0]
    assert response.headers("response_headers")[":status"] == ["503"]
    assert str(response.attributes(1)["response.code_details"]).startswith(details)
    assert answer.body == response.body("response_body")


async def test_refusals_are_not_shown(gate: Gateway) -> None:
    """What admission refuses costs no second call, and is not changed."""

    async def admit(call: Call) -> Answer:
        del call
        return refuse(429, b'{"error": 1}', retry_after="7", content_type="a/b")

    gate.processor.admit = admit
    answer = await gate.ask(POST)

    assert (answer.status, answer.body) == (429, b'{"error": 1}')
    assert answer.header("retry-after") == "7"
    assert answer.header("content-type") == "a/b"
    assert answer.header("content-length") == "12"
    assert gate.processor.of("response") == []
    assert gate.upstream.requests == []
