"""
What a Converse request makes the model read.

Each block of a message is an object with one member, which says what it is. A member
that nobody here knows counts as well: what is new must not be free. What is stored
elsewhere (a prompt under an ARN, an object in S3) is read by the model and seen by
nobody here: it is charged as reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import MediaKind, Message, Prompt, Tool
from tokenweir.core.dialects.content import Content
from tokenweir.core.dialects.fields import Members

# Members that are read here, or that the model does not read.
_OF_BODY = frozenset(
    {
        *("messages", "system", "toolConfig", "outputConfig", "inferenceConfig"),
        *("guardrailConfig", "performanceConfig", "serviceTier", "requestMetadata"),
        *("additionalModelResponseFieldPaths", "projectIdentifier"),
        "additionalModelRequestFields",
    }
)
# Of what goes to the model in its maker's words.
_OF_MORE = frozenset({"thinking", "reasoning_config", "anthropic_beta", "top_k"})
_OF_MESSAGE = frozenset({"role", "content"})
_OF_SYSTEM = frozenset({"text", "cachePoint"})
_OF_TOOL = frozenset({"toolSpec", "cachePoint"})
_OF_SPEC = frozenset({"name", "description", "inputSchema", "strict"})
_OF_CHOICE = frozenset({"tools", "toolChoice"})
_MEDIA = {
    "image": MediaKind.IMAGE,
    "audio": MediaKind.AUDIO,
    "video": MediaKind.FILE,
    "document": MediaKind.FILE,
}
_OF_BLOCK = frozenset({"text", "toolUse", "toolResult", "cachePoint", *_MEDIA})
_OF_TOOL_USE = frozenset({"toolUseId", "name", "input", "type"})
_OF_RESULT = frozenset({"toolUseId", "content", "status", "type"})
_OF_MEDIA = frozenset({"format", "source", "citations"})
_OF_SOURCE = frozenset({"bytes", "s3Location", "text", "content"})


def read_prompt(body: Members) -> Prompt:
    """
    Return what the model reads of the request *body*.

    Raises:
        MalformedRequestError: A part that is counted has the wrong type.
    """
    tools = fields.mapping(body, "toolConfig")
    return Prompt(
        messages=(
            *_system(body),
            *(_message(item, path) for path, item in fields.objects(body, "messages")),
            *_rest(body, tools),
        ),
        tools=tuple(_tools(tools)),
        tool_choice=_tool_choice(tools.get("toolChoice")),
        extra_texts=tuple(_schemas(body)),
    )


def _system(body: Members) -> Iterator[Message]:
    content = Content()
    for path, block in fields.objects(body, "system"):
        content.add_text(fields.string(block, "text", path))
        content.add_rest(block, _OF_SYSTEM)
    if content.texts or content.media:
        yield content.message("system")


def _rest(body: Members, tools: Members) -> Iterator[Message]:
    """Yield what is left: a text without a role, that has no frame."""
    rest = Content()
    rest.add_rest(body, _OF_BODY)
    rest.add_rest(fields.mapping(body, "additionalModelRequestFields"), _OF_MORE)
    rest.add_rest(tools, _OF_CHOICE)
    for path, tool in fields.objects(tools, "tools", "toolConfig"):
        rest.add_rest(tool, _OF_TOOL)
        rest.add_rest(fields.mapping(tool, "toolSpec", path), _OF_SPEC)
    yield from rest.rest()


def _message(item: Members, path: str) -> Message:
    content = Content()
    for where, block in fields.objects(item, "content", path):
        _add_block(content, block, where)
    content.add_rest(item, _OF_MESSAGE)
    return content.message(fields.string(item, "role", path))


def _add_block(content: Content, block: Members, path: str) -> None:
    """Add one block; the parser has bounded how deep these nest."""
    content.add_text(fields.string(block, "text", path))
    for name, kind in _MEDIA.items():
        if block.get(name) is not None:
            _add_media(content, fields.mapping(block, name, path), kind, path)
    call = fields.mapping(block, "toolUse", path)
    content.add_text(fields.string(call, "name", path))
    content.add_json(call.get("input"))
    content.add_rest(call, _OF_TOOL_USE)
    result = fields.mapping(block, "toolResult", path)
    for where, part in fields.objects(result, "content", path):
        content.add_json(part.get("json"))
        _add_block(content, {n: v for n, v in part.items() if n != "json"}, where)
    content.add_rest(result, _OF_RESULT)
    # Thoughts that are sent back and what a guardrail looks at, among others.
    content.add_rest(block, _OF_BLOCK)


def _add_media(content: Content, held: Members, kind: MediaKind, path: str) -> None:
    source = fields.mapping(held, "source", path)
    content.add_text(fields.string(source, "text", path))
    for where, part in fields.objects(source, "content", path):
        _add_block(content, part, where)
    data = fields.string(source, "bytes", path)
    if data:
        content.add_encoded(data, kind)
    elif source.get("s3Location") is not None:
        content.add_url("s3:", kind)
    content.add_rest(source, _OF_SOURCE)
    # A document's name, and what it is said to be about.
    content.add_rest(held, _OF_MEDIA)


def _tools(config: Members) -> Iterator[Tool]:
    for path, item in fields.objects(config, "tools", "toolConfig"):
        spec = fields.mapping(item, "toolSpec", path)
        if not spec:
            continue  # a point of a cache, or a tool that AWS runs
        schema = fields.mapping(spec, "inputSchema", path).get("json")
        yield Tool(
            name=fields.string(spec, "name", path),
            description=fields.string(spec, "description", path),
            parameters=schema if isinstance(schema, dict) else {},
        )


def _tool_choice(choice: object) -> str | None:
    forced = choice.get("tool") if isinstance(choice, dict) else None
    name = forced.get("name") if isinstance(forced, dict) else None
    return name if isinstance(name, str) and name else None


def _schemas(body: Members) -> Iterator[str]:
    """Yield the schema of the answer, which is a string of JSON."""
    form = fields.mapping(fields.mapping(body, "outputConfig"), "textFormat")
    schema = fields.mapping(fields.mapping(form, "structure"), "jsonSchema")
    for name in ("schema", "name", "description"):
        text = fields.string(schema, name, "outputConfig")
        if text:
            yield text
