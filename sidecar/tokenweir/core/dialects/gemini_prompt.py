"""
What a Gemini request makes the model read.

Members have two spellings, `maxOutputTokens` and `max_output_tokens`, and Google takes
either. A member that nobody here knows counts as well: what is new must not be free.
What is cached under a name is read by the model and seen by nobody here: it is charged
as reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import MediaKind, Message, Prompt, Tool
from tokenweir.core.dialects.content import Content, json_of
from tokenweir.core.dialects.fields import Members
from tokenweir.core.errors import MalformedRequestError

# Members that are read here, or that the model does not read.
_OF_BODY = frozenset(
    {
        *("contents", "content", "requests", "systemInstruction", "system_instruction"),
        *("tools", "generationConfig", "generation_config", "model"),
        *("toolConfig", "tool_config", "safetySettings", "safety_settings"),
        *("cachedContent", "cached_content", "labels", "taskType", "task_type"),
        *("outputDimensionality", "output_dimensionality"),
    }
)
_OF_CONTENT = frozenset({"parts", "role"})
_OF_PART = frozenset(
    {
        *("text", "thought", "thoughtSignature", "thought_signature"),
        *("inlineData", "inline_data", "fileData", "file_data"),
        *("videoMetadata", "video_metadata"),
        *("mediaResolution", "media_resolution"),
    }
)
_CALLS = frozenset(
    {"functionCall", "function_call", "functionResponse", "function_response"}
)
_SCHEMAS = ("responseSchema", "response_schema", "responseJsonSchema")
_KINDS = {
    "image": MediaKind.IMAGE,
    "audio": MediaKind.AUDIO,
    "video": MediaKind.VIDEO,
}


def read_prompt(body: Members) -> Prompt:
    """
    Return what the model reads of the request *body*.

    Raises:
        MalformedRequestError: A part that is counted has the wrong type.
    """
    rest = Content()
    rest.add_rest(body, _OF_BODY)
    contents = [*_all(body, "contents"), *_all(body, "content")]
    for path, request in _all(body, "requests"):  # a batch of what is embedded
        contents += _all(request, "content", path)
        rest.add_rest(request, _OF_BODY)
    system = either(body, "systemInstruction", "system_instruction")
    config = generation_config(body)
    detail = _resolution(config)
    messages = [_message(item, path, detail) for path, item in contents]
    if system is not None:
        where = "systemInstruction"
        messages += (
            _message(item, path, detail) for path, item in _all({where: system}, where)
        )
    return Prompt(
        messages=(*messages, *rest.rest()),
        tools=tuple(_tools(body)),
        extra_texts=tuple(json_of(config[n]) for n in _SCHEMAS if config.get(n)),
        is_partial=either(body, "cachedContent", "cached_content") is not None,
    )


def generation_config(body: Members) -> Members:
    """Return the object that has the cap on output, an empty one if absent."""
    found = either(body, "generationConfig", "generation_config")
    if found is None:
        return {}
    if not isinstance(found, dict):
        text = "`generationConfig` must be an object."
        raise MalformedRequestError(text, "generationConfig")
    return found


def either(holder: Members, *names: str) -> Any:
    """Return the first of the members *names* that is there and not null, or None."""
    return next((holder[n] for n in names if holder.get(n) is not None), None)


def _all(holder: Members, name: str, path: str = "") -> list[tuple[str, Members]]:
    """Return the objects of an array, or the only one in its place."""
    value = holder.get(name)
    if isinstance(value, dict):
        holder = {name: [value]}
    elif isinstance(value, str):
        holder = {name: [{"parts": [{"text": value}]}]}
    return fields.objects(holder, name, path)


def _resolution(holder: Members) -> str | None:
    """Return at which resolution media are shown, if *holder* says."""
    found = either(holder, "mediaResolution", "media_resolution")
    if isinstance(found, dict):
        found = found.get("level")
    return found if isinstance(found, str) else None


def _message(item: Members, path: str, detail: str | None) -> Message:
    content = Content()
    for where, part in _all(item, "parts", path):
        _add_part(content, part, where, _resolution(part) or detail)
    content.add_rest(item, _OF_CONTENT)
    return content.message(fields.string(item, "role", path))


def _add_part(content: Content, part: Members, path: str, detail: str | None) -> None:
    content.add_text(fields.string(part, "text", path))
    held = either(part, "inlineData", "inline_data")
    if isinstance(held, dict):
        data = fields.string(held, "data", path)
        content.add_encoded(data, _kind_of(held), detail)
    held = either(part, "fileData", "file_data")
    if isinstance(held, dict):
        content.add_url("file", _kind_of(held), detail)
    content.is_guessed |= part.get("thought") is True
    content.add_rest(part, _OF_PART, _CALLS)


def _kind_of(held: Members) -> MediaKind:
    kind, _, _ = str(either(held, "mimeType", "mime_type")).partition("/")
    return _KINDS.get(kind, MediaKind.FILE)


def _tools(body: Members) -> Iterator[Tool]:
    for path, tool in _all(body, "tools"):
        functions = either(tool, "functionDeclarations", "function_declarations")
        for where, item in _all(
            {"functionDeclarations": functions}, "functionDeclarations", path
        ):
            schema = either(item, "parameters", "parametersJsonSchema")
            yield Tool(
                name=fields.string(item, "name", where),
                description=fields.string(item, "description", where),
                parameters=schema if isinstance(schema, dict) else {},
            )
