"""Anthropic's messages: requests, edits, replies, errors."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.anthropic_messages import AnthropicMessages
from tokenweir.core.dialects.base import (
    Edits,
    ErrorFacts,
    Message,
    ModelRequest,
    Prompt,
    ResponseFacts,
)
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.sse import ServerSentEvent
from tokenweir.core.usage import TokenUsage

MESSAGES = AnthropicMessages()
BODY: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 1_024,
    "messages": [{"role": "user", "content": "hi"}],
}


def request(**members: Any) -> ModelRequest:
    """Return what a body with *members* is read as."""
    return MESSAGES.parse_request(json.dumps(BODY | members).encode())


def facts_of(*events: tuple[str, bytes]) -> ResponseFacts:
    """Return what is known after *events*."""
    facts = ResponseFacts()
    for name, data in events:
        MESSAGES.read_event(ServerSentEvent(name, data), facts)
    return facts


def test_names() -> None:
    """It is known by its provider's dialect and its own route."""
    assert (MESSAGES.name, MESSAGES.route) == ("anthropic", "messages")


def test_small_request() -> None:
    """There is one answer, up to a cap, and its usage always comes."""
    assert request() == ModelRequest(
        model="claude-x",
        stream=False,
        output_cap=1_024,
        choices=1,
        user="",
        wants_usage=True,
        prompt=Prompt((Message("user", ("hi",)),)),
    )


def test_nulls_are_absent() -> None:
    """null is as good as nothing, and so is a setting that servers have."""
    names = ("stream", "metadata", "system", "tools", "tool_choice", "thinking")

    assert request(**dict.fromkeys(names), min_p=1.5) == request()
    assert request(max_tokens=None).output_cap is None


def test_filling_the_cache() -> None:
    """A request may ask for no output at all: it only fills the prompt cache."""
    assert request(max_tokens=0).output_cap == 0


def test_stream_and_user() -> None:
    """The stream is asked for, and the end user is known, by their own members."""
    read = request(stream=True, metadata={"user_id": "u", "x": 1})

    assert read.stream
    assert read.user == "u"
    assert request(metadata={}).user == ""


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": None}, "model"),
        ({"model": " claude"}, "model"),
        ({"messages": None}, "messages"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": False}, "max_tokens"),
        ({"max_tokens": "1024"}, "max_tokens"),
        ({"stream": "true"}, "stream"),
        ({"metadata": "u"}, "metadata"),
        ({"metadata": {"user_id": 5}}, "metadata.user_id"),
        ({"metadata": {"user_id": "u" * 1_025}}, "metadata.user_id"),
        ({"system": 5}, "system"),
    ],
)
def test_wrong_types(members: dict[str, Any], param: str) -> None:
    """What has the wrong type is told by name."""
    with pytest.raises(MalformedRequestError) as caught:
        request(**members)

    assert caught.value.param == param


@given(
    st.dictionaries(
        st.sampled_from([*BODY, "stream", "system", "tools", "metadata", "output_config", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["role", "content", "type", "text", "source", "input", "name"]),
                inner,
                max_size=3,
            ),
            max_leaves=8,
        ),
    )
)  # fmt: skip
def test_nothing_else_is_raised(members: dict[str, Any]) -> None:
    """A mutated body is read, or malformed; no other exception comes out."""
    try:
        read = request(**members)
    except MalformedRequestError:
        return

    assert read.choices == 1
    assert read.model


def test_rewrite() -> None:
    """Model and cap are changed: usage needs no asking for."""
    body = b'{ "max_tokens":1.0, "model" : "a\\u0062", "x":[1e5] }\n'

    assert MESSAGES.rewrite(body, Edits(include_usage=True)) == body
    assert MESSAGES.rewrite(body, Edits("c", include_usage=True)) == (
        b'{ "max_tokens":1.0, "model" : "c", "x":[1e5] }\n'
    )
    assert MESSAGES.rewrite(body, Edits(output_cap=7)) == body.replace(b"1.0", b"7")


def test_event_type_in_either_place() -> None:
    """The type stands in the data or, with some, only in the event's name."""
    usage = b'"usage":{"output_tokens":7}'
    start = b'{"message":{"usage":{"input_tokens":9,"output_tokens":1}}}'

    for name, data in [
        ("message_delta", b"{" + usage + b"}"),
        ("message", b'{"type":"message_delta",' + usage + b"}"),
        ("message_delta", b'{"type":"message_delta",' + usage + b"}"),
        ("message_delta", b' {"type":null,' + usage + b"}"),
    ]:
        facts = facts_of(("message_start", start), (name, data))

        assert facts.usage == TokenUsage(input_tokens=9, output_tokens=7)
        assert facts.usage_final


@pytest.mark.parametrize("data", [b"", b" ", b"ping", b"[]", b"null", b"[DONE]"])
def test_events_that_say_nothing(data: bytes) -> None:
    """What is no JSON object is no fault of the stream."""
    assert facts_of(("message_stop", data)) == ResponseFacts()


@pytest.mark.parametrize("data", [b'{"type":', b'{"a":' * 9_000])
def test_events_that_can_not_be_read(data: bytes) -> None:
    """An object that can't be read makes the figures doubtful."""
    assert facts_of(("content_block_delta", data)) == ResponseFacts(unreadable=True)


def test_whole_reply() -> None:
    """A JSON reply has usage, model, text and an end."""
    facts = ResponseFacts()
    MESSAGES.read_body(
        b'{"type":"message","model":"claude-x","content":[{"type":"text","text":"Hi"}],'
        b'"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":7}}',
        facts,
    )

    assert facts == ResponseFacts(
        usage=TokenUsage(input_tokens=9, output_tokens=7),
        usage_final=True,
        model="claude-x",
        texts=["Hi"],
        text_bytes=2,
        deltas=1,
        finished=True,
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"a":', b"[" * 9_000])
def test_unreadable_reply(body: bytes) -> None:
    """What is no JSON object is unreadable, and raises nothing."""
    facts = ResponseFacts()
    MESSAGES.read_body(body, facts)

    assert facts == ResponseFacts(unreadable=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "message", "usage", "content", "delta", "content_block", "error", "cache_creation", "input", "text"]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "error", "x"]
)  # fmt: skip


@given(KINDS, JSON, st.binary(max_size=20))
def test_reading_never_raises(kind: str, reply: object, junk: bytes) -> None:
    """No reply whatever makes reading raise."""
    facts = ResponseFacts()
    for data in (json.dumps(reply).encode(), junk, b'{"message":' + junk):
        MESSAGES.read_event(ServerSentEvent(kind, data), facts)
        MESSAGES.read_body(data, facts)


def raised_by_the_sdk(status: int, body: bytes) -> anthropic.APIStatusError:
    """Return what Anthropic's own client raises if it gets *body*."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=body)

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = anthropic.Anthropic(api_key="x", http_client=transport, max_retries=0)
    with client, pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(**BODY)
    return caught.value


@pytest.mark.parametrize(
    ("status", "type_", "raised"),
    [
        (400, "invalid_request_error", anthropic.BadRequestError),
        (401, "authentication_error", anthropic.AuthenticationError),
        (403, "permission_error", anthropic.PermissionDeniedError),
        (404, "not_found_error", anthropic.NotFoundError),
        (413, "request_too_large", anthropic.APIStatusError),
        (415, "invalid_request_error", anthropic.APIStatusError),
        (429, "rate_limit_error", anthropic.RateLimitError),
        (500, "api_error", anthropic.InternalServerError),
        (502, "api_error", anthropic.InternalServerError),
        (503, "overloaded_error", anthropic.APIStatusError),
        (504, "timeout_error", anthropic.APIStatusError),
        (529, "overloaded_error", anthropic.APIStatusError),
    ],
)
def test_error_body(
    status: int, type_: str, raised: type[anthropic.APIStatusError]
) -> None:
    """Anthropic's client understands our errors, and our own object comes through."""
    detail = {"limit": "tokens_per_minute", "retry_after_ms": 8_200, "retryable": True}
    facts = ErrorFacts(status, "tokens", "code", "Tenant é is over.", "x", detail)
    error = raised_by_the_sdk(status, MESSAGES.error_body(facts))

    assert isinstance(error, raised)
    assert error.body == {
        "type": "error",
        "error": {"type": type_, "message": "Tenant é is over.", "tokenweir": detail},
    }


@pytest.mark.parametrize(
    ("thinking", "tokens"),
    [
        ({"type": "enabled", "budget_tokens": 2_048}, 2_048),
        ({"type": "disabled", "budget_tokens": 2_048}, None),
        ({"type": "adaptive"}, None),
        ({"type": "enabled", "budget_tokens": "many"}, None),
        ({"type": "enabled", "budget_tokens": 0}, None),
        ({"type": "enabled", "budget_tokens": True}, None),
        ("enabled", None),
        (None, None),
    ],
)
def test_a_budget_for_thinking(thinking: object, tokens: int | None) -> None:
    """What can be none is the provider's to refuse."""
    assert request(thinking=thinking).thinking_tokens == tokens


def test_a_budget_by_another_name() -> None:
    """Some servers would take it for the budget."""
    with pytest.raises(MalformedRequestError) as caught:
        request(thinking={"type": "enabled", "Budget_Tokens": 2_048})

    assert caught.value.param == "thinking.budget_tokens"


def test_cap_and_budget_are_lowered_together() -> None:
    """Each in its place, and nothing else."""
    body = (
        b'{"thinking" : { "budget_tokens":9000 , "type":"enabled"}, "max_tokens":1e4 ,'
        b' "x":1.0}'
    )

    assert MESSAGES.rewrite(body, Edits(output_cap=4_000, thinking_tokens=3_600)) == (
        body.replace(b"9000", b"3600").replace(b"1e4", b"4000")
    )


def test_path() -> None:
    """The model is in the body: no path changes."""
    assert MESSAGES.rewrite_path("/v1/x?y", Edits(model="m")) == "/v1/x?y"
