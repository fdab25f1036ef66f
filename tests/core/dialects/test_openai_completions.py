"""OpenAI's completions: requests, edits, replies."""

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
from tokenweir.core.dialects.openai_completions import OpenAICompletions
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.sse import ServerSentEvent
from tokenweir.core.usage import TokenUsage

COMPLETIONS = OpenAICompletions()
BODY: dict[str, Any] = {"model": "babbage-002", "prompt": "Once"}


def request(**members: Any) -> ModelRequest:
    """Return what a body with *members* is read as."""
    return COMPLETIONS.parse_request(json.dumps(BODY | members).encode())


def test_small_request() -> None:
    """What a request doesn't say has its default."""
    assert COMPLETIONS.route == "completions"
    assert request() == ModelRequest(
        model="babbage-002",
        stream=False,
        output_cap=None,
        choices=1,
        user="",
        wants_usage=False,
        prompt=Prompt((Message("", ("Once",)),)),
    )


def test_full_request() -> None:
    """Everything that counts is read."""
    read = request(
        suffix="end",
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=16,
        user="u",
        logprobs=5,
        echo=True,
        service_tier="flex",
    )

    assert read.stream
    assert read.wants_usage
    assert (read.output_cap, read.user, read.service_tier) == (16, "u", "flex")
    assert read.prompt.messages == (Message("", ("Once", "end")),)


@pytest.mark.parametrize(
    ("members", "choices"),
    [
        ({"n": 3}, 3),
        ({"best_of": 5}, 5),
        ({"n": 2, "best_of": 5}, 5),
        ({"n": 2, "best_of": 0}, 2),
        ({"n": None, "best_of": None}, 1),
        ({"n": 2, "prompt": ["a", "b", "c"]}, 6),
        ({"best_of": 4, "prompt": [[1, 2], [3]]}, 8),
        ({"prompt": [1, 2, 3]}, 1),
    ],
)
def test_choices(members: dict[str, Any], choices: int) -> None:
    """All that is generated counts: for each prompt, and what is thrown away too."""
    assert request(**members).choices == choices


def test_nothing_generated() -> None:
    """A cap of 0 is one: the prompt is scored only."""
    assert request(max_tokens=0).output_cap == 0


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": None}, "model"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"best_of": -1}, "best_of"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"Prompt": "x"}, "prompt"),
        ({"Best_Of": 9}, "best_of"),
    ],
)
def test_malformed(members: dict[str, Any], param: str) -> None:
    """What can't be counted is refused, by name."""
    with pytest.raises(MalformedRequestError) as caught:
        request(**members)

    assert caught.value.param == param


def test_rewrite() -> None:
    """Only what is changed changes."""
    body = b'{ "model":"a", "prompt":"x" , "temperature":1.0}'
    edits = Edits(model="b", include_usage=True, output_cap=9)

    assert COMPLETIONS.rewrite(body, Edits()) == body
    assert json.loads(COMPLETIONS.rewrite(body, edits)) == {
        "model": "b",
        "prompt": "x",
        "temperature": 1.0,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
    }


def test_no_cap_at_all() -> None:
    """-1 is no cap, to servers that are not OpenAI's."""
    body = json.dumps(BODY | {"max_tokens": -1}).encode()

    assert COMPLETIONS.parse_request(body).output_cap is None


@pytest.mark.parametrize(
    ("given", "left"), [(5, 5), (50, 9), (9, 9), (None, 9), (-1, 9)]
)
def test_cap(given: int | None, left: int) -> None:
    """A cap is lowered, never raised."""
    body = json.dumps(BODY | {"max_tokens": given}).encode()

    assert (
        json.loads(COMPLETIONS.rewrite(body, Edits(output_cap=9)))["max_tokens"] == left
    )


def test_reply() -> None:
    """The text of every choice was generated; usage counts."""
    facts = ResponseFacts()
    reply = {
        "model": "babbage-002",
        "choices": [
            {"text": " upon", "index": 0, "finish_reason": "stop"},
            {"text": " a time", "index": 1, "finish_reason": "length"},
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5},
    }
    COMPLETIONS.read_body(json.dumps(reply).encode(), facts)

    assert facts.texts == [" upon", " a time"]
    assert facts.finished
    assert facts.usage == TokenUsage(input_tokens=1, output_tokens=4)
    assert facts.usage_final


def test_stream() -> None:
    """A stream's events have the same shape."""
    facts = ResponseFacts()
    for text in ("Once", " upon"):
        data = json.dumps({"choices": [{"text": text, "index": 0}]})
        COMPLETIONS.read_event(ServerSentEvent("message", data.encode()), facts)

    assert facts.texts == ["Once", " upon"]
    assert facts.deltas == 2
