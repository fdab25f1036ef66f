"""
What an OpenAI chat request makes the model read.

Every part that bears text counts: earlier tool calls and their arguments, tool
definitions, schemas of the answer. Types are checked where the estimate needs
them; everything else is the provider's to refuse.

A member that nobody here knows counts as well, wherever it stands: servers take more
than OpenAI does (documents, templates, grammars), and what is new must not be free. A
predicted answer is read too; what of it was rejected is within the reported output.
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import MediaKind, Message, Prompt, Tool
from tokenweir.core.dialects.content import Content, json_of
from tokenweir.core.dialects.fields import Members

# By type of the part: the member that is a URL, or an object with one.
_URLS = {
    "image_url": ("image_url", MediaKind.IMAGE),
    "input_image": ("image_url", MediaKind.IMAGE),
    "audio_url": ("audio_url", MediaKind.AUDIO),
    "video_url": ("video_url", MediaKind.VIDEO),
}

# What most messages have, and nothing else that is worth looking for.
_PLAIN = {"role", "content"}

# Members that are read here, or that the model does not read.
_OF_BODY = frozenset(
    {
        *("messages", "model", "tools", "functions", "response_format"),
        *("tool_choice", "function_call"),
        *("audio", "frequency_penalty", "logit_bias", "logprobs"),
        *("max_completion_tokens", "max_tokens", "metadata", "min_p", "modalities"),
        *("moderation", "n", "parallel_tool_calls", "presence_penalty"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
        *("reasoning_effort", "repetition_penalty", "safety_identifier", "seed"),
        *("service_tier", "stop", "store", "stream", "stream_options"),
        *("temperature", "top_k", "top_logprobs", "top_p", "user", "verbosity"),
        "web_search_options",
    }
)
# How much is searched is not read; where the user is, is.
_OF_SEARCH = frozenset({"search_context_size"})
_OF_CHOICE = frozenset({"type", "name", "function", "custom"})
_OF_MESSAGE = frozenset(
    {
        *("role", "content", "name", "refusal", "reasoning_content", "reasoning"),
        *("tool_calls", "function_call", "tool_call_id", "audio"),
        *("id", "cache_control"),
    }
)
_OF_CALL = frozenset({"id", "index", "type", "function", "custom"})
_OF_TOOL = frozenset({"type", "function", "custom"})
_OF_DEFINITION = frozenset(
    {"type", "name", "description", "parameters", "format", "strict", "cache_control"}
)

_CHOICES = ("tool_choice", "function_call")
_FUNCTIONS = frozenset({"function", "custom"})

_Placed = tuple[str, Members]


def read_prompt(body: Members) -> Prompt:
    """
    Return what the model reads of the request *body*.

    Raises:
        MalformedRequestError: A part that is counted has the wrong type.
    """
    definitions = list(_definitions(body))
    messages = [_message(item, path) for path, item in fields.messages(body)]
    return Prompt(
        messages=(*messages, *_rest(body, definitions)),
        tools=tuple(_tool(item, path) for path, item in definitions),
        tool_choice=_tool_choice(body),
        extra_texts=tuple(_extra_texts(body, definitions)),
    )


def _message(item: Members, path: str) -> Message:
    content = Content()
    _add_content(content, item, path)
    if item.keys() == _PLAIN:
        return content.message(item["role"])
    spoken = len(content.texts)
    content.add_text(fields.string(item, "refusal", path))
    # Servers that take reasoning back have either name for it; templates leave it out.
    content.add_json(item.get("reasoning_content") or item.get("reasoning"))
    content.is_guessed |= len(content.texts) > spoken
    for where, call in fields.objects(item, "tool_calls", path):
        _add_call(content, call, "function", where)
        _add_call(content, call, "custom", where)
        content.add_rest(call, _OF_CALL)
    _add_call(content, item, "function_call", path)
    content.add_rest(item, _OF_MESSAGE)
    name = fields.string(item, "name", path)
    return content.message(item["role"], name or None)


def _add_call(content: Content, holder: Members, kind: str, path: str) -> None:
    call = fields.mapping(holder, kind, path)
    content.calls += bool(call)
    content.add_text(fields.string(call, "name", f"{path}.{kind}"))
    content.add_json(call.get("arguments"))
    content.add_json(call.get("input"))


def _add_content(content: Content, item: Members, path: str) -> None:
    found = fields.text_or_array(item, "content", path)
    if isinstance(found, str):
        content.add_text(found)
        return
    for position, part in enumerate(found):
        if isinstance(part, dict):
            _add_part(content, part, f"{path}.content[{position}]")
        else:
            content.add_unknown(part)


def _add_part(content: Content, part: Members, path: str) -> None:
    match part.get("type"):
        case "text":
            content.add_text(fields.string(part, "text", path))
        case "image_url" | "input_image" | "audio_url" | "video_url" as kind:
            _add_url(content, part, kind, path)
        case "input_audio":
            data = _inner_string(part, "input_audio", "data", path)
            content.add_encoded(data, MediaKind.AUDIO)
        case "file":
            data = _inner_string(part, "file", "file_data", path)
            content.add_encoded(data, MediaKind.FILE)
        case _:
            content.add_unknown(part)


def _add_url(content: Content, part: Members, kind: str, path: str) -> None:
    name, media_kind = _URLS[kind]
    if isinstance(part.get(name), str):
        content.add_url(part[name], media_kind, part.get("detail"))
        return
    url = _inner_string(part, name, "url", path)
    content.add_url(url, media_kind, (part.get(name) or {}).get("detail"))


def _inner_string(part: Members, outer: str, name: str, path: str) -> str:
    holder = fields.mapping(part, outer, path)
    return fields.string(holder, name, f"{path}.{outer}")


def _definitions(body: Members) -> Iterator[_Placed]:
    """Yield what defines each tool, those of the old `functions` too."""
    for path, item in fields.objects(body, "tools"):
        kind = "custom" if item.get("custom") is not None else "function"
        if item.get(kind) is None:
            yield path, item  # hosted, such as a web search
        else:
            yield f"{path}.{kind}", fields.mapping(item, kind, path)
    yield from fields.objects(body, "functions")


def _tool(item: Members, path: str) -> Tool:
    return Tool(
        name=fields.string(item, "name", path) or fields.string(item, "type", path),
        description=fields.string(item, "description", path),
        parameters=fields.mapping(item, "parameters", path),
    )


def _extra_texts(body: Members, definitions: list[_Placed]) -> Iterator[str]:
    wanted = fields.mapping(body, "response_format")
    for name, form in wanted.items():
        # Some have a schema or a grammar there, by other names.
        if name != "type" and form is not None:
            yield json_of(form)
    for _, item in definitions:
        if item.get("format") is not None:  # the grammar of a custom tool
            yield json_of(item["format"])


def _rest(body: Members, definitions: list[_Placed]) -> Iterator[Message]:
    """Yield what is left: a text without a role, that has no frame."""
    rest = Content()
    rest.add_rest(body, _OF_BODY)
    if isinstance(body.get("web_search_options"), dict):
        rest.add_rest(body["web_search_options"], _OF_SEARCH)
    for name in _CHOICES:
        if isinstance(body.get(name), dict):
            rest.add_rest(body[name], _OF_CHOICE)
    for _, tool in fields.objects(body, "tools"):
        if not tool.keys().isdisjoint(_FUNCTIONS):
            rest.add_rest(tool, _OF_TOOL)
    for _, item in definitions:
        rest.add_rest(item, _OF_DEFINITION)
    yield from rest.rest()


def _tool_choice(body: Members) -> str | None:
    choice = body.get("tool_choice") or body.get("function_call")
    if choice == "none":
        return "none"
    if not isinstance(choice, dict):
        return None
    chosen = choice.get("function") or choice.get("custom") or choice
    name = chosen.get("name") if isinstance(chosen, dict) else None
    return name if isinstance(name, str) and name else None
