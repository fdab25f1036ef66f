"""Everything that a model reads for a response is counted, nothing twice."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.dialects.base import Media, MediaKind, Message, Prompt, Tool
from tokenweir.core.dialects.responses_prompt import read_prompt
from tokenweir.core.errors import MalformedRequestError

PNG = base64.b64encode(b"\x89PNG" * 10).decode()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "output", "text", "image_url"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def texts(**members: Any) -> list[tuple[str, ...]]:
    """Return the texts of each message of a request."""
    return [message.texts for message in read_prompt(members).messages]


def of_item(**item: Any) -> Message:
    """Return what an *item* of the input is read as."""
    [message] = read_prompt({"input": [item]}).messages
    return message


def of_part(**part: Any) -> Message:
    """Return what a *part* of a message is read as."""
    return of_item(role="user", content=[part])


def test_texts() -> None:
    """Input and instructions may be plain texts."""
    assert read_prompt({"input": "Hi", "instructions": "Be brief."}) == Prompt(
        (Message("system", ("Be brief.",)), Message("user", ("Hi",)))
    )
    assert read_prompt({"input": "Hi", "instructions": None}).messages == (
        Message("user", ("Hi",)),
    )
    assert read_prompt({}).messages == (Message("user", ("",)),)


def test_instructions_as_items() -> None:
    """Instructions may be a list of items as well."""
    item = {"role": "developer", "content": "Be brief."}

    assert read_prompt({"instructions": [item], "input": []}).messages == (
        Message("developer", ("Be brief.",)),
    )


def test_messages() -> None:
    """A message has a role, and a text or parts."""
    message = of_item(
        type="message",
        role="assistant",
        id="msg_1",
        status="completed",
        content=[
            {"type": "output_text", "text": "Hi", "annotations": []},
            {"type": "refusal", "refusal": "No"},
            "loose",
        ],
    )

    assert message == Message("assistant", ("Hi", "No", "loose"))
    assert of_item(role="user", content="Hi") == Message("user", ("Hi",))


@pytest.mark.parametrize(
    ("part", "media"),
    [
        ({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"}, Media(MediaKind.IMAGE, b"\x89PNG" * 10, 40, "low")),
        ({"type": "input_image", "image_url": "https://127.0.0.1/a.png"}, Media(MediaKind.IMAGE)),
        ({"type": "input_image", "file_id": "file-1"}, Media(MediaKind.IMAGE)),
        ({"type": "input_file", "file_id": "file-1"}, Media(MediaKind.FILE)),
        ({"type": "input_file", "file_url": "https://127.0.0.1/a.pdf"}, Media(MediaKind.FILE)),
        ({"type": "input_file", "file_data": PNG}, Media(MediaKind.FILE, b"\x89PNG" * 10, 40)),
        ({"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}, Media(MediaKind.AUDIO, b"\x89PNG" * 10, 40)),
    ],
)  # fmt: skip
def test_media(part: dict[str, Any], media: Media) -> None:
    """Media are looked into, and never counted as text (T28)."""
    assert of_part(**part) == Message("user", (), media=(media,))


def test_a_files_name() -> None:
    """The model reads a file's name."""
    assert of_part(type="input_file", file_id="f", filename="a.pdf").texts == ("a.pdf",)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": '{"a":1}', "status": "completed"}, ("f", '{"a":1}')),
        ({"type": "function_call_output", "call_id": "c", "output": "sunny"}, ("sunny",)),
        ({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "sunny"}]}, ("sunny",)),
        ({"type": "custom_tool_call", "call_id": "c", "name": "g", "input": "x"}, ("g", "x")),
        ({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}]}, ("Hm.",)),
        ({"type": "item_reference", "id": "msg_1"}, ()),
        ({"type": "unheard_of", "words": ["a", {"b": "c"}]}, ("words", "a", "b", "c")),
    ],
)  # fmt: skip
def test_other_items(item: dict[str, Any], expected: tuple[str, ...]) -> None:
    """Calls, their results and reasoning are read; so is what nobody here knows."""
    message = of_item(**item)

    assert message.role == "tool"
    assert set(expected) <= set(message.texts)


def test_encrypted_reasoning() -> None:
    """Reasoning that is sent back encrypted counts by its size."""
    message = of_item(type="reasoning", id="rs", summary=[], encrypted_content=PNG)

    assert message.media == (Media(MediaKind.FILE, b"\x89PNG" * 10, 40),)


def test_pictures_of_a_screen() -> None:
    """The result of a computer's use is a picture."""
    url = f"data:image/png;base64,{PNG}"
    output = {"type": "computer_screenshot", "image_url": url}
    listed = of_item(type="computer_call_output", call_id="c", output=[output])
    alone = of_item(type="computer_call_output", call_id="c", output=output)

    assert [media.kind for media in listed.media] == [MediaKind.IMAGE]
    assert len(alone.media) == 1
    assert not any(PNG in text for text in (*listed.texts, *alone.texts))


def test_tools() -> None:
    """Functions are flat here; a hosted tool has its type for a name."""
    prompt = read_prompt(
        {
            "input": "Hi",
            "tools": [
                {
                    "type": "function",
                    "name": "f",
                    "description": "does",
                    "parameters": {"type": "object"},
                    "strict": True,
                },
                {"type": "web_search", "user_location": {"city": "Kyoto"}},
                {"type": "custom", "name": "g", "format": {"definition": "start: x"}},
            ],
            "tool_choice": {"type": "function", "name": "f"},
        }
    )

    assert prompt.tools == (
        Tool("f", "does", {"type": "object"}),
        Tool("web_search"),
        Tool("g"),
    )
    assert prompt.tool_choice == "f"
    [*_, rest] = prompt.messages
    assert rest.role == ""
    assert {"Kyoto", "start: x"} <= set(rest.texts)


@pytest.mark.parametrize(
    ("choice", "known"),
    [("none", "none"), ("auto", None), (None, None), ({"type": "x"}, None), ({"name": 5}, None)],
)  # fmt: skip
def test_tool_choice(choice: object, known: str | None) -> None:
    """A forced function and none at all make a difference."""
    assert read_prompt({"input": "Hi", "tool_choice": choice}).tool_choice == known


def test_form_of_the_answer() -> None:
    """The schema of the answer is read by the model."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    prompt = read_prompt({"input": "Hi", "text": {"format": form, "verbosity": "low"}})

    assert prompt.extra_texts == ('"n"', json.dumps(schema, separators=(",", ":")))
    assert prompt.messages == (Message("user", ("Hi",)),)


def test_what_nobody_knows() -> None:
    """A member that is new must not be free; one that is no text is."""
    known = {"store": True, "metadata": {"a": "b"}, "reasoning": {"effort": "high"}}

    assert texts(input="Hi", **known) == [("Hi",)]
    assert texts(input="Hi", grammar="x") == [("Hi",), ("x",)]
    assert texts(input="Hi", prompt={"id": "p", "variables": {"a": "b"}})[-1][-1] == "b"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"input": 5}, "input"),
        ({"instructions": {}}, "instructions"),
        ({"input": [{"role": 5}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": 5}]}]}, "input[0].content[0].text"),
        ({"tools": [5]}, "tools[0]"),
        ({"tools": [{"name": 5}]}, "tools[0].name"),
        ({"text": 5}, "text"),
        ({"input": [{"Role": "user"}]}, "input[0].role"),
    ],
)  # fmt: skip
def test_malformed(members: dict[str, Any], param: str) -> None:
    """What is counted has its type, else the caller is told where it has not."""
    with pytest.raises(MalformedRequestError) as caught:
        read_prompt(members)

    assert caught.value.param == param


@given(
    st.dictionaries(st.sampled_from(["input", "instructions", "tools", "text"]), JSON)
)
def test_any_request(body: dict[str, Any]) -> None:
    """Nothing but the caller's error comes out of any request."""
    with contextlib.suppress(MalformedRequestError):
        assert isinstance(read_prompt(body), Prompt)


@pytest.mark.parametrize(
    ("members", "is_guessed"),
    [
        ({"truncation": "auto"}, True),
        ({"context_management": [{"type": "compaction"}]}, True),
        ({"truncation": "disabled"}, False),
        ({"truncation": None}, False),
        ({"input": [{"type": "function_call_output", "output": "5"}]}, False),
        ({"input": [{"type": "new", "what": "5"}]}, True),
    ],
)
def test_what_the_provider_may_leave_out(
    members: dict[str, Any], is_guessed: bool
) -> None:
    """What may be cut, or is not known, is no measure; a tool's output is."""
    messages = read_prompt({"input": "Hi"} | members).messages

    assert any(message.is_guessed for message in messages) is is_guessed
