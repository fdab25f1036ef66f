"""Anthropic's messages as Bedrock's InvokeModel takes them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tokenweir.core.dialects.base import Edits, ErrorFacts, ResponseFacts
from tokenweir.core.dialects.bedrock_invoke import BedrockInvoke
from tokenweir.core.dialects.path_form import Called, PathForm
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.sse import ServerSentEvent
from tokenweir.core.usage import TokenUsage

MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"
FORM = PathForm("/model/{model}/invoke", coded=True)
INVOKE = BedrockInvoke(Called(FORM, MODEL))
TITAN = "amazon.titan-embed-text-v2:0"
ASKED: dict[str, Any] = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi"}],
}
USAGE = {"input_tokens": 11, "output_tokens": 7}


def body(**members: Any) -> bytes:
    """Return a request with *members*."""
    return json.dumps(ASKED | members).encode()


def chunk(data: object) -> ServerSentEvent:
    """Return one of Anthropic's events as Bedrock frames it."""
    held = base64.b64encode(json.dumps(data).encode()).decode()
    return ServerSentEvent("chunk", json.dumps({"bytes": held, "p": "abc"}).encode())


def test_facts() -> None:
    """The model and the stream come from the path, all else from the body."""
    request = INVOKE.parse_request(body(anthropic_beta=["new-2025"], system="Brief."))

    assert (request.model, request.stream, request.output_cap) == (MODEL, False, 9)
    assert [each.texts for each in request.prompt.messages] == [("Brief.",), ("Hi",)]
    streams = BedrockInvoke(Called(FORM, MODEL, streams=True))
    assert streams.parse_request(body()).stream


@pytest.mark.parametrize(
    "other",
    [
        {"prompt": "Hi", "max_gen_len": 5},
        {"inputText": "Hi", "textGenerationConfig": {"maxTokenCount": 5}},
        {"inputText": "Hi"},
        {"prompt": "Hi", "max_tokens": 4_000, "input_type": "a"},
        {"anthropic_version": None, "messages": []},
        {"anthropic_version": 1, "messages": []},
    ],
)
def test_other_makers(other: dict[str, Any]) -> None:
    """What nobody can meter is refused, and who sends it is told what to do."""
    with pytest.raises(MalformedRequestError, match="Converse"):
        INVOKE.parse_request(json.dumps(other).encode())


@pytest.mark.parametrize("text", [b"[]", b"", b'{"a":1,"a":2}', b'{"Max_Tokens": 5}'])
def test_bodies_that_are_none(text: bytes) -> None:
    """A body is one JSON object that reads in one way."""
    with pytest.raises(MalformedRequestError):
        INVOKE.parse_request(text)


@pytest.mark.parametrize(
    ("name", "value", "is_usual"),
    [
        ("x-amzn-bedrock-service-tier", "default", True),
        ("x-amzn-bedrock-service-tier", "priority", False),
        ("x-amzn-bedrock-performanceconfig-latency", "standard", True),
        ("x-amzn-bedrock-performanceconfig-latency", "optimized", False),
        ("x-amzn-bedrock-trace", "ENABLED", True),
    ],
)
def test_prices_that_headers_choose(name: str, value: str, *, is_usual: bool) -> None:
    """A tier that only a header tells is no way to a price that nobody knows."""
    invoke = BedrockInvoke(Called(FORM, MODEL), [("accept", "*/*"), (name, value)])
    if is_usual:
        assert invoke.parse_request(body()).service_tier is None
        return

    with pytest.raises(MalformedRequestError, match=name):
        invoke.parse_request(body())


def test_embeddings() -> None:
    """Vectors are asked for in their makers' words, and tokens of the text settled."""
    invoke = BedrockInvoke(Called(FORM, TITAN))
    request = invoke.parse_request(b'{"inputText": "Hi"}')
    facts = ResponseFacts()
    INVOKE.read_body(b'{"embedding": [0.1], "inputTextTokenCount": 3}', facts)

    assert (request.model, request.output_cap, request.can_be_capped) == (
        TITAN,
        0,
        False,
    )
    assert (facts.usage, facts.usage_final) == (TokenUsage(input_tokens=3), True)
    with pytest.raises(MalformedRequestError):
        invoke.parse_request(b'{"inputText": "Hi", "anthropic_version": null}')


def test_vectors_are_not_streamed() -> None:
    """Who streams wants text, whatever the model is called."""
    streams = BedrockInvoke(Called(FORM, TITAN, streams=True))

    with pytest.raises(MalformedRequestError, match="Converse"):
        streams.parse_request(b'{"inputText": "Hi"}')


def test_edits() -> None:
    """The cap is in the body, the model in the path."""
    edits = Edits(model="eu.other:0", output_cap=5)

    assert json.loads(INVOKE.rewrite(body(), edits)) == ASKED | {"max_tokens": 5}
    assert INVOKE.rewrite_path("/model/a/invoke", edits) == "/model/eu.other%3A0/invoke"
    assert INVOKE.rewrite_path("/model/a/invoke", Edits()) == "/model/a/invoke"
    assert BedrockInvoke().rewrite_path("/model/a/invoke", edits) == "/model/a/invoke"


def test_a_body() -> None:
    """A whole reply is Anthropic's; its name for the model has other prices."""
    facts = ResponseFacts()
    reply = {
        "model": "claude-sonnet-4-5-20250929",
        "content": [{"type": "text", "text": "Hello."}],
        "stop_reason": "end_turn",
        "usage": USAGE,
    }
    INVOKE.read_body(json.dumps(reply).encode(), facts)

    assert facts.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert (facts.texts, facts.finished, facts.model) == (["Hello."], True, None)


def test_a_stream() -> None:
    """Each event holds one of Anthropic's; others say nothing."""
    facts = ResponseFacts()
    start = {"model": "claude", "usage": USAGE | {"output_tokens": 1}}
    events = [
        chunk({"type": "message_start", "message": start}),
        chunk({"type": "content_block_delta", "delta": {"text": "Hello."}}),
        chunk(
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 7},
            }
        ),
        chunk({"type": "message_stop", "amazon-bedrock-invocationMetrics": {}}),
        ServerSentEvent("other", b"{}"),
    ]
    for event in events:
        INVOKE.read_event(event, facts)

    assert facts.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert (facts.texts, facts.ended, facts.model) == (["Hello."], True, None)
    assert not facts.unreadable


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"bytes": 1}', b'{"bytes": "A"}', '{"bytes":"é"}']
)
def test_chunks_that_hold_nothing(data: bytes | str) -> None:
    """What can't be decoded is unreadable, and does not raise."""
    facts = ResponseFacts()
    text = data.encode() if isinstance(data, str) else data
    INVOKE.read_event(ServerSentEvent("chunk", text), facts)

    assert facts.unreadable


def test_errors() -> None:
    """An error is written as Bedrock does."""
    error = ErrorFacts(400, "", None, "Why.", None, {})

    assert json.loads(INVOKE.error_body(error)) == {"message": "Why.", "tokenweir": {}}
