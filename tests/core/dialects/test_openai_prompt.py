"""Everything that an OpenAI chat request makes the model read is found."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tokenweir.core.dialects.base import Media, MediaKind, Message, Tool
from tokenweir.core.dialects.openai_prompt import read_prompt
from tokenweir.core.errors import MalformedRequestError

ABC = base64.b64encode(b"abc").decode()
DATA_URL = f"data:image/png;base64,{ABC}"


def message_of(**members: Any) -> Message:
    """Return the message that *members* are read as; of a user if not said."""
    body = {"messages": [{"role": "user"} | members]}
    (message,) = read_prompt(body).messages
    return message


@pytest.mark.parametrize(
    ("members", "texts"),
    [
        ({"content": "a"}, ("a",)),
        ({"content": ""}, ()),
        ({"content": None}, ()),
        ({}, ()),
        ({"content": []}, ()),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, ("a", "b")),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, ("no",)),
        ({"content": ["a", 5, None]}, ("a",)),
        ({"content": [{"type": "input_text", "text": "a"}]}, ("a",)),
        ({"content": [{"text": "a"}]}, ("a",)),
        ({"content": None, "refusal": "no"}, ("no",)),
        ({"content": "a", "reasoning_content": "b"}, ("a", "b")),
        ({"content": "a", "reasoning": "b"}, ("a", "b")),
        ({"content": "a", "reasoning": ["b"]}, ("a", '["b"]')),
        (
            {
                "content": None,
                "tool_calls": [
                    {"id": "x", "function": {"name": "f", "arguments": '{"a":1}'}},
                    {"id": "y", "function": {"name": "g", "arguments": {"a": 1}}},
                    {"type": "custom", "custom": {"name": "h", "input": "x"}},
                    {"function": None},
                ],
            },
            ("f", '{"a":1}', "g", '{"a":1}', "h", "x"),
        ),
        ({"tool_calls": None}, ()),
        ({"function_call": {"name": "f", "arguments": "{}"}}, ("f", "{}")),
        ({"function_call": None}, ()),
    ],
)  # fmt: skip
def test_texts(members: dict[str, Any], texts: tuple[str, ...]) -> None:
    """Every part that bears text counts, content or not (T29)."""
    assert message_of(**members).texts == texts


@pytest.mark.parametrize(
    "role", ["system", "developer", "tool", "function", "assistant"]
)
def test_roles_and_names(role: str) -> None:
    """Roles and names are what the request says."""
    message = message_of(role=role, name="bob", content="a")

    assert message == Message(role, ("a",), "bob")
    assert message_of(content="a", name=None).name is None
    assert message_of(content="a", name="").name is None


def test_calls_of_tools_are_counted() -> None:
    """Parallel ones each, the old spelling too: there is something around every one."""
    call = {"function": {"name": "f", "arguments": "{}"}}

    assert message_of(content="a").calls == 0
    assert message_of(content=None, tool_calls=[call, call]).calls == 2
    assert message_of(content=None, function_call=call["function"]).calls == 1


@pytest.mark.parametrize(
    ("part", "media"),
    [
        ({"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}}, Media(MediaKind.IMAGE, b"abc", 3, "low")),
        ({"type": "image_url", "image_url": {"url": "https://x.org/y.png"}}, Media(MediaKind.IMAGE)),
        ({"type": "image_url", "image_url": DATA_URL}, Media(MediaKind.IMAGE, b"abc", 3)),
        ({"type": "image_url", "image_url": None}, Media(MediaKind.IMAGE)),
        ({"type": "input_image", "image_url": DATA_URL, "detail": "high"}, Media(MediaKind.IMAGE, b"abc", 3, "high")),
        ({"type": "input_audio", "input_audio": {"data": ABC, "format": "wav"}}, Media(MediaKind.AUDIO, b"abc", 3)),
        ({"type": "audio_url", "audio_url": {"url": "https://x.org/y.mp3"}}, Media(MediaKind.AUDIO)),
        ({"type": "video_url", "video_url": {"url": "https://x.org/y.mp4"}}, Media(MediaKind.VIDEO)),
        ({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{ABC}", "filename": "x.pdf"}}, Media(MediaKind.FILE, b"abc", 3)),
        ({"type": "file", "file": {"file_id": "file-1"}}, Media(MediaKind.FILE)),
        ({"type": "new_thing", "thing": DATA_URL}, Media(MediaKind.FILE, b"abc", 3)),
    ],
)  # fmt: skip
def test_media(part: dict[str, Any], media: Media) -> None:
    """Parts that are no text are media, and their base64 is no text (T28)."""
    message = message_of(content=[part, {"type": "text", "text": "what is it"}])

    assert message.media == (media,)
    assert message.texts == ("what is it",)


def test_large_media_are_not_text() -> None:
    """Two megabytes of base64 leave nothing to be counted as text."""
    url = "data:image/png;base64," + "A" * 2_000_000
    message = message_of(content=[{"type": "image_url", "image_url": {"url": url}}])

    assert message.texts == ()
    assert message.media[0].size_bytes == 1_500_000


def test_tools() -> None:
    """Definitions of all ages and kinds are tools."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    function = {
        "name": "f",
        "description": "does",
        "parameters": schema,
        "strict": True,
    }
    prompt = read_prompt(
        {
            "messages": [],
            "tools": [
                {"type": "function", "function": function},
                {"type": "function", "function": {"name": "g"}},
                {
                    "type": "custom",
                    "custom": {"name": "h", "format": {"definition": "x: y"}},
                },
                {"type": "web_search"},
            ],
            "functions": [function | {"name": "old"}],
        }
    )

    assert prompt.tools == (
        Tool("f", "does", schema),
        Tool("g"),
        Tool("h"),
        Tool("web_search"),
        Tool("old", "does", schema),
    )
    assert prompt.extra_texts == ('{"definition":"x: y"}',)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, None),
        ({"tool_choice": None}, None),
        ({"tool_choice": "auto"}, None),
        ({"tool_choice": "required"}, None),
        ({"tool_choice": "none"}, "none"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "f"),
        ({"tool_choice": {"type": "custom", "custom": {"name": "f"}}}, "f"),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, None),
        ({"tool_choice": {"function": "odd"}}, None),
        ({"tool_choice": {"function": {"name": 5}}}, None),
        ({"tool_choice": 5}, None),
        ({"function_call": "none"}, "none"),
        ({"function_call": "auto"}, None),
        ({"function_call": {"name": "f"}}, "f"),
    ],
)  # fmt: skip
def test_tool_choice(choice: dict[str, Any], expected: str | None) -> None:
    """A choice that adds to the prompt is known, in its old spelling too."""
    assert read_prompt({"messages": []} | choice).tool_choice == expected


def rest_of(**members: Any) -> tuple[str, ...]:
    """Return what is read of *members* beside the messages, tools and schemas."""
    messages = read_prompt({"messages": []} | members).messages
    assert all(message.role == "" for message in messages)
    return tuple(text for message in messages for text in message.texts)


@pytest.mark.parametrize(
    ("members", "texts"),
    [
        ({}, ()),
        ({"prediction": None}, ()),
        ({"prediction": {"type": "content", "content": "a"}}, ("prediction", "content", "a")),
        (
            {"prediction": {"type": "content", "content": [{"type": "text", "text": "a"}]}},
            ("prediction", "content", "text", "a"),
        ),
        ({"documents": ["a"]}, ("documents", "a")),
        ({"chat_template": "a"}, ("a",)),
        ({"guided_json": {"properties": {"gauge": {}}}}, ("guided_json", "properties", "gauge")),
        ({"web_search_options": {"user_location": {"city": "a"}}}, ("user_location", "city", "a")),
        ({"web_search_options": {"search_context_size": "low", "b": "a"}}, ("a",)),
        ({"temperature": 1, "stop": ["a"], "user": "a", "metadata": {"a": "b"}, "seed": 5}, ()),
        ({"tool_choice": "auto", "function_call": None}, ()),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, ()),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "a"}}}, ("allowed_tools", "mode", "a")),
        ({"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}, ()),
        ({"tools": [{"type": "function", "function": {"name": "f", "examples": "a"}}]}, ("a",)),
        ({"tools": [{"type": "function", "function": {"name": "f"}, "notes": "a"}]}, ("a",)),
        ({"tools": [{"type": "mcp", "server_description": "a"}]}, ("a",)),
        ({"functions": [{"name": "f", "notes": "a"}]}, ("a",)),
    ],
)  # fmt: skip
def test_rest(members: dict[str, Any], texts: tuple[str, ...]) -> None:
    """What nobody here knows is not free, wherever it stands; settings are (T29)."""
    assert rest_of(**members) == texts


def test_media_in_the_rest() -> None:
    """Base64 is no text there either."""
    (message,) = read_prompt({"messages": [], "pictures": [DATA_URL]}).messages

    assert message.media == (Media(MediaKind.FILE, b"abc", 3),)


@pytest.mark.parametrize(
    ("members", "texts"),
    [
        ({"reasoning_details": [{"type": "reasoning.text", "text": "a"}]}, ("reasoning_details", "text", "a")),
        ({"tool_calls": [{"id": "c", "type": "mcp", "mcp": {"input": "a"}}]}, ("mcp", "input", "a")),
        ({"tool_call_id": "c", "audio": {"id": "a"}, "refusal": None}, ()),
    ],
)  # fmt: skip
def test_rest_of_a_message(members: dict[str, Any], texts: tuple[str, ...]) -> None:
    """The same goes for members of messages and of calls."""
    assert message_of(**members).texts == texts


@pytest.mark.parametrize(
    ("response_format", "texts"),
    [
        (None, ()),
        ({"type": "json_object"}, ()),
        ({"type": "json_schema", "json_schema": None}, ()),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"a": 1}}},
            ('{"name":"x","schema":{"a":1}}',),
        ),
        ({"type": "json_object", "schema": {"a": 1}}, ('{"a":1}',)),
        ({"type": "grammar", "grammar": "a: b"}, ('"a: b"',)),
    ],
)
def test_response_schema(response_format: object, texts: tuple[str, ...]) -> None:
    """The schema of the answer is read by the model."""
    body = {"messages": [], "response_format": response_format}

    assert read_prompt(body).extra_texts == texts


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"content": 5}, "messages[0].content"),
        ({"content": {"text": "a"}}, "messages[0].content"),
        ({"content": [{"type": "text", "text": 5}]}, "messages[0].content[0].text"),
        ({"content": ["a", {"type": "text", "text": ["b"]}]}, "messages[0].content[1].text"),
        ({"content": [{"type": "image_url", "image_url": 5}]}, "messages[0].content[0].image_url"),
        ({"content": [{"type": "image_url", "image_url": {"url": 5}}]}, "messages[0].content[0].image_url.url"),
        ({"content": [{"type": "input_audio", "input_audio": "x"}]}, "messages[0].content[0].input_audio"),
        ({"content": [{"type": "file", "file": {"file_data": 5}}]}, "messages[0].content[0].file.file_data"),
        ({"name": 5}, "messages[0].name"),
        ({"refusal": 5}, "messages[0].refusal"),
        ({"tool_calls": "f"}, "messages[0].tool_calls"),
        ({"tool_calls": ["f"]}, "messages[0].tool_calls[0]"),
        ({"tool_calls": [{"function": "f"}]}, "messages[0].tool_calls[0].function"),
        ({"tool_calls": [{"function": {"name": 5}}]}, "messages[0].tool_calls[0].function.name"),
        ({"function_call": {"name": 5}}, "messages[0].function_call.name"),
    ],
)  # fmt: skip
def test_wrong_message(members: dict[str, Any], param: str) -> None:
    """The client is told which part of a message has the wrong type."""
    with pytest.raises(MalformedRequestError) as caught:
        message_of(**members)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"messages": "x"}, "messages"),
        ({"tools": {}}, "tools"),
        ({"tools": ["f"]}, "tools[0]"),
        ({"tools": [{"function": "f"}]}, "tools[0].function"),
        ({"tools": [{"function": {"name": 5}}]}, "tools[0].function.name"),
        ({"tools": [{"function": {"name": "f", "parameters": "x"}}]}, "tools[0].function.parameters"),
        ({"tools": [{"custom": {"name": "f", "description": 5}}]}, "tools[0].custom.description"),
        ({"functions": [{"name": 5}]}, "functions[0].name"),
        ({"response_format": "json"}, "response_format"),
    ],
)  # fmt: skip
def test_wrong_body(members: dict[str, Any], param: str) -> None:
    """The client is told which member has the wrong type."""
    with pytest.raises(MalformedRequestError) as caught:
        read_prompt({"messages": []} | members)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("members", "is_guessed"),
    [
        ({"content": "a", "reasoning_content": "b"}, True),
        ({"content": "a", "refusal": "b"}, True),
        ({"content": "a", "x_pad": "b"}, True),
        ({"content": "a", "reasoning": None, "name": "n"}, False),
        ({"content": "a"}, False),
    ],
)
def test_what_templates_may_leave_out(
    members: dict[str, Any], is_guessed: bool
) -> None:
    """Earlier reasoning and what nobody knows are counted, and no measure."""
    assert message_of(**members).is_guessed is is_guessed
