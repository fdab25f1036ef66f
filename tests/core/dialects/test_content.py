"""What is collected of a message: text as text, all else as media."""

from __future__ import annotations

import base64

import pytest

from tokenweir.core.dialects.base import Media, MediaKind, Message
from tokenweir.core.dialects.content import Content, json_of

ABC = base64.b64encode(b"abc").decode()


def test_message() -> None:
    """A message has what was added, in its order."""
    content = Content()
    content.add_text("a")
    content.add_text("")
    content.add_json({"b": [1, "é"]})
    content.add_json('{"as": "text"}')
    content.add_json(None)
    content.add_url("https://example.org/x.png", MediaKind.IMAGE, "low")
    content.add_url(f"data:image/png;base64,{ABC}", MediaKind.IMAGE, {"no": "string"})
    content.add_encoded(ABC, MediaKind.AUDIO)
    content.add_encoded(f"data:audio/wav;base64,{ABC}", MediaKind.AUDIO)

    assert content.message("user", "bob") == Message(
        "user",
        ("a", '{"b":[1,"é"]}', '{"as": "text"}'),
        "bob",
        (
            Media(MediaKind.IMAGE, detail="low"),
            Media(MediaKind.IMAGE, b"abc", 3),
            Media(MediaKind.AUDIO, b"abc", 3),
            Media(MediaKind.AUDIO, b"abc", 3),
        ),
    )


def test_unknown_part() -> None:
    """All strings of an unknown part count; what is encoded is no text."""
    content = Content()
    content.add_unknown(
        {
            "type": "search_result",
            "title": "a title",
            "content": [{"type": "text", "text": "first"}, "second", 5, None, True],
            "cache_control": {"type": "ephemeral"},
            "id": "no text",
            "page": {"url": "https://example.org", "encrypted_content": ABC},
            "picture": f"data:image/png;base64,{ABC}",
        }
    )

    assert content.texts == ["a title", "first", "second", "https://example.org"]
    assert content.media == [Media(MediaKind.FILE, b"abc", 3)] * 2


def test_unknown_part_with_text_as_data() -> None:
    """What stands where others have base64 is text if it looks like text."""
    content = Content()
    content.add_unknown({"source": {"type": "text", "data": "a page of the web"}})
    content.add_unknown({"source": {"type": "base64", "data": "QUJD" * 1_000}})

    assert content.texts == ["a page of the web"]
    assert content.media == [Media(MediaKind.FILE, b"ABC" * 1_000, 3_000)]


@pytest.mark.parametrize(
    ("names", "texts"),
    [(False, ["x" * 65, "a"]), (True, ["content", "x" * 65, "text", "a"])],
)
def test_names_of_members(names: bool, texts: list[str]) -> None:
    """Names are text where they are asked for, and where they are too long for one."""
    content = Content()
    content.add_unknown(
        {"content": {"type": "t", "x" * 65: 1, "text": "a"}}, names=names
    )

    assert sorted(content.texts) == sorted(texts)


def test_rest() -> None:
    """What is beside the known members counts, with names where it has a structure."""
    content = Content()
    content.add_rest({"a": "known"}, {"a", "b"})
    assert content.texts == []

    rest = {"a": "known", "c": "text", "n": 5, "schema": {"gauge": {"type": "string"}}}
    content.add_rest(rest, {"a", "b"})
    assert content.texts == ["text", "schema", "gauge"]


@pytest.mark.parametrize(
    ("holder", "is_guessed"),
    [
        ({"known": "x"}, False),
        ({"read": "x"}, False),
        ({"x_pad": "words"}, True),
        ({"truncate_prompt_tokens": 100}, True),
        ({"plugins": [{"id": "web"}]}, True),
        ({"future": None}, False),
        ({"min_tokens": 5}, False),
        ({"min_tokens": "words"}, True),
    ],
)
def test_what_is_a_guess(holder: dict[str, object], is_guessed: bool) -> None:
    """What nobody here knows may be read or not; settings without text are not read."""
    content = Content()
    content.add_rest({"known": 1}, {"known"})
    content.add_rest(holder, {"known"}, {"read"})

    assert content.is_guessed is content.message("user").is_guessed is is_guessed
    assert [each.role for each in content.rest()] == [""] * (
        bool(content.texts) or is_guessed
    )


def test_an_unknown_part_is_a_guess() -> None:
    """Even if there is no text in it."""
    content = Content()
    content.add_unknown({"type": "new"})

    assert content.message("user").is_guessed


def test_secrets_are_no_text() -> None:
    """The token of a remote tool server is nothing that a model reads."""
    content = Content()
    content.add_rest(
        {"mcp_servers": [{"name": "x", "authorization_token": "s"}]}, set()
    )

    assert content.texts == ["mcp_servers", "name", "x"]


def test_unknown_part_that_is_deep() -> None:
    """A deep part is walked without recursion."""
    part: object = "x"
    for _ in range(10_000):
        part = [{"a": part}]
    content = Content()
    content.add_unknown(part)

    assert content.texts == ["x"]


def test_json() -> None:
    """JSON is written without blanks, and not escaped where it need not be."""
    assert json_of({"a": ["é", 1.5, None]}) == '{"a":["é",1.5,null]}'
