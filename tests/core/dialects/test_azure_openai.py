"""OpenAI's APIs at Azure: the model is in the path, all else is as with OpenAI."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenweir.core.dialects.azure_openai import AzureOpenAI, Deployment, can_report
from tokenweir.core.dialects.base import Edits, ErrorFacts, ResponseFacts
from tokenweir.core.dialects.openai_chat import OpenAIChat
from tokenweir.core.dialects.path_form import PathForm
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.sse import ServerSentEvent
from tokenweir.core.usage import TokenUsage

CHAT = OpenAIChat()
FORM = PathForm("/openai/deployments/{model}/chat/completions")
PATH = "/openai/deployments/prod/chat/completions?api-version=2024-10-21"
DEPLOYED = AzureOpenAI(CHAT, Deployment(FORM, "prod"))
NAMED = AzureOpenAI(CHAT)
BODY: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Hi"}],
    "stream": True,
}
ENCODED = json.dumps(BODY).encode()
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def test_the_path_names_the_model() -> None:
    """What a body says of its model beside that counts for nothing."""
    without = json.dumps({k: v for k, v in BODY.items() if k != "model"}).encode()

    assert (DEPLOYED.name, DEPLOYED.route) == ("azure", "chat_completions")
    read = DEPLOYED.parse_request(ENCODED)
    assert (read.model, read.stream, read.wants_usage) == ("prod", True, False)
    assert read == DEPLOYED.parse_request(without)
    assert read.prompt == CHAT.parse_request(ENCODED).prompt


def test_the_body_names_the_model() -> None:
    """Without a deployment a request is OpenAI's."""
    assert NAMED.parse_request(ENCODED) == CHAT.parse_request(ENCODED)
    with pytest.raises(MalformedRequestError) as caught:
        NAMED.parse_request(b'{"messages": []}')
    assert caught.value.param == "model"


def test_versions_that_do_not_report() -> None:
    """They are not asked for usage: they would refuse the request."""
    old = AzureOpenAI(CHAT, Deployment(FORM, "prod", can_report=False))

    assert old.parse_request(ENCODED).wants_usage
    assert old.parse_request(ENCODED).model == "prod"


@pytest.mark.parametrize(
    ("path", "reports"),
    [
        ("/x", True),
        ("/x?api-version=preview", True),
        ("/x?api-version=2024-10-21", True),
        ("/x?api-version=2024-09-01-preview", True),
        ("/x?a=b&api-version=2024-06-01", False),
        ("/x?api-version=2023-05-15", False),
        ("/x?not-api-version=2023-05-15", True),
    ],
)
def test_can_report(path: str, reports: bool) -> None:
    """Since September 2024 streams report their usage if they are asked to."""
    assert can_report(path) is reports


@pytest.mark.parametrize(
    ("body", "param"),
    [(b"[]", None), (b"{", None), (b'{"messages": 1}', "messages"), (b'{"Model": "x", "messages": []}', "model")],
)  # fmt: skip
def test_malformed(body: bytes, param: str | None) -> None:
    """What can't be metered is refused, as with OpenAI."""
    with pytest.raises(MalformedRequestError) as caught:
        DEPLOYED.parse_request(body)

    assert caught.value.param == param


def test_a_deployment_of_a_long_name() -> None:
    """A name that can be no model's is refused."""
    with pytest.raises(MalformedRequestError) as caught:
        AzureOpenAI(CHAT, Deployment(FORM, "m" * 257)).parse_request(ENCODED)

    assert caught.value.param == "model"


def test_rewrite() -> None:
    """A model is renamed where it is named; all else is in the body."""
    edits = Edits(model="other", output_cap=5, output_cap_field="max_tokens")

    assert json.loads(DEPLOYED.rewrite(ENCODED, edits)) == {**BODY, "max_tokens": 5}
    assert NAMED.rewrite(ENCODED, edits) == CHAT.rewrite(ENCODED, edits)
    assert DEPLOYED.rewrite_path(PATH, edits) == PATH.replace("prod", "other")
    assert DEPLOYED.rewrite_path(PATH, Edits()) == PATH
    assert NAMED.rewrite_path("/openai/v1/chat/completions", edits) == (
        "/openai/v1/chat/completions"
    )


def test_replies() -> None:
    """They are read as OpenAI's, the results of content filters among them."""
    facts = ResponseFacts()
    event = {
        "choices": [],
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
        "usage": USAGE,
    }
    DEPLOYED.read_event(ServerSentEvent("message", json.dumps(event).encode()), facts)
    whole = ResponseFacts()
    DEPLOYED.read_body(json.dumps(event).encode(), whole)

    assert facts.usage == TokenUsage(input_tokens=3, output_tokens=2) == whole.usage
    assert facts.usage_final
    assert not facts.texts


def test_errors() -> None:
    """They are OpenAI's: Azure tells its own so."""
    error = ErrorFacts(429, "tokens", "rate_limit_exceeded", "Slow.", None, {"a": 1})

    assert DEPLOYED.error_body(error) == CHAT.error_body(error)
