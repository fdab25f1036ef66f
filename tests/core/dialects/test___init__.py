"""Each path has its dialect, and every caller gets errors that it understands."""

from __future__ import annotations

import pytest

from tests.forms import CONTENT_TYPE, form
from tokenweir.core.dialects import (
    COUNTING_FORMS,
    METERED_FORMS,
    METERED_PATHS,
    by_route,
    counting_dialect,
    default_dialect,
    dialect_of,
    speakers_of,
)
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.events import Headers

VERSION: Headers = (("accept", "*/*"), ("anthropic-version", "2023-06-01"))


@pytest.mark.parametrize(
    ("path", "name", "route"),
    [
        ("/v1/chat/completions", "openai", "chat_completions"),
        ("/v1/messages", "anthropic", "messages"),
        ("/v1/responses", "openai", "responses"),
        ("/v1/completions", "openai", "completions"),
        ("/v1/embeddings", "openai", "embeddings"),
        ("/v1/images/generations", "openai", "images"),
        ("/v1/images/edits", "openai", "images"),
        ("/v1/images/variations", "openai", "images"),
        ("/v1/audio/transcriptions", "openai", "transcriptions"),
        ("/v1/audio/translations", "openai", "transcriptions"),
        ("/v1/audio/speech", "openai", "speech"),
        ("/v1/moderations", "openai", "moderations"),
    ],
)
def test_known_paths(path: str, name: str, route: str) -> None:
    """A dialect is found by its path and by its route, and speaks its own errors."""
    dialect = dialect_of(path)

    assert dialect is not None
    assert (dialect.name, dialect.route) == (name, route)
    assert by_route(route) is dialect
    assert default_dialect(path, VERSION) is dialect
    assert default_dialect(path, ()) is dialect


@pytest.mark.parametrize(
    "path",
    ["", "/", "/v1/chat/completions/", "/V1/messages", "/v1/messages/count_tokens", "/v1/models"],
)  # fmt: skip
def test_other_paths(path: str) -> None:
    """Paths are exact: nothing is read by a dialect that its server wouldn't read."""
    assert dialect_of(path) is None


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/v1/messages/count_tokens", (), "anthropic"),
        ("/v1/messages/batches", (), "anthropic"),
        ("/v1/models", VERSION, "anthropic"),
        ("/v1/models", (), "openai"),
        ("/openai/files", VERSION, "azure"),
        ("/v1beta/files", VERSION, "gemini"),
        ("/ws/google.ai.generativelanguage.v1beta.GenerativeService", (), "gemini"),
        ("/v1/models/m:countTokens", VERSION, "gemini"),
        ("/model/m/count-tokens", VERSION, "bedrock"),
        ("/model/m/unknown", VERSION, "bedrock"),
        ("/v1/messages/count_tokens", (("amz-sdk-request", "1"),), "anthropic"),
        ("/async-invoke", (("amz-sdk-request", "attempt=1"),), "bedrock"),
        ("/x", (("amz-sdk-invocation-id", "1"),), "bedrock"),
        ("/v1/messagesx", (), "openai"),
        ("/", (("x", "anthropic-version"),), "openai"),
        ("", (), "openai"),
    ],
)
def test_errors_on_other_paths(path: str, headers: Headers, name: str) -> None:
    """Whoever sends Anthropic's version, or calls below its path, gets its errors."""
    assert default_dialect(path, headers).name == name


@pytest.mark.parametrize("end", ["chat/completions", "completions", "embeddings"])
def test_deployments(end: str) -> None:
    """Azure's deployments are models that the path names, whatever stands behind it."""
    path = f"/openai/deployments/gpt-4o.mini/{end}"
    for asked in (path, f"{path}?api-version=2024-10-21", f"{path}#x"):
        dialect = dialect_of(asked)
        assert dialect is not None
        assert (dialect.name, dialect.route) == ("azure", end.replace("/", "_"))
        assert dialect.parse_request(b'{"messages": []}').model == "gpt-4o.mini"
        assert default_dialect(asked, VERSION).name == "azure"


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/openai/v1/chat/completions", "chat_completions"),
        ("/openai/v1/responses", "responses"),
        ("/openai/responses?api-version=preview", "responses"),
        ("/openai/v1/completions", "completions"),
        ("/openai/v1/embeddings", "embeddings"),
        ("/openai/v1/images/generations", "images"),
    ],
)
def test_azure_without_deployment(path: str, route: str) -> None:
    """Azure's newer paths are OpenAI's below another root."""
    dialect = dialect_of(path)

    assert dialect is not None
    assert (dialect.name, dialect.route) == ("azure", route)
    assert by_route(route).name == "openai"


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1/audio/transcriptions", "a"),
        ("/v1/images/edits", "a"),
        ("/openai/v1/images/edits?api-version=1", "a"),
        ("/openai/deployments/prod/audio/translations", "prod"),
    ],
)
def test_forms(path: str, model: str) -> None:
    """The type of a form comes with its headers; without one it can't be read."""
    known, unknown = dialect_of(path, (CONTENT_TYPE,)), dialect_of(path)

    assert known is not None
    assert unknown is not None
    assert known.parse_request(form(("model", "a"))).model == model
    with pytest.raises(MalformedRequestError, match="content-type"):
        unknown.parse_request(form(("model", "a")))


@pytest.mark.parametrize("version", ["v1", "v1beta"])
@pytest.mark.parametrize(
    ("method", "route", "stream"),
    [
        ("generateContent", "generate_content", False),
        ("streamGenerateContent", "generate_content", True),
        ("embedContent", "embed_content", False),
        ("batchEmbedContents", "embed_content", False),
    ],
)
def test_methods_of_gemini(version: str, method: str, route: str, stream: bool) -> None:
    """The path names the model and what is wanted of it."""
    dialect = dialect_of(f"/{version}/models/gemini-2.5:{method}?alt=sse")

    assert dialect is not None
    assert (dialect.name, dialect.route) == ("gemini", route)
    read = dialect.parse_request(b"{}")
    assert (read.model, read.stream) == ("gemini-2.5", stream)
    assert by_route(route).name == "gemini"


@pytest.mark.parametrize(
    ("method", "route", "stream"),
    [
        ("converse", "converse", False),
        ("converse-stream", "converse", True),
        ("invoke", "invoke_model", False),
        ("invoke-with-response-stream", "invoke_model", True),
    ],
)
def test_methods_of_bedrock(method: str, route: str, stream: bool) -> None:
    """The path names the model, encoded, and what is wanted of it."""
    path = f"/model/arn%3Aaws%3Abedrock%3A%3Ax%2Feu.a-v1%3A0/{method}?x=1"
    dialect = dialect_of(path)

    assert dialect is not None
    assert (dialect.name, dialect.route) == ("bedrock", route)
    read = dialect.parse_request(b'{"anthropic_version": "1", "messages": []}')
    assert (read.model, read.stream) == ("arn:aws:bedrock::x/eu.a-v1:0", stream)
    assert by_route(route).name == "bedrock"
    assert default_dialect(path, VERSION).name == "bedrock"


def test_headers_that_say_what_no_body_says() -> None:
    """A tier that a header chooses is known to who reads the body."""
    tier: Headers = (("x-amzn-bedrock-service-tier", "priority"),)
    dialect = default_dialect("/model/m/invoke", tier)

    with pytest.raises(MalformedRequestError):
        dialect.parse_request(b'{"anthropic_version": "1", "messages": []}')


def test_counting() -> None:
    """Paths that count tokens are forms of their own."""
    for each in COUNTING_FORMS:
        path = each.text.format(model="m") + "?x"
        dialect = counting_dialect(path)
        assert dialect is not None
        assert dialect.parse_request(b"{}").model == "m"
        assert dialect_of(path) is None
    assert counting_dialect("/v1/messages/count_tokens") is None


def test_speakers() -> None:
    """Who has paths of a class is told by name."""
    assert speakers_of("responses") == {"openai", "azure"}
    assert speakers_of("messages") == {"anthropic"}
    assert speakers_of("opaque") == set()
    assert speakers_of("embed_content") == {"gemini"}
    assert speakers_of("converse") == {"bedrock"}


def test_all_that_is_read() -> None:
    """Every path and form that is listed has a dialect."""
    paths = [*METERED_PATHS, *(form.text.format(model="m") for form in METERED_FORMS)]

    assert all(dialect_of(path) is not None for path in paths)


def test_unknown_route() -> None:
    """A route that nobody has is an error of ours."""
    with pytest.raises(KeyError):
        by_route("nobody")
