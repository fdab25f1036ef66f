"""What a Gemini request makes the model read."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.core.dialects.base import Media, MediaKind, Message, Prompt, Tool
from tokenweir.core.dialects.gemini_prompt import either, generation_config, read_prompt
from tokenweir.core.errors import MalformedRequestError


def test_texts() -> None:
    """Contents and the system's instruction are messages; roles are as written."""
    body = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}, {"text": "there"}]},
            {"role": "model", "parts": [{"text": "Well", "thought": True}]},
        ],
    }

    assert read_prompt(body) == Prompt(
        (
            Message("user", ("Hi", "there")),
            Message("model", ("Well",)),
            Message("", ("Be brief.",)),
        )
    )


@pytest.mark.parametrize(
    "body",
    [
        {"contents": {"parts": {"text": "Hi"}}},
        {"contents": "Hi"},
        {"content": {"parts": [{"text": "Hi"}]}},
        {"requests": [{"model": "m", "content": {"parts": [{"text": "Hi"}]}}]},
        {"system_instruction": "Hi"},
    ],
)
def test_forms(body: dict[str, Any]) -> None:
    """One object may stand for a list of it, and what is embedded counts as well."""
    assert read_prompt(body) == Prompt((Message("", ("Hi",)),))


def test_media() -> None:
    """What is inside is looked at; what Google keeps is of unknown size."""
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"inline_data": {"mime_type": "audio/wav", "data": "AAAA"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://a/f"}},
        {"file_data": {"file_uri": "https://a/f"}},
    ]
    [message] = read_prompt({"contents": [{"parts": parts}]}).messages

    assert message.texts == ()
    assert message.media == (
        Media(MediaKind.IMAGE, b"\0\0\0", 3),
        Media(MediaKind.AUDIO, b"\0\0\0", 3),
        Media(MediaKind.FILE),
        Media(MediaKind.FILE),
    )


def test_media_have_the_resolution_that_is_asked_for() -> None:
    """Of the part itself, else that of the request; its kind is told by its type."""
    png = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    film = {"fileData": {"mimeType": "video/mp4", "fileUri": "files/x"}}
    level = {"level": "MEDIA_RESOLUTION_HIGH"}
    body = {
        "contents": [{"parts": [png, {**png, "mediaResolution": level}, film]}],
        "generationConfig": {"mediaResolution": "MEDIA_RESOLUTION_LOW"},
    }

    (message,) = read_prompt(body).messages

    assert [(media.kind, media.detail) for media in message.media] == [
        (MediaKind.IMAGE, "MEDIA_RESOLUTION_LOW"),
        (MediaKind.IMAGE, "MEDIA_RESOLUTION_HIGH"),
        (MediaKind.VIDEO, "MEDIA_RESOLUTION_LOW"),
    ]
    assert message.texts == ()


def test_calls_and_their_results() -> None:
    """Functions' calls and results are read, names included."""
    parts = [
        {"functionCall": {"name": "f", "args": {"city": "Tokyo"}}},
        {"functionResponse": {"name": "f", "response": {"sky": "blue"}}},
    ]
    [message] = read_prompt({"contents": [{"parts": parts}]}).messages

    assert {"f", "Tokyo", "blue", "city", "sky"} <= set(message.texts)


@pytest.mark.parametrize("name", ["functionDeclarations", "function_declarations"])
def test_tools(name: str) -> None:
    """Functions are tools, in both spellings; a schema may be of either kind."""
    tools = [
        {name: [{"name": "f", "description": "d", "parameters": {"type": "OBJECT"}}]},
        {name: [{"name": "g", "parametersJsonSchema": []}]},
        {"googleSearch": {}},
    ]

    assert read_prompt({"tools": tools}).tools == (
        Tool("f", "d", {"type": "OBJECT"}),
        Tool("g"),
    )


def test_rest() -> None:
    """Schemas count; so does what nobody here knows, wherever it stands."""
    prompt = read_prompt(
        {
            "generationConfig": {"responseSchema": {"type": "STRING"}, "topK": 5},
            "newMember": "text",
            "safetySettings": [{"category": "x"}],
            "contents": [{"parts": [{"text": "a"}], "extra": "b"}],
            "requests": [{"other": "c"}],
        }
    )

    assert prompt.extra_texts == ('{"type":"STRING"}',)
    assert prompt.messages == (Message("", ("a", "b")), Message("", ("text", "c")))


@pytest.mark.parametrize(
    "body",
    [
        {"contents": 5},
        {"contents": [{"parts": 5}]},
        {"contents": [{"parts": [{"text": 5}]}]},
        {"generationConfig": "x"},
        {"tools": [{"functionDeclarations": [5]}]},
    ],
)
def test_malformed(body: dict[str, Any]) -> None:
    """A part that is counted must have its type."""
    with pytest.raises(MalformedRequestError):
        read_prompt(body)


def test_either() -> None:
    """The first that is there counts; null is absent."""
    assert either({"a": None, "b": 0}, "a", "b") == 0
    assert either({}, "a") is None
    assert generation_config({"generation_config": {"a": 1}}) == {"a": 1}
    assert generation_config({"generationConfig": None}) == {}


@pytest.mark.parametrize(
    ("part", "is_guessed"),
    [
        ({"text": "Hi"}, False),
        ({"text": "Well", "thought": True}, True),
        ({"functionCall": {"name": "f", "args": {"a": "b"}}}, False),
        ({"new": "words"}, True),
    ],
)
def test_what_may_be_left_out(part: dict[str, Any], is_guessed: bool) -> None:
    """Thoughts, and what nobody here knows; calls are read."""
    [message] = read_prompt({"contents": {"parts": [part]}}).messages

    assert message.is_guessed is is_guessed
