"""Each path has its dialect, and every caller gets errors that it understands."""

from __future__ import annotations

import pytest

from tokenweir.core.dialects import by_route, default_dialect, dialect_of
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
        ("/v1/messagesx", (), "openai"),
        ("/", (("x", "anthropic-version"),), "openai"),
        ("", (), "openai"),
    ],
)
def test_errors_on_other_paths(path: str, headers: Headers, name: str) -> None:
    """Whoever sends Anthropic's version, or calls below its path, gets its errors."""
    assert default_dialect(path, headers).name == name


def test_unknown_route() -> None:
    """A route that nobody has is an error of ours."""
    with pytest.raises(KeyError):
        by_route("nobody")
