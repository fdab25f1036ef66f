"""Google's Gemini API: requests, edits, errors, and how replies are framed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tokenweir.core.dialects import dialect_of
from tokenweir.core.dialects.base import Edits, ErrorFacts, ModelRequest, ResponseFacts
from tokenweir.core.dialects.gemini import Gemini
from tokenweir.core.dialects.path_form import Called, PathForm
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.events import Headers
from tokenweir.core.sse import ServerSentEvent
from tokenweir.core.usage import TokenUsage

FORM = PathForm("/v1beta/models/{model}:generateContent")
GEMINI = Gemini("generate_content", Called(FORM, "gemini-2.5-flash"))
EMBEDDING = Gemini("embed_content", Called(FORM, "gemini-embedding-001"))
READER = Gemini("generate_content")
PIECE = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}
USAGE = {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4}
LAST = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": USAGE}


def request(dialect: Gemini = GEMINI, **members: Any) -> ModelRequest:
    """Return what a body with *members* is read as."""
    contents = [{"parts": [{"text": "Hi"}]}]
    return dialect.parse_request(json.dumps({"contents": contents} | members).encode())


def test_small_request() -> None:
    """What a request doesn't say has its default; every piece reports unasked."""
    read = request()

    assert (read.model, read.stream, read.output_cap) == (
        "gemini-2.5-flash",
        False,
        None,
    )
    assert (read.choices, read.user, read.wants_usage) == (1, "", True)
    assert read.prompt.messages[0].texts == ("Hi",)
    assert not read.speaks


@pytest.mark.parametrize("camel", [True, False])
def test_full_request(camel: bool) -> None:
    """Everything that counts is read, in both of Google's spellings."""
    config = {
        "maxOutputTokens": 50,
        "candidateCount": 2,
        "responseModalities": ["AUDIO"],
    }
    snake = {
        "max_output_tokens": 50,
        "candidate_count": 2,
        "response_modalities": ["audio"],
    }
    members: dict[str, Any] = {"generation_config": snake}
    if camel:
        members = {"generationConfig": config}
    read = request(GEMINI, **members)

    assert (read.output_cap, read.choices, read.speaks) == (50, 2, True)


def test_embeddings() -> None:
    """Nothing is generated, however many are asked for."""
    assert request(EMBEDDING, generationConfig={"maxOutputTokens": 5}).output_cap == 0


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"generationConfig": {"maxOutputTokens": "5"}}, "maxOutputTokens"),
        ({"generationConfig": {"candidateCount": 9}}, "candidateCount"),
        ({"generationConfig": []}, "generationConfig"),
        ({"generationConfig": {}, "generation_config": {}}, "generationConfig"),
        (
            {"generationConfig": {"maxOutputTokens": 5, "max_output_tokens": 9}},
            "maxOutputTokens",
        ),
        ({"contents": [1]}, "contents[0]"),
    ],
)
def test_malformed(members: dict[str, Any], param: str) -> None:
    """What can't be metered is refused, by name; so is what could be read twice."""
    with pytest.raises(MalformedRequestError) as caught:
        request(**members)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("body", "capped"),
    [
        (b'{"a": 1.0}', b'{"a": 1.0,"generationConfig":{"maxOutputTokens":9}}'),
        (
            b'{"generation_config": {"max_output_tokens": 50, "top_k": 1e1}}',
            b'{"generation_config": {"max_output_tokens": 9, "top_k": 1e1}}',
        ),
        (
            b'{"generationConfig": {"topK": 1}}',
            b'{"generationConfig": {"topK": 1,"maxOutputTokens":9}}',
        ),
    ],
)
def test_rewrite(body: bytes, capped: bytes) -> None:
    """A cap is written in the app's spelling; the model is in the path."""
    assert GEMINI.rewrite(body, Edits(output_cap=9, model="m")) == capped
    assert GEMINI.rewrite(body, Edits(model="m")) == body


def test_path() -> None:
    """A model is renamed where the path names it."""
    path = "/v1beta/models/gemini-2.5-flash:generateContent?alt=sse"

    assert GEMINI.rewrite_path(path, Edits(model="m")) == path.replace(
        "gemini-2.5-flash", "m"
    )
    assert GEMINI.rewrite_path(path, Edits()) == path
    assert READER.rewrite_path(path, Edits(model="m")) == path


def test_streams() -> None:
    """Events, and the array of an answer without them, say the same."""
    events, array = ResponseFacts(), ResponseFacts()
    for data in (json.dumps(PIECE), "", ": x", json.dumps(LAST)):
        READER.read_event(ServerSentEvent("message", data.encode()), events)
    for piece in (PIECE, LAST):  # as they stand in an array
        READER.read_body(json.dumps(piece).encode(), array)

    assert events == array
    assert array.texts == ["Hi"]
    assert array.usage == TokenUsage(input_tokens=3, output_tokens=1)
    assert array.usage_final
    assert array.finished


@pytest.mark.parametrize("body", [b"", b"[1]", b"nonsense", b'"x"', b"[{]"])
def test_unreadable_body(body: bytes) -> None:
    """What is neither can't be read, and its figures can't be trusted."""
    facts = ResponseFacts()
    READER.read_body(body, facts)

    assert facts.unreadable


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (413, "INVALID_ARGUMENT"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (503, "UNAVAILABLE"),
    ],
)
def test_errors(status: int, word: str) -> None:
    """Errors have Google's words; one that names a wait has it in Google's form too."""
    error = ErrorFacts(status, "t", None, "No.", None, {"retryable": False})
    waiting = ErrorFacts(status, "t", None, "No.", None, {"retry_after_ms": 8_207})

    assert json.loads(READER.error_body(error)) == {
        "error": {
            "code": status,
            "message": "No.",
            "status": word,
            "tokenweir": {"retryable": False},
        }
    }
    assert json.loads(READER.error_body(waiting))["error"]["details"] == [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "8.207s"}
    ]


@pytest.mark.parametrize(
    ("query", "headers", "refused"),
    [
        ("?fields=candidates", (), True),
        ("?alt=sse&%24fields=candidates%2Ftext", (), True),
        ("?fi%65lds", (), True),
        ("", (("x-goog-fieldmask", "candidates"),), True),
        ("?alt=proto", (), True),
        ("?key=k&%24alt=media", (), True),
        ("?callback=f", (), True),
        ("?alt=sse&fieldsx=1&key=fields", (("x-goog-field", "a"),), False),
        ("?alt=JSON&$alt=sse&alt", (), False),
        ("?", (), False),
    ],
)
def test_masks(query: str, headers: Headers, refused: bool) -> None:
    """An answer that is no whole JSON would not tell its usage: it is refused."""
    dialect = dialect_of(f"/v1beta/models/m:generateContent{query}", headers)

    assert dialect is not None
    if not refused:
        assert dialect.parse_request(b"{}").model == "m"
        return
    with pytest.raises(MalformedRequestError) as caught:
        dialect.parse_request(b"{}")
    assert caught.value.param == "fields"
