"""What all of OpenAI's APIs have in common is the same in each."""

from __future__ import annotations

import json

import pytest

from tokenweir.core.dialects.base import Dialect, Edits, ErrorFacts, ResponseFacts
from tokenweir.core.dialects.openai_chat import OpenAIChat
from tokenweir.core.dialects.openai_completions import OpenAICompletions
from tokenweir.core.dialects.openai_embeddings import OpenAIEmbeddings
from tokenweir.core.dialects.openai_media import OpenAIMedia
from tokenweir.core.dialects.openai_responses import OpenAIResponses
from tokenweir.core.sse import ServerSentEvent

every_api = pytest.mark.parametrize(
    "api",
    [
        OpenAIChat(),
        OpenAICompletions(),
        OpenAIEmbeddings(),
        OpenAIMedia("images"),
        OpenAIResponses(),
    ],
    ids=lambda api: str(api.route),
)


@every_api
def test_provider(api: Dialect) -> None:
    """Whoever speaks one of them is an OpenAI provider to the policy."""
    assert api.name == "openai"


@every_api
def test_path(api: Dialect) -> None:
    """The model is in the body: no path changes."""
    assert api.rewrite_path("/v1/x?y", Edits(model="m")) == "/v1/x?y"


@every_api
@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b'"x"', b"\xff"])
def test_unreadable_body(api: Dialect, body: bytes) -> None:
    """What is no object can't be read, and its figures can't be trusted."""
    facts = ResponseFacts()
    api.read_body(body, facts)

    assert facts.unreadable
    assert facts.usage is None


@every_api
@pytest.mark.parametrize("data", [b"", b": hello", b"pong", b"[]"])
def test_events_that_say_nothing(api: Dialect, data: bytes) -> None:
    """An event that is no JSON object changes nothing."""
    facts = ResponseFacts()
    api.read_event(ServerSentEvent("message", data), facts)

    assert facts == ResponseFacts()


@every_api
def test_done(api: Dialect) -> None:
    """`[DONE]` ends a stream, unless an error came before it."""
    facts, failed = ResponseFacts(), ResponseFacts()
    api.read_event(ServerSentEvent("message", b" [DONE] "), facts)
    api.read_event(
        ServerSentEvent("message", b'{"error": {"code": "overloaded"}}'), failed
    )
    api.read_event(ServerSentEvent("message", b"[DONE]"), failed)

    assert facts.finished
    assert facts.ended
    assert failed.error == "overloaded"
    assert not failed.ended


@every_api
def test_error_body(api: Dialect) -> None:
    """An error has OpenAI's members, and ours beside them."""
    error = ErrorFacts(429, "rate_limit", "slow", "Wait.", "model", {"limit": "x"})

    assert json.loads(api.error_body(error)) == {
        "error": {
            "message": "Wait.",
            "type": "rate_limit",
            "code": "slow",
            "param": "model",
            "tokenweir": {"limit": "x"},
        }
    }
