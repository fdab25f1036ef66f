"""Wire formats, one module each behind one Protocol; the registry is below."""

from __future__ import annotations

from tokenweir.core.dialects.anthropic_messages import AnthropicMessages
from tokenweir.core.dialects.base import Dialect
from tokenweir.core.dialects.openai_chat import OpenAIChat
from tokenweir.core.dialects.openai_completions import OpenAICompletions
from tokenweir.core.dialects.openai_embeddings import OpenAIEmbeddings
from tokenweir.core.dialects.openai_responses import OpenAIResponses
from tokenweir.core.events import Headers


def dialect_of(path: str) -> Dialect | None:
    """Return what reads bodies that are sent to *path* (no query), or None."""
    return _BY_PATH.get(path)


def by_route(route: str) -> Dialect:
    """Return the dialect of the class of paths *route*. Raises: KeyError."""
    return _BY_ROUTE[route]


def default_dialect(path: str, headers: Headers) -> Dialect:
    """
    Return the dialect that a caller of *path* understands errors in.

    Unknown paths included: Anthropic's clients send a version with every request;
    whoever else calls knows OpenAI's errors, if any.
    """
    known = _BY_PATH.get(path)
    if known is not None:
        return known
    below = path.startswith("/v1/messages/")
    if below or any(name == "anthropic-version" for name, _ in headers):
        return _MESSAGES
    return _CHAT


_CHAT = OpenAIChat()
_MESSAGES = AnthropicMessages()

_BY_PATH: dict[str, Dialect] = {
    "/v1/chat/completions": _CHAT,
    "/v1/messages": _MESSAGES,
    "/v1/responses": OpenAIResponses(),
    "/v1/completions": OpenAICompletions(),
    "/v1/embeddings": OpenAIEmbeddings(),
}
METERED_PATHS = tuple(_BY_PATH)
"""Paths whose bodies are read."""

_BY_ROUTE = {dialect.route: dialect for dialect in _BY_PATH.values()}
