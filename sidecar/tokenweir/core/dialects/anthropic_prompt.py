"""What an Anthropic request makes the model read; every part that bears text counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import MediaKind, Message, Prompt, Tool
from tokenweir.core.dialects.content import Content, json_of
from tokenweir.core.errors import MalformedRequestError


def read_prompt(body: dict[str, Any]) -> Prompt:
    """
    Return what the model reads of the request *body*.

    Raises:
        MalformedRequestError: A part that is counted has the wrong type.
    """
    if body.get("messages") is None:
        raise MalformedRequestError("`messages` is missing.", "messages")
    messages = fields.objects(body["messages"], "messages")
    tools = fields.objects(body.get("tools"), "tools")
    return Prompt(
        messages=(
            *_system(body.get("system")),
            *(_message(item, param) for param, item in messages),
        ),
        tools=tuple(_tool(item, param) for param, item in tools),
        tool_choice=_tool_choice(body.get("tool_choice")),
        extra_texts=tuple(_schemas(body)),
    )


def _system(value: object) -> Iterator[Message]:
    if value is not None:
        content = Content()
        _add_content(content, value, "system")
        yield content.message("system")


def _message(item: dict[str, Any], param: str) -> Message:
    role = fields.string(item.get("role"), f"{param}.role")
    if not role:
        raise MalformedRequestError(f"`{param}.role` is missing.", f"{param}.role")
    content = Content()
    _add_content(content, item.get("content"), f"{param}.content")
    return content.message(role)


def _add_content(content: Content, value: object, param: str) -> None:
    """Add *value*, a string or blocks; the parser has bounded how deep they nest."""
    if isinstance(value, str):
        content.add_text(value)
        return
    if value is not None and not isinstance(value, list):
        raise MalformedRequestError(f"`{param}` must be a string or an array.", param)
    for path, block in fields.objects(value, param):
        _add_block(content, block, path)


def _add_block(content: Content, block: dict[str, Any], param: str) -> None:
    match block.get("type"):
        case "text" | "thinking" as kind:
            content.add_text(fields.string(block.get(kind), f"{param}.{kind}"))
        case "image":
            _add_source(content, block.get("source"), MediaKind.IMAGE, param)
        case "document":
            content.add_text(fields.string(block.get("title"), f"{param}.title"))
            content.add_text(fields.string(block.get("context"), f"{param}.context"))
            _add_source(content, block.get("source"), MediaKind.FILE, param)
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            content.add_text(fields.string(block.get("name"), f"{param}.name"))
            content.add_json(block.get("input"))
        case "tool_result" | "mcp_tool_result":
            _add_content(content, block.get("content"), f"{param}.content")
        case _:
            # Redacted thinking among them: encrypted, so only its size tells.
            content.add_unknown(block)


def _add_source(content: Content, value: object, kind: MediaKind, param: str) -> None:
    source = fields.mapping(value, f"{param}.source")
    match source.get("type"):
        case "text":
            data = fields.string(source.get("data"), f"{param}.source.data")
            content.add_text(data)
        case "content":
            _add_content(content, source.get("content"), f"{param}.source.content")
        case "url":
            url = fields.string(source.get("url"), f"{param}.source.url")
            content.add_url(url, kind)
        case _:
            data = fields.string(source.get("data"), f"{param}.source.data")
            content.add_encoded(data, kind)


def _tool(item: dict[str, Any], param: str) -> Tool:
    return Tool(
        name=fields.string(item.get("name") or item.get("type"), f"{param}.name"),
        description=fields.string(item.get("description"), f"{param}.description"),
        parameters=fields.mapping(item.get("input_schema"), f"{param}.input_schema"),
    )


def _tool_choice(choice: object) -> str | None:
    if not isinstance(choice, dict):
        return None
    if choice.get("type") == "none":
        return "none"
    name = choice.get("name")
    return name if isinstance(name, str) and name else None


def _schemas(body: dict[str, Any]) -> Iterator[str]:
    """Yield the schema of the answer, in its older and newer place."""
    config = fields.mapping(body.get("output_config"), "output_config")
    for wanted in (body.get("output_format"), config.get("format")):
        if isinstance(wanted, dict) and wanted.get("schema") is not None:
            yield json_of(wanted["schema"])
