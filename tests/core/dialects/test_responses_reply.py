"""A response is understood whole and event by event, however it ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.responses_reply import read_event, read_response
from tokenweir.core.usage import TokenUsage

USAGE = {
    "input_tokens": 31,
    "input_tokens_details": {"cached_tokens": 30},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 34,
}
KNOWN = TokenUsage(
    input_tokens=1, cached_input_tokens=30, output_tokens=1, reasoning_tokens=2
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "response", "item", "delta", "error", "status", "output"),
                    *("content", "usage", "input_tokens", "output_tokens", "text"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


def streamed(*events: dict[str, Any]) -> ResponseFacts:
    """Return what is known after *events*."""
    facts = ResponseFacts()
    for event in events:
        read_event(event, facts)
    return facts


def whole(**members: Any) -> ResponseFacts:
    """Return what is known of a whole response."""
    facts = ResponseFacts()
    read_response({"object": "response", "status": "completed"} | members, facts)
    return facts


def delta(text: str, kind: str = "output_text") -> dict[str, Any]:
    """Return the event that carries *text*."""
    return {"type": f"response.{kind}.delta", "delta": text, "obfuscation": "xyz"}


def last(status: str, **members: Any) -> dict[str, Any]:
    """Return a last event."""
    return {"type": f"response.{status}", "response": {"status": status} | members}


CREATED = {"type": "response.created", "response": {"model": "gpt-5", "usage": None}}


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_endings(status: str) -> None:
    """Whoever ends says what was used, complete or not (T19)."""
    facts = streamed(CREATED, delta("Hi"), last(status, usage=USAGE))

    assert facts.usage == KNOWN
    assert facts.usage_final
    assert facts.finished
    assert facts.ended
    assert facts.error is None
    assert facts.model == "gpt-5"
    assert facts.texts == ["Hi"]


@pytest.mark.parametrize(
    ("details", "at_cap"),
    [
        ({"reason": "max_output_tokens"}, 1),
        ({"reason": "content_filter"}, 0),
        (None, 0),
        ("odd", 0),
    ],
)
def test_at_its_cap(details: object, at_cap: int) -> None:
    """A response that reached its cap is told from one that was filtered."""
    assert streamed(last("incomplete", incomplete_details=details)).at_cap == at_cap


def test_status_of_the_event() -> None:
    """Some say how the response is in the event's type only."""
    end = {"type": "response.completed", "response": {"usage": USAGE}}

    assert streamed(delta("Hi"), end).ended


@pytest.mark.parametrize("usage", [USAGE, None])
def test_failure(usage: object) -> None:
    """A failure is none of the endings, with a report or without (T19)."""
    error = {"code": "server_error", "message": "a secret"}
    facts = streamed(CREATED, delta("Hi"), last("failed", error=error, usage=usage))

    assert facts.error == "server_error"
    assert not facts.finished
    assert not facts.ended
    assert facts.usage_final is (usage is not None)


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ({"type": "error", "code": "overloaded", "message": "x"}, "overloaded"),
        ({"type": "error", "error": {"type": "server_error"}}, "server_error"),
        ({"type": "error"}, "error"),
        ({"type": "response.failed", "response": {"error": None}}, "error"),
        ({"type": "response.cancelled", "response": {}}, "error"),
    ],
)
def test_errors(event: dict[str, Any], name: str) -> None:
    """Errors have a name, whatever they look like."""
    facts = streamed(event)

    assert facts.error == name
    assert facts.usage is None


@pytest.mark.parametrize(
    "kind",
    [
        *("output_text", "refusal", "reasoning_text", "reasoning_summary_text"),
        *("function_call_arguments", "custom_tool_call_input", "audio.transcript"),
        *("mcp_call_arguments", "code_interpreter_call_code", "unheard_of"),
    ],
)
def test_deltas(kind: str) -> None:
    """Whatever a delta adds to was generated."""
    facts = streamed(delta("a", kind), delta("b", kind))

    assert facts.texts == ["a", "b"]
    assert facts.deltas == 2


def test_no_text_twice() -> None:
    """What the events at an item's end repeat is not counted again."""
    message = {
        "type": "message",
        "content": [{"type": "output_text", "text": "Hi"}],
    }
    facts = streamed(
        {"type": "response.output_item.added", "item": {"type": "message"}},
        delta("Hi"),
        {"type": "response.output_text.done", "text": "Hi"},
        {"type": "response.content_part.done", "part": message["content"]},
        {"type": "response.output_item.done", "item": message},
        last("completed", output=[message]),
    )

    assert facts.texts == ["Hi"]
    assert not facts.hidden


def test_only_the_last_event() -> None:
    """A stream of its last event alone has the text in there."""
    item = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    facts = streamed(last("completed", output=[item]))

    assert facts.texts == ["Hi"]
    assert facts.finished
    assert facts.ended


def test_calls() -> None:
    """The name of a called function was generated, too; it comes with its beginning."""
    item = {"type": "function_call", "name": "weather", "arguments": ""}
    facts = streamed(
        {"type": "response.output_item.added", "item": item},
        delta('{"city"}', "function_call_arguments"),
        {"type": "response.output_item.done", "item": item},
    )

    assert facts.texts == ["weather", '{"city"}']
    assert not facts.hidden


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.output_audio.delta", "delta": "UklG"},
        {"type": "response.audio.delta", "delta": "UklG"},
        {"type": "response.image_generation_call.partial_image", "partial_image_b64": "i"},
        {"type": "response.output_item.added", "item": {"type": "web_search_call"}},
        {"type": "response.output_item.done", "item": {"type": "reasoning", "encrypted_content": "x"}},
    ],
)  # fmt: skip
def test_hidden(event: dict[str, Any]) -> None:
    """What is no text to be counted was generated all the same."""
    facts = streamed(event)

    assert facts.hidden
    assert facts.texts == []


def test_whole() -> None:
    """A whole response has its texts, its report and its tier."""
    facts = whole(
        model="gpt-5-2025",
        service_tier="flex",
        output=[
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "content": [{"type": "reasoning_text", "text": "Well."}],
            },
            {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
            {"type": "message", "content": [{"type": "refusal", "refusal": "No"}]},
            {"type": "function_call", "name": "f", "arguments": "{}"},
            {"type": "custom_tool_call", "name": "g", "input": "x"},
        ],
        usage=USAGE,
    )

    assert facts.texts == ["Hm.", "Well.", "Hi", "No", "f", "{}", "g", "x"]
    assert facts.usage == KNOWN
    assert facts.usage_final
    assert facts.finished
    assert (facts.model, facts.service_tier) == ("gpt-5-2025", "flex")


def test_tier_before_it_serves() -> None:
    """The wish for any tier is not the tier that served."""
    facts = streamed(
        {"type": "response.created", "response": {"service_tier": "auto"}},
    )

    assert facts.service_tier is None
    assert whole(service_tier="default").service_tier == "default"


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_not_over(status: str) -> None:
    """A response that goes on is not finished."""
    facts = whole(status=status, usage=None)

    assert not facts.finished
    assert facts.error is None


def test_error_instead() -> None:
    """An error in place of a response is one."""
    facts = ResponseFacts()
    read_response({"error": {"type": "server_error", "code": None}}, facts)

    assert facts.error == "server_error"
    assert not facts.finished


@given(st.dictionaries(st.sampled_from(["type", "response", "item", "delta"]), JSON))
def test_any_event(event: dict[str, Any]) -> None:
    """No event breaks the reading."""
    facts = streamed(event)
    read_response(event, facts)

    assert facts.text_bytes >= 0
