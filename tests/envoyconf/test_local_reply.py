"""Envoy's own answers: in whose dialect, whose fault, and what is left alone."""

import asyncio
import json

import pytest

from tests.envoyconf.client import Reply, request
from tests.envoyconf.gateway import Gateway, Setup, gateway
from tests.envoyconf.processor import Answer, Call, forward
from tests.scripted_upstream import End, Step, event_stream, head, reply
from tokenweir.envoyconf.local_reply import (
    REPLIES,
    LocalReply,
    anthropic_body,
    bedrock_body,
    bedrock_type,
    gemini_body,
    openai_body,
)

BY_REFUSAL = {str(reply.refusal): reply for reply in REPLIES}
ids = pytest.mark.parametrize("kind", REPLIES, ids=lambda kind: kind.refusal)


@ids
def test_bodies_are_json(kind: LocalReply) -> None:
    """All bodies are JSON, and say the same to programs."""
    openai = json.loads(openai_body(kind))["error"]
    anthropic = json.loads(anthropic_body(kind))

    assert openai["code"] == kind.refusal
    assert openai["message"] == anthropic["error"]["message"] == kind.message
    assert anthropic["type"] == "error"
    assert openai["tokenweir"] == anthropic["error"]["tokenweir"]
    assert openai["tokenweir"]["retryable"] is kind.retryable
    bedrock = json.loads(bedrock_body(kind))
    assert bedrock == {"message": kind.message, "tokenweir": openai["tokenweir"]}
    assert bedrock_type(kind).endswith("Exception")
    gemini = json.loads(gemini_body(kind))["error"]
    assert (gemini["code"], gemini["message"]) == (kind.status, kind.message)
    assert gemini["tokenweir"] == openai["tokenweir"]
    assert ("details" in gemini) is (kind.retry_after_s is not None)


def test_refusals_are_distinct() -> None:
    """Every refusal has one place that makes it."""
    assert len(BY_REFUSAL) == len(REPLIES)


ANTHROPIC_CALLERS = [
    ("/v1/messages", []),
    ("/v1/messages/count_tokens?beta=true", []),
    ("/anthropic/v1/messages", []),
    ("/v1/models", ["anthropic-version: 2023-06-01"]),
]
BEDROCK_CALLERS = [
    ("/model/us.a-v1%3A0/converse", ["anthropic-version: 2023-06-01"]),
    ("/async-invoke", ["amz-sdk-request: attempt=1; max=5"]),
]
GEMINI_CALLERS: list[tuple[str, list[str]]] = [
    ("/v1beta/models/gemini-2.5-flash:generateContent?key=k", []),
    ("/google/v1/models/gemini-2.5-flash:batchEmbedContents", []),
    ("/ws/google.ai.generativelanguage.v1beta.GenerativeService", []),
]
OPENAI_CALLERS = [
    ("/v1beta/openai/chat/completions", []),
    ("/v1/models/ft:gpt-4o:acme::abc", []),
    ("/v1/chat/completions", []),
    ("/v1/moderations", ["openai-organization: o"]),
    ("/v1/threads?next=/v1/messages", []),
]


CLUSTERS = {
    "governor_unavailable": "",
    "envoy_outdated": "nowhere",
    "upstream_unavailable": "dead",
}
UPSTREAM: dict[str, Step] = {
    "upstream_timeout": End.STALL,
    "upstream_invalid": head("101 Switching Protocols"),
}


def _provoke(gate: Gateway, refusal: str, path: str, headers: list[str]) -> bytes:
    """Make Envoy answer with *refusal*; return the request that does."""

    # Attempts to reach what is dead take as long as the machine likes.
    patience = "short" if refusal == "upstream_timeout" else "default"

    async def admit(call: Call) -> Answer:
        return forward(call, CLUSTERS.get(refusal, "up"), timeout_class=patience)

    gate.processor.admit = admit
    gate.upstream.play(UPSTREAM.get(refusal, reply(b"{}")))
    body = b'{"model": "m"}'
    if refusal == "body_too_large":
        size = 8 * 1024 * 1024 + 65_536 + 1
        body = f"{size:x}\r\n".encode() + b"b" * size + b"\r\n0\r\n\r\n"
        lines = [*headers, "transfer-encoding: chunked"]
        return request(path=path, headers=lines) + body
    if refusal == "upgrade_not_metered":
        headers = [*headers, "connection: upgrade", "upgrade: websocket"]
    elif refusal == "malformed_request":
        place, mark, query = path.partition("?")
        path = f"{place}%00{mark}{query}"
    return request(path=path, body=body, headers=headers)


@pytest.mark.parametrize("refusal", sorted({*BY_REFUSAL} - {"request_timeout"}))
@pytest.mark.parametrize(
    ("path", "headers"),
    ANTHROPIC_CALLERS + BEDROCK_CALLERS + GEMINI_CALLERS + OPENAI_CALLERS,
)
async def test_dialect_of_the_caller(
    gate: Gateway, refusal: str, path: str, headers: list[str]
) -> None:
    """Callers of each API get errors that its SDKs can read, marked as ours."""
    kind = BY_REFUSAL[refusal]
    data = _provoke(gate, refusal, path, headers)

    answer = await gate.ask(data)

    _expect(answer, kind, (path, headers))


def _expect(answer: Reply, kind: LocalReply, caller: tuple[str, list[str]]) -> None:
    """Demand that *answer* is of that *kind*, in the *caller*'s dialect."""
    anthropic, bedrock = caller in ANTHROPIC_CALLERS, caller in BEDROCK_CALLERS
    expected = anthropic_body(kind) if anthropic else openai_body(kind)
    expected = bedrock_body(kind) if bedrock else expected
    expected = gemini_body(kind) if caller in GEMINI_CALLERS else expected
    told = bedrock_type(kind) if bedrock else None
    assert answer.header("x-amzn-errortype") == told
    assert answer.body.decode() == expected
    assert answer.status == kind.status
    assert answer.header("content-type") == "application/json"
    assert answer.header("content-length") == str(len(expected))
    assert answer.header("x-tokenweir-refusal") == str(kind.refusal)
    wait = None if kind.retry_after_s is None else str(kind.retry_after_s)
    assert answer.header("retry-after") == wait


@pytest.mark.parametrize("steady", [False, True])
async def test_requests_that_do_not_end(steady: bool) -> None:
    """
    A request that stalls is ended, and so is one that goes on and on, in the dialect
    of the caller.
    """
    limits = {"upload_idle_timeout_ms": 2_000, "upload_timeout_ms": 4_000}
    callers = ANTHROPIC_CALLERS + OPENAI_CALLERS

    async def stall(gate: Gateway, path: str, headers: list[str]) -> Reply:
        async with await gate.connect() as app:
            app.send(request(path=path, headers=[*headers, "content-length: 9999"]))
            reading = asyncio.create_task(app.reply())
            while not reading.done():
                app.send(b"x" if steady else b"")
                await asyncio.sleep(0.2)
            return await reading

    async with gateway(Setup(settings=limits)) as gate:
        answers = await asyncio.gather(*(stall(gate, *each) for each in callers))
        details = {line["details"] for line in gate.envoy.access_log(len(callers))}

        assert gate.upstream.requests == []
    for answer, caller in zip(answers, callers, strict=True):
        _expect(answer, BY_REFUSAL["request_timeout"], caller)
    expected = "request_overall_timeout" if steady else "stream_idle_timeout"
    assert details == {expected}


@pytest.mark.parametrize(
    "status", ["500 Oops", "503 Busy", "504 Timeout", "413 Large", "400 Bad", "502 No"]
)
async def test_the_providers_errors_pass(gate: Gateway, status: str) -> None:
    """An error of the provider is not rewritten, whatever its status."""
    gate.upstream.play(reply(b'{"error": "its own"}', status=status))

    answer = await gate.ask(request(body=b"{}"))

    assert str(answer.status) == status[:3]
    assert answer.body == b'{"error": "its own"}'
    assert answer.header("x-tokenweir-refusal") is None
    assert answer.header("retry-after") is None


async def test_provider_that_does_not_resolve(gate: Gateway) -> None:
    """A provider without an address is a provider that can't be reached."""
    gate.processor.cluster = "lost"

    answer = await gate.ask(request(body=b"{}"))

    assert answer.status == 503
    assert answer.header("x-tokenweir-refusal") == "upstream_unavailable"


async def test_provider_that_resets_behind_its_head(gate: Gateway) -> None:
    """A head of which nothing was passed on yet can still become an error."""
    gate.upstream.play(*event_stream([b"data: 1\n\n"])[:-1], End.RESET)

    answer = await gate.ask(request(body=b"{}"))

    if answer.status != 200:  # the head and the reset came in one go
        assert answer.status == 503
        assert answer.header("x-tokenweir-refusal") == "upstream_unavailable"
    assert not (answer.status == 200 and answer.whole)


UNREADABLE = {
    "a protocol that is none": (b"nonsense\r\n\r\n", 400),
    "no path": (b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", 404),
    "long headers": (request(headers=["x: " + "a" * 70_000]), 431),
    "a coding": (request(headers=["transfer-encoding: gzip, chunked"]), 501),
}


@pytest.mark.parametrize(("data", "status"), UNREADABLE.values(), ids=UNREADABLE)
async def test_what_envoy_can_not_read(gate: Gateway, data: bytes, status: int) -> None:
    """Envoy's own status is kept, since it says more; the answer is marked as ours."""
    answer = await gate.ask(data)

    assert answer.status == status
    assert answer.header("x-tokenweir-refusal") == "malformed_request"


def test_every_status_of_what_envoy_can_not_read_is_known() -> None:
    """No status is declared that nobody gets."""
    kind = BY_REFUSAL["malformed_request"]
    tried = {status for _, status in UNREADABLE.values()}

    assert {kind.status, *kind.others} == tried


@pytest.mark.parametrize("data", [b"not http at all\r\n\r\n", b"\x16\x03\x01\x02\x00"])
async def test_no_path_and_no_headers(data: bytes) -> None:
    """Where there is no request to speak of, the answer is OpenAI's."""
    async with gateway(Setup()) as gate, await gate.connect() as app:
        app.send(data)
        answer = await app.reply()

    assert answer.status == 400
    assert answer.body.decode() == openai_body(BY_REFUSAL["malformed_request"])
