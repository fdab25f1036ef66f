"""Wire formats, one module each behind one Protocol; the registry is below."""

from __future__ import annotations

from tokenweir.core.dialects.anthropic_messages import AnthropicMessages
from tokenweir.core.dialects.azure_openai import AzureOpenAI, Deployment, can_report
from tokenweir.core.dialects.base import Dialect
from tokenweir.core.dialects.bedrock import Bedrock
from tokenweir.core.dialects.bedrock_invoke import BedrockInvoke
from tokenweir.core.dialects.gemini import Gemini, is_masked
from tokenweir.core.dialects.openai_chat import OpenAIChat
from tokenweir.core.dialects.openai_completions import OpenAICompletions
from tokenweir.core.dialects.openai_embeddings import OpenAIEmbeddings
from tokenweir.core.dialects.openai_media import OpenAIMedia
from tokenweir.core.dialects.openai_moderations import OpenAIModerations
from tokenweir.core.dialects.openai_responses import OpenAIResponses
from tokenweir.core.dialects.path_form import Called, PathForm
from tokenweir.core.events import Headers


def dialect_of(path: str, headers: Headers = ()) -> Dialect | None:
    """
    Return what reads bodies that are sent to *path* (query or not), or None.

    *headers* come with it: some say what no body says.
    """
    plain = path.partition("?")[0].partition("#")[0]
    known = _BY_PATH.get(plain)
    if isinstance(known, OpenAIMedia | AzureOpenAI):
        return known.sent_with(headers)
    if known is not None:
        return known
    for form, api in _DEPLOYMENTS.items():
        name = form.model_in(plain)
        if name is not None:
            deployment = Deployment(form, name, can_report(path))
            return AzureOpenAI(api.sent_with(headers), deployment)
    for form, (route, streams) in _GEMINI_FORMS.items():
        name = form.model_in(plain)
        if name is not None:
            masked = is_masked(path, headers)
            return Gemini(route, Called(form, name, streams), masked=masked)
    return _bedrock_of(plain, headers)


def _bedrock_of(path: str, headers: Headers) -> Dialect | None:
    for form, streams in _CONVERSE_FORMS.items():
        name = form.model_in(path)
        if name is not None:
            return Bedrock(Called(form, name, streams))
    for form, streams in _INVOKE_FORMS.items():
        name = form.model_in(path)
        if name is not None:
            return BedrockInvoke(Called(form, name, streams), headers)
    return None


def counting_dialect(path: str) -> Dialect | None:
    """Return what reads bodies that only have tokens counted, by a *path* of a form."""
    plain = path.partition("?")[0].partition("#")[0]
    for form in COUNTING_FORMS:
        name = form.model_in(plain)
        if name is not None:
            called = Called(form, name)
            is_bedrock = form is _BEDROCK_COUNTING
            return Bedrock(called) if is_bedrock else Gemini(_GEMINI.route, called)
    return None


def by_route(route: str) -> Dialect:
    """
    Return the dialect of the class of paths *route*. Raises: KeyError.

    Where more than one API has such paths, their answers and errors are the same.
    """
    return _BY_ROUTE[route]


def speakers_of(route: str) -> frozenset[str]:
    """Return the names of the dialects that have paths of the class *route*."""
    if route in _BY_FORM:
        return frozenset({_BY_FORM[route].name})
    return frozenset(each.name for each in _BY_PATH.values() if each.route == route)


def default_dialect(path: str, headers: Headers) -> Dialect:
    """
    Return the dialect that a caller of *path* understands errors in.

    Unknown paths included: Anthropic's clients send a version with every request;
    whoever else calls knows OpenAI's errors, if any.
    """
    known = dialect_of(path, headers) or counting_dialect(path)
    if known is None and path.startswith("/v1/messages/"):
        known = _MESSAGES  # not whom a header names: some of these bodies are read
    if known is not None:
        return known
    if path.startswith("/model/") or any(name in _OF_AWS for name, _ in headers):
        return _BY_FORM["converse"]
    if path.startswith(("/v1beta/", "/ws/google.")):
        return _GEMINI
    if path.startswith("/openai/"):
        return _AZURE
    if any(name == "anthropic-version" for name, _ in headers):
        return _MESSAGES
    return _CHAT


_CHAT = OpenAIChat()
_COMPLETIONS = OpenAICompletions()
_EMBEDDINGS = OpenAIEmbeddings()
_RESPONSES = OpenAIResponses()
_IMAGES = OpenAIMedia("images", "dall-e-2")
_TRANSCRIPTIONS = OpenAIMedia("transcriptions")
_SPEECH = OpenAIMedia("speech")
_MODERATIONS = OpenAIModerations()
_MESSAGES = AnthropicMessages()
_AZURE = AzureOpenAI(_CHAT)
_GEMINI = Gemini("generate_content")
# Of those that name a model in their path.
_BY_FORM: dict[str, Dialect] = {
    "generate_content": _GEMINI,
    "embed_content": Gemini("embed_content"),
    "converse": Bedrock(),
    "invoke_model": BedrockInvoke(),
}
# What all SDKs of AWS send with every request.
_OF_AWS = frozenset({"amz-sdk-invocation-id", "amz-sdk-request"})

_BY_PATH: dict[str, Dialect] = {
    "/v1/chat/completions": _CHAT,
    "/v1/messages": _MESSAGES,
    "/v1/responses": _RESPONSES,
    "/v1/responses/input_tokens": _RESPONSES,
    "/v1/completions": _COMPLETIONS,
    "/v1/embeddings": _EMBEDDINGS,
    "/v1/images/generations": _IMAGES,
    "/v1/images/edits": _IMAGES,
    "/v1/images/variations": _IMAGES,
    "/v1/audio/transcriptions": _TRANSCRIPTIONS,
    "/v1/audio/translations": _TRANSCRIPTIONS,
    "/v1/audio/speech": _SPEECH,
    "/v1/moderations": _MODERATIONS,
    "/openai/v1/chat/completions": _AZURE,
    "/openai/v1/responses": AzureOpenAI(_RESPONSES),
    "/openai/responses": AzureOpenAI(_RESPONSES),
    "/openai/v1/completions": AzureOpenAI(_COMPLETIONS),
    "/openai/v1/embeddings": AzureOpenAI(_EMBEDDINGS),
    "/openai/v1/images/generations": AzureOpenAI(_IMAGES),
    "/openai/v1/images/edits": AzureOpenAI(_IMAGES),
}
_DEPLOYMENTS = {
    PathForm(f"/openai/deployments/{{model}}/{end}"): api
    for end, api in (
        ("chat/completions", _CHAT),
        ("completions", _COMPLETIONS),
        ("embeddings", _EMBEDDINGS),
        ("images/generations", _IMAGES),
        ("images/edits", _IMAGES),
        ("audio/transcriptions", _TRANSCRIPTIONS),
        ("audio/translations", _TRANSCRIPTIONS),
        ("audio/speech", _SPEECH),
    )
}
METERED_PATHS = tuple(_BY_PATH)
"""Paths whose bodies are read."""
_GEMINI_FORMS = {
    PathForm(f"/{version}/models/{{model}}:{method}"): (route, streams)
    for version in ("v1beta", "v1")
    for method, route, streams in (
        ("generateContent", "generate_content", False),
        ("streamGenerateContent", "generate_content", True),
        ("embedContent", "embed_content", False),
        ("batchEmbedContents", "embed_content", False),
    )
}
_CONVERSE_FORMS = {
    PathForm("/model/{model}/converse", coded=True): False,
    PathForm("/model/{model}/converse-stream", coded=True): True,
}
_INVOKE_FORMS = {
    PathForm("/model/{model}/invoke", coded=True): False,
    PathForm("/model/{model}/invoke-with-response-stream", coded=True): True,
}
METERED_FORMS = (*_DEPLOYMENTS, *_GEMINI_FORMS, *_CONVERSE_FORMS, *_INVOKE_FORMS)
"""Others that are, which name a model."""

_BEDROCK_COUNTING = PathForm("/model/{model}/count-tokens", coded=True)
COUNTING_FORMS = (
    PathForm("/v1beta/models/{model}:countTokens"),
    PathForm("/v1/models/{model}:countTokens"),
    _BEDROCK_COUNTING,
)
"""Those that have tokens counted."""

_BY_ROUTE = _BY_FORM | {
    dialect.route: dialect for dialect in reversed(_BY_PATH.values())
}
