"""OpenAI's responses: requests, edits, replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenweir.core.dialects.base import (
    Edits,
    Message,
    ModelRequest,
    Prompt,
    ResponseFacts,
)
from tokenweir.core.dialects.openai_responses import OpenAIResponses
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.sse import ServerSentEvent
from tokenweir.core.usage import TokenUsage

RESPONSES = OpenAIResponses()
BODY: dict[str, Any] = {"model": "gpt-5-mini", "input": "Hi"}
USAGE = {"input_tokens": 40, "output_tokens": 480, "total_tokens": 520}


def request(**members: Any) -> ModelRequest:
    """Return what a body with *members* is read as."""
    return RESPONSES.parse_request(json.dumps(BODY | members).encode())


def test_small_request() -> None:
    """What a request doesn't say has its default; its stream reports unasked."""
    assert RESPONSES.route == "responses"
    assert request() == ModelRequest(
        model="gpt-5-mini",
        stream=False,
        output_cap=None,
        choices=1,
        user="",
        wants_usage=True,
        prompt=Prompt((Message("user", ("Hi",)),)),
    )


def test_full_request() -> None:
    """Everything that counts is read (L21)."""
    read = request(
        max_output_tokens=500,
        stream=True,
        user="old",
        safety_identifier="new",
        service_tier="flex",
        modalities=["audio"],
        background=False,
    )

    assert (read.stream, read.output_cap, read.user) == (True, 500, "new")
    assert (read.service_tier, read.speaks) == ("flex", True)
    assert request(user="old").user == "old"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": ""}, "model"),
        ({"background": True}, "background"),
        ({"background": "yes"}, "background"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"stream": 1}, "stream"),
        ({"Max_Output_Tokens": 9}, "max_output_tokens"),
        ({"Background": True}, "background"),
    ],
)
def test_malformed(members: dict[str, Any], param: str) -> None:
    """What can't be metered is refused, by name; so is work that nobody would see."""
    with pytest.raises(MalformedRequestError) as caught:
        request(**members)

    assert caught.value.param == param


@pytest.mark.parametrize(("given", "left"), [(5, 5), (50, 9), (None, 9)])
def test_rewrite(given: int | None, left: int) -> None:
    """The model is rewritten and the cap lowered, never raised; the rest stays."""
    body = json.dumps(BODY | {"max_output_tokens": given}).encode()
    edits = Edits(model="b", include_usage=True, output_cap=9)

    assert RESPONSES.rewrite(body, Edits(include_usage=True)) == body
    assert json.loads(RESPONSES.rewrite(body, edits)) == {
        "model": "b",
        "input": "Hi",
        "max_output_tokens": left,
    }


def test_reply() -> None:
    """A whole response is read by its own shape (L21)."""
    facts = ResponseFacts()
    reply = {"object": "response", "status": "completed", "output": [], "usage": USAGE}
    RESPONSES.read_body(json.dumps(reply).encode(), facts)

    assert facts.usage == TokenUsage(input_tokens=40, output_tokens=480)
    assert facts.usage_final


def test_stream() -> None:
    """The events of a stream say their type."""
    facts = ResponseFacts()
    for event in (
        {"type": "response.output_text.delta", "delta": "Hi"},
        {"type": "response.completed", "response": {"usage": USAGE}},
    ):
        data = json.dumps(event).encode()
        RESPONSES.read_event(ServerSentEvent(str(event["type"]), data), facts)

    assert facts.texts == ["Hi"]
    assert facts.usage == TokenUsage(input_tokens=40, output_tokens=480)
    assert facts.ended
