"""What a Converse request makes the model read: all of it, each part once."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tokenweir.core.dialects.base import Media, MediaKind, Tool
from tokenweir.core.dialects.bedrock_prompt import read_prompt
from tokenweir.core.errors import MalformedRequestError

PICTURE = b"\x89PNG and so on"
ENCODED = base64.b64encode(PICTURE).decode()


def texts(*blocks: dict[str, Any]) -> tuple[str, ...]:
    """Return the texts of a message of *blocks*."""
    [message] = read_prompt(
        {"messages": [{"role": "user", "content": [*blocks]}]}
    ).messages
    return message.texts


def media(*blocks: dict[str, Any]) -> tuple[Media, ...]:
    """Return what else is in a message of *blocks*."""
    [message] = read_prompt(
        {"messages": [{"role": "user", "content": [*blocks]}]}
    ).messages
    return message.media


def test_nothing() -> None:
    """A request without messages, such as for a stored prompt, has an empty prompt."""
    assert read_prompt({}) == read_prompt({"messages": [], "system": []})
    assert read_prompt({}).messages == ()


def test_system_and_roles() -> None:
    """The system prompt is a message of its own; points of a cache are none."""
    prompt = read_prompt(
        {
            "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
            "messages": [
                {"role": "user", "content": [{"text": "Hi"}]},
                {"role": "assistant", "content": [{"text": "Hello"}]},
            ],
        }
    )

    assert [(each.role, each.texts) for each in prompt.messages] == [
        ("system", ("Be brief.",)),
        ("user", ("Hi",)),
        ("assistant", ("Hello",)),
    ]


def test_a_guarded_system_prompt() -> None:
    """What a guardrail is to look at is read by the model as well."""
    prompt = read_prompt({"system": [{"guardContent": {"text": {"text": "Mind."}}}]})

    assert "Mind." in prompt.messages[0].texts


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("image", MediaKind.IMAGE),
        ("audio", MediaKind.AUDIO),
        ("video", MediaKind.FILE),
        ("document", MediaKind.FILE),
    ],
)
def test_media(name: str, kind: MediaKind) -> None:
    """Bytes are looked at, whatever they are of; what is in S3 is never fetched."""
    held = {"format": "x", "source": {"bytes": ENCODED}}
    stored = {"format": "x", "source": {"s3Location": {"uri": "s3://bucket/a"}}}

    assert media({name: held}) == (Media(kind, PICTURE, len(PICTURE)),)
    assert media({name: stored}) == (Media(kind),)
    assert texts({name: held}) == ()


def test_documents() -> None:
    """A document's name and text are read, be it one text or many."""
    inner = {"text": "All of it."}
    many = {"content": [{"text": "Part one."}, {"text": "Part two."}]}
    named = {"format": "txt", "name": "Report", "context": "Of May."}

    assert set(texts({"document": named | {"source": inner}})) == {
        "Report",
        "Of May.",
        "All of it.",
    }
    assert texts({"document": {"source": many}}) == ("Part one.", "Part two.")
    assert texts({"document": {"source": {"newWay": "Said."}}}) == ("Said.",)


def test_tools_that_were_called() -> None:
    """Calls and what came back are read: names, arguments, texts, pictures."""
    call = {"toolUseId": "t1", "name": "look", "input": {"at": "sky"}}
    result = {
        "toolUseId": "t1",
        "status": "success",
        "content": [
            {"json": {"seen": "stars"}},
            {"text": "Many."},
            {"image": {"format": "png", "source": {"bytes": ENCODED}}},
        ],
    }

    assert texts({"toolUse": call}) == ("look", '{"at":"sky"}')
    assert texts({"toolResult": result}) == ('{"seen":"stars"}', "Many.")
    assert media({"toolResult": result}) == (
        Media(MediaKind.IMAGE, PICTURE, len(PICTURE)),
    )


def test_what_is_unknown_counts() -> None:
    """A new member, wherever it is, is no free prompt."""
    assert "Deep." in texts({"reasoningContent": {"reasoningText": {"text": "Deep."}}})
    assert "New." in texts({"newBlock": {"text": "New."}})
    assert "New." in texts({"toolUse": {"name": "a", "extra": "New."}})
    assert "New." in texts({"toolResult": {"content": [], "extra": "New."}})
    prompt = read_prompt(
        {
            "promptVariables": {"who": {"text": "Ada"}},
            "additionalModelRequestFields": {
                "top_k": 5,
                "thinking": {"type": "enabled"},
                "system": "Hidden.",
            },
            "toolConfig": {
                "tools": [
                    {"systemTool": {"name": "search"}},
                    {"toolSpec": {"name": "a", "extra": "More."}},
                ],
                "extra": "Most.",
            },
        }
    )

    [rest] = prompt.messages
    assert {"Ada", "Hidden.", "search", "More.", "Most."} <= set(rest.texts)
    assert "enabled" not in rest.texts


def test_what_the_model_does_not_read() -> None:
    """Settings are no prompt."""
    prompt = read_prompt(
        {
            "inferenceConfig": {"stopSequences": ["stop"]},
            "guardrailConfig": {"guardrailIdentifier": "g"},
            "requestMetadata": {"team": "a"},
            "performanceConfig": {"latency": "standard"},
            "serviceTier": {"type": "default"},
            "additionalModelResponseFieldPaths": ["/stop"],
        }
    )

    assert prompt.messages == ()


def test_tools() -> None:
    """Tools are read with their schemas; points of a cache between them are none."""
    schema = {"type": "object"}
    spec = {"name": "look", "description": "Looks.", "inputSchema": {"json": schema}}
    config = {
        "tools": [
            {"toolSpec": spec},
            {"cachePoint": {"type": "default"}},
            {"toolSpec": {"name": "bare", "inputSchema": {"json": 1}}},
        ],
        "toolChoice": {"tool": {"name": "look"}},
    }
    prompt = read_prompt({"toolConfig": config})

    assert prompt.tools == (Tool("look", "Looks.", schema), Tool("bare"))
    assert prompt.tool_choice == "look"


@pytest.mark.parametrize(
    "choice", [None, "auto", {"auto": {}}, {"tool": 1}, {"tool": {}}]
)
def test_no_tool_is_forced(choice: object) -> None:
    """Other choices force none."""
    prompt = read_prompt({"toolConfig": {"tools": [], "toolChoice": choice}})

    assert prompt.tool_choice is None


def test_a_schema_of_the_answer() -> None:
    """The form that an answer is to have is read, with its name."""
    form = {"schema": '{"type":"object"}', "name": "Answer"}
    config = {"textFormat": {"structure": {"jsonSchema": form}}}

    assert read_prompt({"outputConfig": config}).extra_texts == (
        '{"type":"object"}',
        "Answer",
    )


@pytest.mark.parametrize(
    "content",
    [
        [1],
        [{"text": 1}],
        [{"image": []}],
        [{"image": {"source": []}}],
        [{"image": {"source": {"bytes": 1}}}],
        [{"toolUse": "x"}],
        [{"toolResult": {"content": "x"}}],
        "text",
    ],
)
def test_wrong_types(content: object) -> None:
    """What is counted must be what it is called."""
    with pytest.raises(MalformedRequestError):
        read_prompt({"messages": [{"role": "user", "content": content}]})
