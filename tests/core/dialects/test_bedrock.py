"""Requests of Bedrock's Converse API as they are read and rewritten."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenweir.core.dialects.base import Edits, ErrorFacts, ResponseFacts
from tokenweir.core.dialects.bedrock import Bedrock
from tokenweir.core.dialects.path_form import Called, PathForm
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.sse import ServerSentEvent

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
FORM = PathForm("/model/{model}/converse", coded=True)
BEDROCK = Bedrock(Called(FORM, MODEL))
MESSAGES = [{"role": "user", "content": [{"text": "Hi"}]}]


def body(**members: Any) -> bytes:
    """Return a request with *members*."""
    return json.dumps({"messages": MESSAGES} | members).encode()


def test_facts() -> None:
    """The model and the stream come from the path, and usage needs no asking for."""
    request = BEDROCK.parse_request(body(inferenceConfig={"maxTokens": 7}))

    assert (request.model, request.stream, request.output_cap) == (MODEL, False, 7)
    assert (request.choices, request.user, request.wants_usage) == (1, "", True)
    assert request.service_tier is None
    assert request.thinking_tokens is None
    assert request.prompt.messages[0].texts == ("Hi",)
    streamed = Bedrock(Called(FORM, MODEL, streams=True)).parse_request(body())
    assert (streamed.stream, streamed.output_cap) == (True, None)


@pytest.mark.parametrize(
    ("members", "tier"),
    [
        ({"serviceTier": {"type": "flex"}}, "flex"),
        ({"serviceTier": {"type": "x" * 99}}, "x" * 64),
        ({"serviceTier": None, "performanceConfig": {"latency": "standard"}}, None),
        ({"performanceConfig": {"latency": "optimized"}}, "optimized"),
    ],
)
def test_tiers(members: dict[str, Any], tier: str | None) -> None:
    """A tier of service is told by either of two members, as prices are."""
    assert BEDROCK.parse_request(body(**members)).service_tier == tier


def test_a_cap_in_the_words_of_the_model() -> None:
    """A cap that goes to the model as it is counts, and is replaced where it stands."""
    asked = body(additionalModelRequestFields={"top_k": 5, "max_tokens": 900})

    assert BEDROCK.parse_request(asked).output_cap == 900
    written = json.loads(BEDROCK.rewrite(asked, Edits(output_cap=300)))
    assert written["additionalModelRequestFields"] == {"top_k": 5, "max_tokens": 300}
    assert "inferenceConfig" not in written


@pytest.mark.parametrize(
    "members",
    [
        {
            "inferenceConfig": {"maxTokens": 5},
            "additionalModelRequestFields": {"max_tokens": 9},
        },
        {"additionalModelRequestFields": {"max_tokens": 9, "max_gen_len": 9}},
        {"additionalModelRequestFields": {"inferenceConfig": {"maxTokens": 9}}},
        {"inferenceConfig": []},
        {"inferenceConfig": {"maxTokens": 0}},
        {"inferenceConfig": {"maxTokens": "5"}},
        {"additionalModelRequestFields": []},
        {"additionalModelRequestFields": {"max_tokens": True}},
        {"additionalModelRequestFields": {"Max_Tokens": 5}},
        {"InferenceConfig": {"maxTokens": 5}},
        {"serviceTier": "flex"},
        {"performanceConfig": 1},
        {"messages": {}},
        {"messages": [1]},
        {"toolConfig": []},
    ],
)
def test_refused(members: dict[str, Any]) -> None:
    """What could be read in two ways, or is no such request, is refused."""
    with pytest.raises(MalformedRequestError):
        BEDROCK.parse_request(body(**members))


@pytest.mark.parametrize("text", [b"[]", b"", b'{"a":1,"a":2}', b"{"])
def test_bodies_that_are_none(text: bytes) -> None:
    """A body is one JSON object."""
    with pytest.raises(MalformedRequestError):
        BEDROCK.parse_request(text)


@pytest.mark.parametrize("name", ["thinking", "reasoning_config"])
def test_thinking(name: str) -> None:
    """What a model may think is told in its maker's words, and lowered with the cap."""
    more = {name: {"type": "enabled", "budget_tokens": 4_000}}
    asked = body(additionalModelRequestFields=more)
    edits = Edits(output_cap=2_000, thinking_tokens=1_024)

    assert BEDROCK.parse_request(asked).thinking_tokens == 4_000
    written = json.loads(BEDROCK.rewrite(asked, edits))
    assert written["inferenceConfig"] == {"maxTokens": 2_000}
    assert written["additionalModelRequestFields"] == {
        name: {"type": "enabled", "budget_tokens": 1_024}
    }


def test_edits_keep_every_other_byte() -> None:
    """A cap is written where it belongs; the rest stays as it was written."""
    asked = b'{ "messages": [],\n"inferenceConfig": {"topP": 1.0, "maxTokens": 9}}'

    assert BEDROCK.rewrite(asked, Edits(model="other")) == asked
    written = BEDROCK.rewrite(asked, Edits(model="other", output_cap=5))
    assert written == asked.replace(b"9", b"5")
    added = BEDROCK.rewrite(b'{"messages": []}', Edits(output_cap=5))
    assert added == b'{"messages": [],"inferenceConfig":{"maxTokens":5}}'


def test_paths() -> None:
    """Another model is written into the path, percent-encoded; nothing else changes."""
    path = "/model/short/converse?x=1"

    assert BEDROCK.rewrite_path(path, Edits()) == path
    assert BEDROCK.rewrite_path(path, Edits(model="arn:aws:x/eu.m:0")) == (
        "/model/arn%3Aaws%3Ax%2Feu.m%3A0/converse?x=1"
    )
    assert Bedrock().rewrite_path(path, Edits(model="m")) == path


def test_a_body() -> None:
    """A whole reply is read, and what is none is unreadable."""
    facts, other = ResponseFacts(), ResponseFacts()
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    BEDROCK.read_body(json.dumps({"usage": usage}).encode(), facts)
    BEDROCK.read_body(b"[]", other)

    assert facts.usage is not None
    assert (facts.usage.input_tokens, facts.usage.output_tokens) == (3, 2)
    assert other.unreadable


def test_events() -> None:
    """An event is read by its name, and one without JSON is unreadable."""
    facts = ResponseFacts()
    BEDROCK.read_event(
        ServerSentEvent("contentBlockDelta", b'{"delta":{"text":"Hi"}}'), facts
    )

    assert (facts.texts, facts.unreadable) == (["Hi"], False)
    BEDROCK.read_event(ServerSentEvent("metadata", b"nothing"), facts)
    assert facts.unreadable


def test_errors() -> None:
    """An error has its message at the top, with the machine's object beside it."""
    error = ErrorFacts(
        429, "tokens", "rate_limit_exceeded", "Too many.", None, {"a": 1}
    )

    assert json.loads(BEDROCK.error_body(error)) == {
        "message": "Too many.",
        "tokenweir": {"a": 1},
    }
