"""OpenAI's embeddings: requests, edits, replies."""

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
from tokenweir.core.dialects.openai_embeddings import OpenAIEmbeddings
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.usage import TokenUsage

EMBEDDINGS = OpenAIEmbeddings()
BODY: dict[str, Any] = {"model": "text-embedding-3-small", "input": ["a", "b"]}


def request(**members: Any) -> ModelRequest:
    """Return what a body with *members* is read as."""
    return EMBEDDINGS.parse_request(json.dumps(BODY | members).encode())


def facts_of(**reply: Any) -> ResponseFacts:
    """Return what is known after a *reply*."""
    facts = ResponseFacts()
    EMBEDDINGS.read_body(json.dumps(reply).encode(), facts)
    return facts


def test_request() -> None:
    """Nothing is generated, for however many inputs."""
    assert EMBEDDINGS.route == "embeddings"
    assert request(user="u", dimensions=256, encoding_format="base64") == ModelRequest(
        model="text-embedding-3-small",
        stream=False,
        output_cap=0,
        choices=1,
        user="u",
        wants_usage=True,
        prompt=Prompt((Message("", ("a", "b")),)),
    )
    assert request(input=[[1, 2, 3], [4, 5]]).prompt.token_ids == 5


@pytest.mark.parametrize(
    ("members", "param"),
    [({"model": 5}, "model"), ({"user": 5}, "user"), ({"Input": "x"}, "input")],
)
def test_malformed(members: dict[str, Any], param: str) -> None:
    """What can't be metered is refused, by name."""
    with pytest.raises(MalformedRequestError) as caught:
        request(**members)

    assert caught.value.param == param


def test_rewrite() -> None:
    """The model is rewritten; there is no output to be capped or asked about."""
    body = b'{"input":"x", "model":"a"}'

    assert EMBEDDINGS.rewrite(body, Edits(include_usage=True, output_cap=9)) == body
    assert EMBEDDINGS.rewrite(body, Edits(model="b")) == b'{"input":"x", "model":"b"}'


def test_reply() -> None:
    """The report is whole with its input alone."""
    facts = facts_of(
        object="list",
        data=[{"object": "embedding", "index": 0, "embedding": "AAAA"}],
        model="text-embedding-3-small",
        usage={"prompt_tokens": 8, "total_tokens": 8},
    )

    assert facts.usage == TokenUsage(input_tokens=8)
    assert facts.usage_final
    assert facts.finished
    assert facts.model == "text-embedding-3-small"
    assert facts.texts == []


def test_reply_with_the_total_alone() -> None:
    """Nothing comes out, so a total alone is the input's."""
    facts = facts_of(data=[], usage={"total_tokens": 8})

    assert facts.usage == TokenUsage(input_tokens=8)
    assert facts.usage_final


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": "8"}, {"total_tokens": "8"}, []]
)
def test_reply_without_a_report(usage: object) -> None:
    """Without a report it is finished, and not known."""
    facts = facts_of(data=[], usage=usage)

    assert facts.finished
    assert facts.usage is None
    assert not facts.usage_final


def test_error() -> None:
    """An error is no answer, whatever stands beside it."""
    facts = facts_of(data=[], error={"code": "bad", "message": "x"})

    assert facts.error == "bad"
    assert not facts.finished
