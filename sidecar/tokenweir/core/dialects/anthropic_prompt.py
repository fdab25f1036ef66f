"""
What an Anthropic request makes the model read.

Every part that bears text counts: the system prompt, earlier tool calls and their
results, thinking, tool definitions, schemas of the answer.

A member that nobody here knows counts as well: what is new must not be free. Citations
that are sent back are: Anthropic charges nothing for what is cited.
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import MediaKind, Message, Prompt, Tool
from tokenweir.core.dialects.content import Content, json_of
from tokenweir.core.dialects.fields import Members

# Members that are read here, or that the model does not read.
_OF_BODY = frozenset(
    {
        *("messages", "model", "system", "tools", "tool_choice"),
        *("output_config", "output_format"),
        *("cache_control", "inference_geo", "max_tokens", "metadata", "service_tier"),
        *("speed", "stop_sequences", "stream", "temperature", "thinking"),
        *("top_k", "top_p"),
    }
)
_OF_MESSAGE = frozenset({"role", "content", "id"})
_OF_CONFIG = frozenset({"effort", "format", "task_budget"})
_OF_FORMAT = frozenset({"type", "schema"})
_OF_TOOL = frozenset(
    {"type", "name", "description", "input_schema", "strict", "cache_control"}
)


def read_prompt(body: Members) -> Prompt:
    """
    Return what the model reads of the request *body*.

    Raises:
        MalformedRequestError: A part that is counted has the wrong type.
    """
    return Prompt(
        messages=(
            *_system(body),
            *(_message(item, path) for path, item in fields.messages(body)),
            *_rest(body),
        ),
        tools=tuple(_tool(item, path) for path, item in fields.objects(body, "tools")),
        tool_choice=_tool_choice(body.get("tool_choice")),
        extra_texts=tuple(_schemas(body)),
    )


def _system(body: Members) -> Iterator[Message]:
    if body.get("system") is not None:
        content = Content()
        _add_blocks(content, body, "system", "")
        yield content.message("system")


def _rest(body: Members) -> Iterator[Message]:
    """Yield what is left: a text without a role, that has no frame."""
    rest = Content()
    rest.add_rest(body, _OF_BODY)
    rest.add_rest(fields.mapping(body, "output_config"), _OF_CONFIG)
    for wanted in _formats(body):
        rest.add_rest(wanted, _OF_FORMAT)
    for _, tool in fields.objects(body, "tools"):
        rest.add_rest(tool, _OF_TOOL)
    yield from rest.rest()


def _message(item: Members, path: str) -> Message:
    content = Content()
    _add_blocks(content, item, "content", path)
    content.add_rest(item, _OF_MESSAGE)
    return content.message(item["role"])


def _add_blocks(content: Content, holder: Members, name: str, path: str) -> None:
    """Add a string or blocks; the parser has bounded how deep these nest."""
    found = fields.text_or_array(holder, name, path)
    if isinstance(found, str):
        content.add_text(found)
        return
    for where, block in fields.objects(holder, name, path):
        _add_block(content, block, where)


def _add_block(content: Content, block: Members, path: str) -> None:
    match block.get("type"):
        case "text" | "thinking" as kind:
            content.add_text(fields.string(block, kind, path))
            # That of earlier turns is left out.
            content.is_guessed |= kind == "thinking"
        case "image":
            _add_source(content, block, MediaKind.IMAGE, path)
        case "document":
            content.add_text(fields.string(block, "title", path))
            content.add_text(fields.string(block, "context", path))
            _add_source(content, block, MediaKind.FILE, path)
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            content.add_text(fields.string(block, "name", path))
            content.add_json(block.get("input"))
        case "tool_result" | "mcp_tool_result":
            _add_blocks(content, block, "content", path)
        case _:
            # Redacted thinking among them: encrypted, so only its size tells.
            content.add_unknown(block)


def _add_source(content: Content, block: Members, kind: MediaKind, path: str) -> None:
    source = fields.mapping(block, "source", path)
    where = f"{path}.source"
    match source.get("type"):
        case "text":
            content.add_text(fields.string(source, "data", where))
        case "content":
            _add_blocks(content, source, "content", where)
        case "url":
            content.add_url(fields.string(source, "url", where), kind)
        case _:
            content.add_encoded(fields.string(source, "data", where), kind)


def _tool(item: Members, path: str) -> Tool:
    return Tool(
        name=fields.string(item, "name", path) or fields.string(item, "type", path),
        description=fields.string(item, "description", path),
        parameters=fields.mapping(item, "input_schema", path),
    )


def _tool_choice(choice: object) -> str | None:
    if not isinstance(choice, dict):
        return None
    if choice.get("type") == "none":
        return "none"
    name = choice.get("name")
    return name if isinstance(name, str) and name else None


def _schemas(body: Members) -> Iterator[str]:
    for wanted in _formats(body):
        if wanted.get("schema") is not None:
            yield json_of(wanted["schema"])


def _formats(body: Members) -> Iterator[Members]:
    """Yield the form of the answer, from its older or its newer place."""
    config = fields.mapping(body, "output_config")
    for wanted in (body.get("output_format"), config.get("format")):
        if isinstance(wanted, dict):
            yield wanted
