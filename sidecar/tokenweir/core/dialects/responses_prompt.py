"""
What a request for a response makes the model read.

Its input is a text, or a list of items: messages, calls of tools and their results,
reasoning that is sent back. What the provider keeps (`previous_response_id`,
`conversation`, stored prompts and files) is read by the model and seen by nobody here:
it is charged as reported.
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
        *("model", "input", "instructions", "tools", "tool_choice", "text"),
        *("background", "conversation", "include", "max_output_tokens"),
        *("max_tool_calls", "metadata", "parallel_tool_calls", "previous_response_id"),
        *("prompt_cache_key", "prompt_cache_retention", "reasoning"),
        *("safety_identifier", "service_tier", "store", "stream", "stream_options"),
        *("temperature", "top_logprobs", "top_p", "truncation", "user", "modalities"),
        *("context_management",),
    }
)
# What is read by the model, and kept by the provider.
_KEPT = ("conversation", "previous_response_id", "prompt")
_OF_TEXT = frozenset({"format", "verbosity"})
_OF_FORMAT = frozenset({"type", "strict"})
_OF_TOOL = frozenset({"type", "name", "description", "parameters", "strict"})
_OF_CHOICE = frozenset({"type", "name", "mode"})
_OF_MESSAGE = frozenset({"type", "role", "content", "id", "status", "phase"})
# Of all other items: who they are, and how far they got.
_OF_ITEM = frozenset({"type", "id", "call_id", "status", "approval_request_id"})
# What a tool has answered.
_READ = frozenset({"output"})
_ENCRYPTED = "encrypted_content"


def read_prompt(body: Members) -> Prompt:
    """
    Return what the model reads of the request *body*.

    Raises:
        MalformedRequestError: A part that is counted has the wrong type.
    """
    tools = fields.objects(body, "tools")
    return Prompt(
        messages=(*_instructions(body), *_input(body), *_rest(body, tools)),
        tools=tuple(_tool(item, path) for path, item in tools),
        tool_choice=_tool_choice(body),
        extra_texts=tuple(_formats(body)),
        is_partial=any(body.get(name) is not None for name in _KEPT),
    )


def _instructions(body: Members) -> Iterator[Message]:
    found = fields.text_or_array(body, "instructions", "")
    if isinstance(found, str):
        if found:
            yield Message("system", (found,))
        return
    yield from _items(found, "instructions")


def _input(body: Members) -> Iterator[Message]:
    found = fields.text_or_array(body, "input", "")
    if isinstance(found, str):
        yield Message("user", (found,))
    else:
        yield from _items(found, "input")


def _items(items: list[object], name: str) -> Iterator[Message]:
    for position, item in enumerate(items):
        path = f"{name}[{position}]"
        if not isinstance(item, dict):
            content = Content()
            content.add_unknown(item)
            yield content.message("user")
        elif "role" in item:
            yield _message(item, path)
        else:
            yield _other(item, path)


def _message(item: Members, path: str) -> Message:
    content = Content()
    _add_content(content, item, "content", path)
    content.add_rest(item, _OF_MESSAGE)
    return content.message(fields.string(item, "role", path))


def _other(item: Members, path: str) -> Message:
    """Return a call, its result, reasoning, or what nobody here knows."""
    content = Content()
    known = set(_OF_ITEM)
    if isinstance(item.get("output"), list):
        _add_content(content, item, "output", path)
        known.add("output")
    if item.get("type") == "function_call":
        content.add_text(fields.string(item, "name", path))
        content.add_json(item.get("arguments"))
        known |= {"name", "arguments"}
    if isinstance(item.get(_ENCRYPTED), str):
        content.add_encoded(item[_ENCRYPTED], MediaKind.FILE)
        known.add(_ENCRYPTED)
    content.add_rest(item, known, _READ)
    return content.message("tool")


def _add_content(content: Content, item: Members, name: str, path: str) -> None:
    found = fields.text_or_array(item, name, path)
    if isinstance(found, str):
        content.add_text(found)
        return
    for position, part in enumerate(found):
        if isinstance(part, dict):
            _add_part(content, part, f"{path}.{name}[{position}]")
        else:
            content.add_unknown(part)


def _add_part(content: Content, part: Members, path: str) -> None:
    match part.get("type"):
        case "input_text" | "output_text" | "text" | "summary_text":
            content.add_text(fields.string(part, "text", path))
        case "input_image" | "computer_screenshot":
            url = fields.string(part, "image_url", path)
            # A file that the provider keeps is an image of unknown size, as a URL is.
            content.add_url(url or "file", MediaKind.IMAGE, part.get("detail"))
        case "input_file":
            _add_file(content, part, path)
        case "input_audio":
            audio = fields.mapping(part, "input_audio", path)
            data = fields.string(audio, "data", f"{path}.input_audio")
            content.add_encoded(data, MediaKind.AUDIO)
        case _:
            content.add_unknown(part)


def _add_file(content: Content, part: Members, path: str) -> None:
    data = fields.string(part, "file_data", path)
    if data:
        content.add_encoded(data, MediaKind.FILE)
    else:
        content.add_url(fields.string(part, "file_url", path) or "file", MediaKind.FILE)
    content.add_text(fields.string(part, "filename", path))


def _tool(item: Members, path: str) -> Tool:
    return Tool(
        name=fields.string(item, "name", path) or fields.string(item, "type", path),
        description=fields.string(item, "description", path),
        parameters=fields.mapping(item, "parameters", path),
    )


def _formats(body: Members) -> Iterator[str]:
    form = fields.mapping(fields.mapping(body, "text"), "format", "text")
    for name, value in form.items():
        if name not in _OF_FORMAT and value is not None:
            yield json_of(value)


def _rest(body: Members, tools: list[tuple[str, Members]]) -> Iterator[Message]:
    """Yield what is left: a text without a role, that has no frame."""
    rest = Content()
    rest.add_rest(body, _OF_BODY)
    # The provider may leave out what stands at the beginning.
    is_cut = body.get("truncation") not in (None, "disabled")
    rest.is_guessed |= is_cut or body.get("context_management") is not None
    rest.add_rest(fields.mapping(body, "text"), _OF_TEXT)
    if isinstance(body.get("tool_choice"), dict):
        rest.add_rest(body["tool_choice"], _OF_CHOICE)
    for _, tool in tools:
        rest.add_rest(tool, _OF_TOOL)
    yield from rest.rest()


def _tool_choice(body: Members) -> str | None:
    choice = body.get("tool_choice")
    if choice == "none":
        return "none"
    name = choice.get("name") if isinstance(choice, dict) else None
    return name if isinstance(name, str) and name else None
