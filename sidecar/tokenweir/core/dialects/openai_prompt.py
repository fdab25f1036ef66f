"""
What an OpenAI chat request makes the model read.

Every part that bears text counts: earlier tool calls and their arguments, tool
definitions, schemas of the answer. Types are checked where the estimate needs
them; everything else is the provider's to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import MediaKind, Message, Prompt, Tool
from tokenweir.core.dialects.content import Content, json_of
from tokenweir.core.errors import MalformedRequestError

# By type: the member that holds a URL, or an object with one, and what is there.
_URLS = {
    "image_url": ("image_url", MediaKind.IMAGE),
    "input_image": ("image_url", MediaKind.IMAGE),
    "audio_url": ("audio_url", MediaKind.AUDIO),
    "video_url": ("video_url", MediaKind.FILE),
}


def read_prompt(body: dict[str, Any]) -> Prompt:
    """
    Return what the model reads of the request *body*.

    Raises:
        MalformedRequestError: A part that is counted has the wrong type.
    """
    if body.get("messages") is None:
        raise MalformedRequestError("`messages` is missing.", "messages")
    messages = fields.objects(body["messages"], "messages")
    definitions = list(_definitions(body))
    return Prompt(
        messages=tuple(_message(item, param) for param, item in messages),
        tools=tuple(_tool(item, param) for param, item in definitions),
        tool_choice=_tool_choice(body),
        extra_texts=tuple(_extra_texts(body, definitions)),
    )


def _message(item: dict[str, Any], param: str) -> Message:
    content = Content()
    _add_content(content, item.get("content"), f"{param}.content")
    content.add_text(fields.string(item.get("refusal"), f"{param}.refusal"))
    # Servers that take reasoning back have either name for it.
    content.add_json(item.get("reasoning_content") or item.get("reasoning"))
    for path, call in fields.objects(item.get("tool_calls"), f"{param}.tool_calls"):
        _add_call(content, call.get("function"), f"{path}.function")
        _add_call(content, call.get("custom"), f"{path}.custom")
    _add_call(content, item.get("function_call"), f"{param}.function_call")
    name = fields.string(item.get("name"), f"{param}.name")
    return content.message(_role(item, param), name or None)


def _role(item: dict[str, Any], param: str) -> str:
    role = fields.string(item.get("role"), f"{param}.role")
    if not role:
        raise MalformedRequestError(f"`{param}.role` is missing.", f"{param}.role")
    return role


def _add_call(content: Content, value: object, param: str) -> None:
    call = fields.mapping(value, param)
    content.add_text(fields.string(call.get("name"), f"{param}.name"))
    content.add_json(call.get("arguments"))
    content.add_json(call.get("input"))


def _add_content(content: Content, value: object, param: str) -> None:
    if isinstance(value, str):
        content.add_text(value)
        return
    if value is not None and not isinstance(value, list):
        raise MalformedRequestError(f"`{param}` must be a string or an array.", param)
    for position, part in enumerate(value or ()):
        _add_part(content, part, f"{param}[{position}]")


def _add_part(content: Content, part: object, param: str) -> None:
    if isinstance(part, str):
        content.add_text(part)
        return
    item = fields.mapping(part, param)
    match item.get("type"):
        case "text":
            content.add_text(fields.string(item.get("text"), f"{param}.text"))
        case "image_url" | "audio_url" | "video_url" | "input_image" as kind:
            _add_url(content, item, kind, param)
        case "input_audio":
            data = _inner_string(item, "input_audio", "data", param)
            content.add_encoded(data, MediaKind.AUDIO)
        case "file":
            data = _inner_string(item, "file", "file_data", param)
            content.add_encoded(data, MediaKind.FILE)
        case _:
            content.add_unknown(item)


def _add_url(content: Content, item: dict[str, Any], kind: str, param: str) -> None:
    """Add what is behind the URL, which stands there itself or in an object."""
    name, media_kind = _URLS[kind]
    if isinstance(item.get(name), str):
        content.add_url(item[name], media_kind, item.get("detail"))
        return
    url = _inner_string(item, name, "url", param)
    content.add_url(url, media_kind, (item.get(name) or {}).get("detail"))


def _inner_string(item: dict[str, Any], outer: str, name: str, param: str) -> str:
    holder = fields.mapping(item.get(outer), f"{param}.{outer}")
    return fields.string(holder.get(name), f"{param}.{outer}.{name}")


_Definition = tuple[str, dict[str, Any]]


def _definitions(body: dict[str, Any]) -> Iterator[_Definition]:
    """Yield what defines each tool, with its param, the old `functions` too."""
    for param, item in fields.objects(body.get("tools"), "tools"):
        kind = "custom" if item.get("custom") is not None else "function"
        if item.get(kind) is None:
            yield param, item  # hosted, such as a web search
        else:
            yield f"{param}.{kind}", fields.mapping(item[kind], f"{param}.{kind}")
    yield from fields.objects(body.get("functions"), "functions")


def _tool(item: dict[str, Any], param: str) -> Tool:
    return Tool(
        name=fields.string(item.get("name") or item.get("type"), f"{param}.name"),
        description=fields.string(item.get("description"), f"{param}.description"),
        parameters=fields.mapping(item.get("parameters"), f"{param}.parameters"),
    )


def _extra_texts(body: dict[str, Any], definitions: list[_Definition]) -> Iterator[str]:
    wanted = fields.mapping(body.get("response_format"), "response_format")
    if wanted.get("json_schema") is not None:
        yield json_of(wanted["json_schema"])
    for _, item in definitions:
        if item.get("format") is not None:  # the grammar of a custom tool
            yield json_of(item["format"])


def _tool_choice(body: dict[str, Any]) -> str | None:
    choice = body.get("tool_choice") or body.get("function_call")
    if choice == "none":
        return "none"
    if not isinstance(choice, dict):
        return None
    chosen = choice.get("function") or choice.get("custom") or choice
    name = chosen.get("name") if isinstance(chosen, dict) else None
    return name if isinstance(name, str) and name else None
