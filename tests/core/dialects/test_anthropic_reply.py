"""Anthropic's messages are understood, as a whole and event by event."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.core.dialects.anthropic_reply import read_message, read_stream_event
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.usage import TokenUsage

START = (
    "message_start",
    {
        "message": {
            "model": "claude-x",
            "usage": {"input_tokens": 9, "output_tokens": 1},
        }
    },
)
STOP = (
    "message_delta",
    {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
)
END: tuple[str, dict[str, Any]] = ("message_stop", {})


def text(delta: object) -> tuple[str, dict[str, Any]]:
    """Return an event that carries *delta*."""
    return ("content_block_delta", {"index": 0, "delta": delta})


def streamed(*events: tuple[str, dict[str, Any]]) -> ResponseFacts:
    """Return what is known after *events*."""
    facts = ResponseFacts()
    for kind, data in events:
        read_stream_event(kind, data, facts)
    return facts


def whole(**message: Any) -> ResponseFacts:
    """Return what is known after a whole message."""
    facts = ResponseFacts()
    read_message(message, facts)
    return facts


@pytest.mark.parametrize(
    ("event", "hidden"),
    [
        (("content_block_start", {}), False),
        (("content_block_start", {"content_block": {"type": "text"}}), False),
        (("content_block_start", {"content_block": {"type": "thinking"}}), False),
        (
            ("content_block_start", {"content_block": {"type": "redacted_thinking"}}),
            True,
        ),
        (("content_block_start", {"content_block": {"type": ["odd"]}}), True),
        (text({"type": "signature_delta", "signature": ""}), False),
        (text({"type": "signature_delta", "signature": "x"}), True),
        (text({"type": "text_delta", "text": "x"}), False),
    ],
)
def test_hidden(event: tuple[str, dict[str, Any]], hidden: bool) -> None:
    """What was generated and is no text is known of."""
    assert streamed(START, event).hidden is hidden
    assert streamed(START, event, ("content_block_start", {})).hidden is hidden


def test_stream() -> None:
    """A stream has model, text, usage and an end."""
    facts = streamed(
        START,
        ("ping", {}),
        ("content_block_start", {"content_block": {"type": "text", "text": ""}}),
        text({"type": "text_delta", "text": "Hello"}),
        ("content_block_stop", {"index": 0}),
        STOP,
        END,
    )

    assert facts == ResponseFacts(
        usage=TokenUsage(input_tokens=9, output_tokens=7),
        usage_final=True,
        model="claude-x",
        texts=["Hello"],
        text_bytes=5,
        deltas=1,
        finished=True,
        ended=True,
    )


def test_usage_is_final_while_nothing_follows() -> None:
    """A report covers what came before it; the first one only the beginning."""
    hello = text({"text": "Hello"})

    assert not streamed(START).usage_final
    assert not streamed(START, hello).usage_final
    assert streamed(START, hello, STOP).usage_final
    assert not streamed(START, STOP, hello).usage_final
    assert not streamed(START, hello, END).usage_final


def test_end() -> None:
    """A reason to stop is the end, and so is the last event, but for errors."""
    error = ("error", {"error": {"type": "overloaded_error"}})

    assert not streamed(START).finished
    assert streamed(START, STOP).finished
    assert streamed(START, END).finished
    assert not streamed(("message_delta", {"delta": {"stop_reason": None}})).finished
    assert not streamed(START, error, END).finished


@pytest.mark.parametrize(
    ("delta", "texts"),
    [
        ({"type": "text_delta", "text": "a"}, ["a"]),
        ({"type": "input_json_delta", "partial_json": '{"a'}, ['{"a']),
        ({"type": "thinking_delta", "thinking": "hm"}, ["hm"]),
        ({"type": "signature_delta", "signature": "xxx"}, []),
        ({"type": "citations_delta", "citation": {"cited_text": "x"}}, []),
        ({"text": 5, "thinking": None}, []),
        (None, []),
        ("a", []),
    ],
)
def test_deltas(delta: object, texts: list[str]) -> None:
    """Text, thinking and the input of tools are generated; signatures aren't text."""
    facts = streamed(text(delta))

    assert facts.texts == texts
    assert facts.deltas == len(texts)


@pytest.mark.parametrize(
    ("block", "texts"),
    [
        ({"type": "text", "text": "a"}, ["a"]),
        ({"type": "thinking", "thinking": "hm", "signature": "x"}, ["hm"]),
        ({"type": "tool_use", "name": "f", "input": {}}, ["f"]),
        ({"type": "tool_use", "name": "f", "input": {"a": "é"}}, ["f", '{"a":"é"}']),
        ({"type": "server_tool_use", "name": "web_search"}, ["web_search"]),
        ({"type": "mcp_tool_use", "name": "f", "input": None}, ["f"]),
        ({"type": "tool_use", "name": "f", "input": {"a": "\ud800"}}, ["f", '{"a":"?"}']),
        ({"type": "web_search_tool_result", "content": [{"title": "x"}]}, []),
        ({"type": "redacted_thinking", "data": "xxx"}, []),
        ({"type": ["odd"], "text": "a"}, []),
        ({"text": "a"}, []),
        (None, []),
        ("a", []),
    ],
)  # fmt: skip
def test_blocks(block: object, texts: list[str]) -> None:
    """What a block holds counts, at its start as in a whole message."""
    facts = streamed(("content_block_start", {"content_block": block}))

    assert facts.texts == texts
    assert whole(content=[block]).texts == texts


def test_deep_input() -> None:
    """The input of a tool that is too deep to be written again raises nothing."""
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]

    assert whole(content=[{"type": "tool_use", "name": "f", "input": deep}]).texts == [
        "f"
    ]


def test_whole_message() -> None:
    """A whole message has everything at once."""
    facts = whole(
        type="message",
        model="claude-x",
        content=[{"type": "text", "text": "Hello"}, {"type": "text", "text": "!"}],
        stop_reason="end_turn",
        usage={"input_tokens": 9, "cache_read_input_tokens": 5, "output_tokens": 7},
    )

    assert facts == ResponseFacts(
        usage=TokenUsage(input_tokens=9, cached_input_tokens=5, output_tokens=7),
        usage_final=True,
        model="claude-x",
        texts=["Hello", "!"],
        text_bytes=6,
        deltas=1,
        finished=True,
    )


@pytest.mark.parametrize(
    "message", [{}, {"content": None}, {"content": "a"}, {"usage": None, "model": 5}]
)
def test_message_without_anything(message: dict[str, Any]) -> None:
    """A message that says nothing leaves everything unknown."""
    assert whole(**message) == ResponseFacts()


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error"),
        ({"type": "error", "error": {"type": "see sk-CANARY"}}, "error"),
        ({"type": "error"}, "error"),
        ({"error": "odd"}, "error"),
        ({"error": {"type": "api_error"}}, "api_error"),
    ],
)
def test_error(members: dict[str, Any], error: str) -> None:
    """An error stands in the place of a message, or comes inside of a stream (T27)."""
    assert whole(**members).error == error
    assert streamed(START, ("error", members)).error == error


def test_error_of_another_dialect() -> None:
    """An error without a type, as gateways send it, is one; a ping without one isn't."""
    error = {"error": {"type": "server_error", "message": "no"}}

    assert streamed(START, ("message", error)).error == "server_error"
    assert streamed(START, ("ping", {"error": None})).error is None


def test_events_that_are_odd() -> None:
    """Events without what they should have say nothing, and raise nothing."""
    for kind in ("message_start", "content_block_start", "message_delta", "x", ""):
        assert streamed((kind, {})) == ResponseFacts()
        assert (
            streamed((kind, {"message": 5, "delta": 5, "usage": 5})) == ResponseFacts()
        )


def test_an_answer_that_ended_at_its_cap() -> None:
    """Told by the reason why it stopped, in a stream as in a whole message."""
    stop = ("message_delta", {"delta": {"stop_reason": "max_tokens"}})
    whole = ResponseFacts()
    read_message({"stop_reason": "max_tokens"}, whole)

    assert streamed(START, stop, END).at_cap == whole.at_cap == 1
    assert streamed(START, STOP, END).at_cap == 0
