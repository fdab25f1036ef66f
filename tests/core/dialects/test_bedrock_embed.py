"""Embeddings by InvokeModel: what goes in is counted, and nothing comes out."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tokenweir.core.dialects.base import Media, MediaKind, ResponseFacts
from tokenweir.core.dialects.bedrock_embed import (
    is_embedding,
    is_reply,
    read_reply,
    read_request,
)
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.usage import TokenUsage

PICTURE = b"\x89PNG and so on"
ENCODED = base64.b64encode(PICTURE).decode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"inputText": "Hi"}, True),
        ({"inputImage": ENCODED}, True),
        ({"texts": ["Hi"], "input_type": "search_query"}, True),
        ({"images": [ENCODED], "input_type": "image"}, True),
        ({"inputText": "Hi", "textGenerationConfig": {}}, False),
        ({"prompt": "Hi"}, False),
        ({"texts": ["Hi"]}, False),
        ({}, False),
    ],
)
def test_what_is_one(body: dict[str, Any], expected: bool) -> None:
    """Members tell, and what may generate text is none."""
    assert is_embedding(body, "amazon.titan-embed-text-v2:0") is expected


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("amazon.titan-embed-image-v1", True),
        ("eu.cohere.embed-v4:0", True),
        ("amazon.nova-2-multimodal-embeddings-v1:0", True),
        ("Our-Embedder", True),
        ("amazon.titan-text-express-v1", False),
        ("mistral.mistral-large-2402-v1:0", False),
        ("meta.llama3-70b-instruct-v1:0", False),
    ],
)
def test_which_models_make_some(model: str, *, expected: bool) -> None:
    """What writes text takes the same members, or others beside them."""
    body = {"inputText": "Hi", "prompt": "Hi", "max_tokens": 4_000, "input_type": "a"}

    assert is_embedding(body, model) is expected


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ({"inputText": "Hi", "dimensions": 256, "embeddingTypes": ["float"]}, ("Hi",)),
        ({"texts": ["a", "b"], "input_type": "x", "truncate": "END"}, ("a", "b")),
        (
            {
                "inputs": [{"content": [{"type": "text", "text": "a"}]}],
                "input_type": "x",
            },
            ("a",),
        ),
        ({"inputText": "Hi", "more": "New."}, ("Hi", "New.")),
    ],
)
def test_texts(body: dict[str, Any], texts: tuple[str, ...]) -> None:
    """All that a model reads is counted, in whichever maker's words."""
    request = read_request(body, "m")
    found = request.prompt.messages[0].texts

    assert set(texts) <= set(found)
    assert not {"END", "float", "x"} & {*found}
    assert (request.model, request.output_cap, request.stream) == ("m", 0, False)
    assert not request.can_be_capped


def test_pictures() -> None:
    """Pictures are media, as they are or in a data URL."""
    url = f"data:image/png;base64,{ENCODED}"
    held = read_request({"inputImage": ENCODED}, "m").prompt.messages[0]
    linked = read_request({"images": [url], "input_type": "image"}, "m")

    assert held.media == (Media(MediaKind.IMAGE, PICTURE, len(PICTURE)),)
    assert held.texts == ()
    assert len(linked.prompt.messages[0].media) == 1


@pytest.mark.parametrize("body", [{"inputText": 1}, {"inputImage": []}])
def test_wrong_types(body: dict[str, Any]) -> None:
    """What is counted must be what it is called."""
    with pytest.raises(MalformedRequestError):
        read_request(body, "m")


@pytest.mark.parametrize(
    ("reply", "tokens"),
    [
        ({"embedding": [0.1], "inputTextTokenCount": 3}, 3),
        ({"embeddings": [[0.1]], "id": "x"}, None),
        ({"embedding": [0.1], "inputTextTokenCount": 0}, None),
        ({"embedding": [0.1], "inputTextTokenCount": "3"}, None),
        ({"embedding": [0.1], "inputTextTokenCount": 3, "results": 1}, 3),
    ],
)
def test_replies(reply: dict[str, Any], tokens: int | None) -> None:
    """What counts the input settles it; what does not, leaves it to be counted."""
    facts = ResponseFacts()
    read_reply(reply, facts)
    usage = None if tokens is None else TokenUsage(input_tokens=tokens)

    assert is_reply(reply)
    assert (facts.usage, facts.usage_final) == (usage, usage is not None)
    assert facts.finished


@pytest.mark.parametrize("counted", [None, 20])
def test_a_model_that_writes(counted: int | None) -> None:
    """What such a model has written is not free, be it counted in the reply or not."""
    facts = ResponseFacts()
    results = [1, {"outputText": "Hi", "tokenCount": counted}]
    read_reply({"inputTextTokenCount": 3, "results": results}, facts)

    assert facts.texts == ["Hi"]
    assert facts.usage == TokenUsage(input_tokens=3, output_tokens=counted or 0)
    assert facts.usage_final is (counted is not None)


def test_other_replies() -> None:
    """An answer with words is none of these, and an error is not finished."""
    facts = ResponseFacts(error="error")
    read_reply({"embedding": []}, facts)

    assert not facts.finished
    assert not is_reply({"content": []})
    assert not is_reply([])
