"""OpenAI's chat completions: requests, edits, replies, errors."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.base import (
    Edits,
    ErrorFacts,
    Message,
    ModelRequest,
    Prompt,
    ResponseFacts,
)
from tokenweir.core.dialects.openai_chat import OpenAIChat
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.sse import ServerSentEvent
from tokenweir.core.usage import TokenUsage

CHAT = OpenAIChat()
BODY: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "messages": [{"role": "user", "content": "hi"}],
}


def request(**members: Any) -> ModelRequest:
    """Return what a body with *members* is read as."""
    return CHAT.parse_request(json.dumps(BODY | members).encode())


def facts_of(*events: str) -> ResponseFacts:
    """Return what is known after events with such data."""
    facts = ResponseFacts()
    for data in events:
        CHAT.read_event(ServerSentEvent("message", data.encode()), facts)
    return facts


def test_names() -> None:
    """It is known by its provider's dialect and its own route."""
    assert (CHAT.name, CHAT.route) == ("openai", "chat_completions")


def test_small_request() -> None:
    """What a request doesn't say has its default."""
    assert request() == ModelRequest(
        model="gpt-4o-mini",
        stream=False,
        output_cap=None,
        choices=1,
        user="",
        wants_usage=False,
        prompt=Prompt((Message("user", ("hi",)),)),
    )


def test_nulls_are_absent() -> None:
    """null is as good as nothing, and so is a setting that servers have."""
    names = ("stream", "stream_options", "max_tokens", "max_completion_tokens", "n")
    others = ("user", "safety_identifier", "tools", "functions", "response_format")

    assert request(**dict.fromkeys(names + others), min_p=1.5) == request()


@pytest.mark.parametrize(
    ("members", "cap"),
    [
        ({"max_tokens": 16}, 16),
        ({"max_completion_tokens": 16}, 16),
        ({"max_tokens": 16, "max_completion_tokens": 4_000}, 4_000),
        ({"max_tokens": 4_000, "max_completion_tokens": 16}, 4_000),
        ({"max_tokens": 16, "max_completion_tokens": None}, 16),
    ],
)
def test_output_cap(members: dict[str, int], cap: int) -> None:
    """The cap counts in either spelling, and of two the larger."""
    assert request(**members).output_cap == cap


def test_choices() -> None:
    """So many answers as were asked for, 128 at most."""
    assert request(n=3).choices == 3
    assert request(n=128).choices == 128


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        ({"stream": True}, False),
        ({"stream": True, "stream_options": {}}, False),
        ({"stream": True, "stream_options": {"include_usage": None}}, False),
        ({"stream": True, "stream_options": {"include_usage": False}}, False),
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
    ],
)
def test_wanting_usage(members: dict[str, Any], wanted: bool) -> None:
    """Usage is wanted if the app asks for it."""
    assert request(**members).stream
    assert request(**members).wants_usage is wanted


def test_user() -> None:
    """The newer name of the end user's id counts, else the older."""
    assert request(user="u").user == "u"
    assert request(user="u", safety_identifier="s").user == "s"
    assert request(user="u", safety_identifier="").user == "u"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ["a"]}, "model"),
        ({"model": "gpt-4o\0"}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"stream": "true"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream_options": True}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": "100"}, "max_tokens"),
        ({"max_tokens": -1, "max_completion_tokens": -2}, "max_completion_tokens"),
        ({"max_tokens": -1.0}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"n": 1.0}, "n"),
        ({"user": 5}, "user"),
        ({"user": "u" * 1_025}, "user"),
        ({"safety_identifier": {}}, "safety_identifier"),
    ],
)
def test_wrong_types(members: dict[str, Any], param: str) -> None:
    """What has the wrong type is told by name."""
    with pytest.raises(MalformedRequestError) as caught:
        request(**members)

    assert caught.value.param == param


@given(
    st.dictionaries(
        st.sampled_from([*BODY, "stream", "n", "tools", "functions", "response_format", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["role", "content", "type", "text", "image_url", "function", "name"]),
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

    assert read.choices >= 1
    assert read.model


def test_rewrite() -> None:
    """The model is renamed and usage asked for; all else keeps its bytes."""
    body = b'{ "n":1.0, "model" : "a\\u0062", "stream":true, "x":[1e5] }\n'

    assert CHAT.rewrite(body, Edits()) == body
    assert CHAT.rewrite(body, Edits('q"w')) == body.replace(rb'"a\u0062"', rb'"q\"w"')
    assert CHAT.rewrite(body, Edits("b", include_usage=True)) == (
        b'{ "n":1.0, "model" : "b", "stream":true, "x":[1e5],'
        b'"stream_options":{"include_usage":true} }\n'
    )


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("", ',"max_completion_tokens":50'),
        (',"max_tokens":90', ',"max_tokens":50'),
        (
            ',"max_tokens":40,"max_completion_tokens":90',
            ',"max_tokens":40,"max_completion_tokens":50',
        ),
        (',"max_completion_tokens":null', ',"max_completion_tokens":50'),
        (',"max_tokens":-1', ',"max_tokens":50'),
        (
            ',"max_tokens":-1,"max_completion_tokens":9',
            ',"max_tokens":50,"max_completion_tokens":9',
        ),
    ],
)
def test_a_cap_is_written_where_the_app_writes_it(given: str, sent: str) -> None:
    """In the app's own spelling; a cap of the app's that is lower stays."""
    body = f'{{"model":"a"{given}}}'.encode()

    assert CHAT.rewrite(body, Edits(output_cap=50)) == (
        f'{{"model":"a"{sent}}}'.encode()
    )


@pytest.mark.parametrize("cap", [{"max_tokens": -1}, {"max_completion_tokens": -1}])
def test_no_cap_at_all(cap: dict[str, int]) -> None:
    """-1 is no cap, whatever the other spelling says: some servers read only one."""
    assert request(**cap).output_cap is None
    assert (
        request(**{"max_tokens": 16, "max_completion_tokens": 16} | cap).output_cap
        is None
    )


def test_a_cap_is_written_where_the_provider_reads_it() -> None:
    """If the app has none; one of its own stays in its place."""
    older = Edits(output_cap=50, output_cap_field="max_tokens")

    assert CHAT.rewrite(b'{"n":1}', older) == b'{"n":1,"max_tokens":50}'
    assert CHAT.rewrite(b'{"max_completion_tokens":90}', older) == (
        b'{"max_completion_tokens":50}'
    )


def test_sound() -> None:
    """An answer in sound is asked for; a question in sound is in the prompt."""
    heard = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    asked = request(messages=[{"role": "user", "content": [heard]}])

    assert (request().hears, request().speaks) == (False, False)
    assert (asked.hears, asked.speaks) == (True, False)
    assert request(modalities=["text", "audio"]).speaks


def test_the_tier_of_service() -> None:
    """What is asked for is one thing, what answers another."""
    assert request().service_tier is None
    assert request(service_tier="flex").service_tier == "flex"
    facts = facts_of('{"service_tier":null}', '{"service_tier":"priority"}')
    assert facts.service_tier == "priority"


@pytest.mark.parametrize(
    "options", ["null", "{}", '{"include_usage":false}', '{"x":1}']
)
def test_rewritten_requests_want_usage(options: str) -> None:
    """Whatever the options were: what is sent asks for usage."""
    body = json.dumps(BODY | {"stream": True})[:-1] + f',"stream_options":{options}}}'
    sent = CHAT.rewrite(body.encode(), Edits(include_usage=True))

    assert CHAT.parse_request(sent).wants_usage


@pytest.mark.parametrize(
    "data", ["", " ", "[DONE]", ": ping - 2", "heartbeat", "[1]", "null"]
)
def test_events_that_say_nothing(data: str) -> None:
    """What is no JSON object is no fault of the stream."""
    facts = facts_of(data)

    assert (facts.usage, facts.texts, facts.unreadable) == (None, [], False)


@pytest.mark.parametrize("data", ['{"a":', "{", '{"a":' * 5_000, "{}{}"])
def test_events_that_can_not_be_read(data: str) -> None:
    """An object that can't be read makes the figures doubtful; later ones count."""
    facts = facts_of(data, '{"usage":{"prompt_tokens":11,"completion_tokens":7}}')

    assert facts.unreadable
    assert facts.usage == TokenUsage(input_tokens=11, output_tokens=7)


def test_broken_text_is_read() -> None:
    """A broken byte costs a character, not the event (T07)."""
    facts = ResponseFacts()
    event = b'{"choices":[{"delta":{"content":"a\xffb"}}]}'
    CHAT.read_event(ServerSentEvent("message", event), facts)

    assert facts.texts == ["a\ufffdb"]
    assert not facts.unreadable


def test_end_of_stream_is_a_hint() -> None:
    """[DONE] says that the answer is complete, but not after an error (T26)."""
    usage = '{"usage":{"prompt_tokens":11,"completion_tokens":7}}'

    assert facts_of("[DONE]").finished
    assert facts_of("[DONE]").ended
    assert facts_of("[DONE]", "[DONE]", usage).usage_final
    assert not facts_of('{"error":{"type":"server_error"}}', "[DONE]").finished
    assert not facts_of('{"error":{"type":"server_error"}}', "[DONE]").ended


def test_whole_reply() -> None:
    """A JSON reply has usage, model, text and an end."""
    facts = ResponseFacts()
    reply = {
        "model": "gpt-4o-2024-08-06",
        "choices": [
            {
                "message": {"content": "Hello"},
                "finish_reason": "stop",
                "logprobs": {"content": [{"logprob": -9999.0}]},
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
    CHAT.read_body(json.dumps(reply).replace("-9999.0", "-Infinity").encode(), facts)

    assert facts == ResponseFacts(
        usage=TokenUsage(input_tokens=11, output_tokens=7),
        usage_final=True,
        model="gpt-4o-2024-08-06",
        texts=["Hello"],
        text_bytes=5,
        deltas=1,
        finished=True,
    )


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"<html>", b'{"a":', b"null", b"[" * 9_000]
)
def test_unreadable_reply(body: bytes) -> None:
    """What is no JSON object is unreadable, and raises nothing."""
    facts = ResponseFacts()
    CHAT.read_body(body, facts)

    assert facts == ResponseFacts(unreadable=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["choices", "delta", "message", "usage", "error", "content", "prompt_tokens", "tool_calls", "function", "model"]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON, st.binary(max_size=20))
def test_reading_never_raises(reply: object, junk: bytes) -> None:
    """No reply whatever makes reading raise."""
    facts = ResponseFacts()
    for data in (json.dumps(reply).encode(), junk, b'{"choices":' + junk):
        CHAT.read_event(ServerSentEvent("message", data), facts)
        CHAT.read_body(data, facts)


def raised_by_the_sdk(status: int, body: bytes) -> openai.APIStatusError:
    """Return what OpenAI's own client raises if it gets *body*."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=body)

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = openai.OpenAI(api_key="x", http_client=transport, max_retries=0)
    with client, pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(**BODY)
    return caught.value


def test_error_body() -> None:
    """OpenAI's client understands our errors, and our own object comes through."""
    detail = {"limit": "tokens_per_minute", "retry_after_ms": 8_200, "retryable": True}
    body = CHAT.error_body(
        ErrorFacts(
            429, "tokens", "rate_limit_exceeded", "Tenant é is over.", None, detail
        )
    )
    error = raised_by_the_sdk(429, body)

    assert isinstance(error, openai.RateLimitError)
    assert (error.code, error.type, error.param) == (
        "rate_limit_exceeded",
        "tokens",
        None,
    )
    assert error.body == {
        "message": "Tenant é is over.",
        "type": "tokens",
        "code": "rate_limit_exceeded",
        "param": None,
        "tokenweir": detail,
    }


def test_error_body_of_a_wrong_member() -> None:
    """The client is told which member is wrong."""
    facts = ErrorFacts(400, "invalid_request_error", None, "No.", "max_tokens", {})
    error = raised_by_the_sdk(400, CHAT.error_body(facts))

    assert isinstance(error, openai.BadRequestError)
    assert (error.code, error.param) == (None, "max_tokens")
