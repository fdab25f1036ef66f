"""Everything that an Anthropic request makes the model read is found."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tokenweir.core.dialects.anthropic_prompt import read_prompt
from tokenweir.core.dialects.base import Media, MediaKind, Message, Tool
from tokenweir.core.errors import MalformedRequestError

ABC = base64.b64encode(b"abc").decode()
IMAGE = {"type": "base64", "media_type": "image/png", "data": ABC}


def message_of(content: object) -> Message:
    """Return the message that *content* is read as."""
    (message,) = read_prompt(
        {"messages": [{"role": "user", "content": content}]}
    ).messages
    return message


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("a", ("a",)),
        ("", ()),
        (None, ()),
        ([], ()),
        ([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}], ("a",)),
        ([{"type": "thinking", "thinking": "hm", "signature": "xxx"}], ("hm",)),
        ([{"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}}], ("f", '{"a":1}')),
        ([{"type": "server_tool_use", "name": "f", "input": None}], ("f",)),
        ([{"type": "tool_result", "tool_use_id": "x", "content": "a"}], ("a",)),
        ([{"type": "tool_result", "tool_use_id": "x"}], ()),
        (
            [{"type": "tool_result", "content": [{"type": "text", "text": "a"}, {"type": "tool_result", "content": "b"}]}],
            ("a", "b"),
        ),
        ([{"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "a"}]}], ("s", "t", "a")),
        ([{"type": "document", "title": "t", "context": "c", "source": {"type": "text", "data": "a"}}], ("t", "c", "a")),
        ([{"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}]}}], ("a",)),
        ([{"type": "document", "source": {"type": "content", "content": "a"}}], ("a",)),
        ([{"text": "a"}], ("a",)),
    ],
)  # fmt: skip
def test_texts(content: object, texts: tuple[str, ...]) -> None:
    """Every block that bears text counts, nested ones too (T29)."""
    assert message_of(content) == Message("user", texts)


@pytest.mark.parametrize(
    ("block", "media"),
    [
        ({"type": "image", "source": IMAGE}, Media(MediaKind.IMAGE, b"abc", 3)),
        ({"type": "image", "source": {"type": "url", "url": "https://x.org/y.png"}}, Media(MediaKind.IMAGE)),
        ({"type": "image", "source": {"type": "file", "file_id": "x"}}, Media(MediaKind.IMAGE)),
        ({"type": "image"}, Media(MediaKind.IMAGE)),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": ABC}}, Media(MediaKind.FILE, b"abc", 3)),
        ({"type": "document", "source": {"type": "url", "url": "https://x.org/y.pdf"}}, Media(MediaKind.FILE)),
        ({"type": "tool_result", "content": [{"type": "image", "source": IMAGE}]}, Media(MediaKind.IMAGE, b"abc", 3)),
        ({"type": "redacted_thinking", "data": ABC}, Media(MediaKind.FILE, b"abc", 3)),
        ({"type": "web_search_tool_result", "content": [{"encrypted_content": ABC}]}, Media(MediaKind.FILE, b"abc", 3)),
    ],
)  # fmt: skip
def test_media(block: dict[str, Any], media: Media) -> None:
    """Blocks that are no text are media, and their base64 is no text (T28)."""
    assert message_of([block]) == Message("user", (), None, (media,))


@pytest.mark.parametrize(
    ("system", "messages"),
    [
        (None, ()),
        ("a", (Message("system", ("a",)),)),
        ("", (Message("system"),)),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], (Message("system", ("a", "b")),)),
    ],
)  # fmt: skip
def test_system(system: object, messages: tuple[Message, ...]) -> None:
    """The system prompt comes first."""
    body = {"system": system, "messages": [{"role": "user", "content": "hi"}]}

    assert read_prompt(body).messages == (*messages, Message("user", ("hi",)))


def test_tools() -> None:
    """Tools have their schema; those of the server have a name only."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    prompt = read_prompt(
        {
            "messages": [],
            "tools": [
                {"name": "f", "description": "does", "input_schema": schema},
                {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
                {"type": "new_thing"},
            ],
        }
    )

    assert prompt.tools == (
        Tool("f", "does", schema),
        Tool("web_search"),
        Tool("new_thing"),
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ({"type": "auto"}, None),
        ({"type": "any"}, None),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, "f"),
        ({"type": "tool", "name": 5}, None),
        ("auto", None),
    ],
)
def test_tool_choice(choice: object, expected: str | None) -> None:
    """A choice that adds to the prompt is known."""
    assert read_prompt({"messages": [], "tool_choice": choice}).tool_choice == expected


@pytest.mark.parametrize(
    ("members", "texts"),
    [
        ({}, ()),
        ({"output_format": {"type": "json_schema", "schema": {"a": 1}}}, ('{"a":1}',)),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"a": 1}}}}, ('{"a":1}',)),
        ({"output_config": {"effort": "low", "format": None}}, ()),
        ({"output_format": {"type": "json_schema"}}, ()),
        ({"output_format": "json"}, ()),
    ],
)  # fmt: skip
def test_schemas(members: dict[str, Any], texts: tuple[str, ...]) -> None:
    """The schema of the answer is read by the model, wherever it stands."""
    assert read_prompt({"messages": []} | members).extra_texts == texts


@pytest.mark.parametrize(
    ("members", "texts"),
    [
        ({}, ()),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}, "metadata": {"user_id": "a"}}, ()),
        ({"stop_sequences": ["a"], "service_tier": "auto", "temperature": 1}, ()),
        ({"mcp_servers": [{"type": "url", "name": "a", "authorization_token": "t"}]}, ("mcp_servers", "name", "a")),
        ({"context_management": {"edits": [{"instructions": "a"}]}}, ("context_management", "edits", "instructions", "a")),
        ({"container": {"id": "c", "skills": [{"skill_id": "a"}]}}, ("container", "skills", "skill_id", "a")),
        ({"tools": [{"name": "f", "input_examples": [{"x": "a"}]}]}, ("input_examples", "x", "a")),
        ({"tools": [{"type": "web_search_20250305", "name": "w", "allowed_domains": ["a"]}]}, ("allowed_domains", "a")),
        ({"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}}}, ()),
        ({"output_config": {"notes": "a"}}, ("a",)),
        ({"output_format": {"type": "json_schema", "name": "a"}}, ("a",)),
    ],
)  # fmt: skip
def test_rest(members: dict[str, Any], texts: tuple[str, ...]) -> None:
    """What nobody here knows is not free, wherever it stands; settings are (T29)."""
    messages = read_prompt({"messages": []} | members).messages

    assert all(message.role == "" for message in messages)
    assert tuple(text for message in messages for text in message.texts) == texts


def test_rest_of_a_message() -> None:
    """The same goes for members of messages."""
    turn = {"role": "user", "id": "m", "content": "a", "notes": "b"}

    assert read_prompt({"messages": [turn]}).messages == (Message("user", ("a", "b")),)


def test_media_in_the_rest() -> None:
    """Base64 is no text there either."""
    url = f"data:image/png;base64,{ABC}"
    (message,) = read_prompt({"messages": [], "pictures": [url]}).messages

    assert message.media == (Media(MediaKind.FILE, b"abc", 3),)


def test_citations_are_free() -> None:
    """What is cited is sent back with the text, and Anthropic charges nothing for it."""
    citation = {"type": "char_location", "cited_text": "b" * 500, "document_title": "c"}
    block = {"type": "text", "text": "a", "citations": [citation]}

    assert message_of([block]).texts == ("a",)


@pytest.mark.parametrize(
    ("content", "param"),
    [
        (5, ""),
        ({"type": "text"}, ""),
        (["a"], "[0]"),
        ([{"type": "text", "text": 5}], "[0].text"),
        ([{"type": "thinking", "thinking": []}], "[0].thinking"),
        ([{"type": "tool_use", "name": 5}], "[0].name"),
        ([{"type": "tool_result", "content": 5}], "[0].content"),
        ([{"type": "tool_result", "content": [{"type": "text", "text": 5}]}], "[0].content[0].text"),
        ([{"type": "image", "source": "x"}], "[0].source"),
        ([{"type": "image", "source": {"type": "base64", "data": 5}}], "[0].source.data"),
        ([{"type": "image", "source": {"type": "url", "url": 5}}], "[0].source.url"),
        ([{"type": "document", "title": 5}], "[0].title"),
        ([{"type": "document", "source": {"type": "text", "data": 5}}], "[0].source.data"),
        ([{"type": "document", "source": {"type": "content", "content": 5}}], "[0].source.content"),
    ],
)  # fmt: skip
def test_wrong_content(content: object, param: str) -> None:
    """The client is told which block has the wrong type."""
    with pytest.raises(MalformedRequestError) as caught:
        message_of(content)

    assert caught.value.param == "messages[0].content" + param


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": [{"content": "a"}]}, "messages[0].role"),
        ({"system": 5}, "system"),
        ({"system": [{"type": "text", "text": 5}]}, "system[0].text"),
        ({"tools": "f"}, "tools"),
        ({"tools": [{"name": "f", "input_schema": []}]}, "tools[0].input_schema"),
        ({"output_config": "x"}, "output_config"),
    ],
)
def test_wrong_body(members: dict[str, Any], param: str) -> None:
    """The client is told which member has the wrong type."""
    with pytest.raises(MalformedRequestError) as caught:
        read_prompt({"messages": []} | members)

    assert caught.value.param == param


def test_deepest_nesting() -> None:
    """Results inside of results are followed as deep as the parser lets them be."""
    content: object = "a"
    for _ in range(64):
        content = [{"type": "tool_result", "content": content}]

    assert message_of(content).texts == ("a",)


def test_earlier_thinking_may_be_left_out() -> None:
    """It is counted, and no measure."""
    thinking = {"type": "thinking", "thinking": "hm"}

    assert message_of([thinking, {"type": "text", "text": "a"}]).is_guessed
    assert not message_of([{"type": "text", "text": "a"}]).is_guessed
