"""What of a prompt is counted."""

import json
from dataclasses import replace

import pytest

from tokenweir.core.dialects.base import Media, MediaKind, Message, Prompt, Tool
from tokenweir.core.estimate import (
    estimate_input,
    estimate_parts,
    heads_bytes,
    prompt_bytes,
    text_bytes,
    text_tokens,
    tools_bytes,
)
from tokenweir.core.model_family import FAMILIES, O200K, Family, Framing
from tokenweir.core.text_classes import Conversion

OPENAI = FAMILIES[O200K]
CLAUDE = FAMILIES["claude-3"]
TWICE = Family("twice", ratios=Conversion(2.0), framing=Framing(typescript=False))


def words(text: str) -> int:
    """Count a token a word."""
    return len(text.split())


def count(prompt: Prompt, family: Family = OPENAI) -> int:
    """Estimate with a token a word."""
    return estimate_input(prompt, family, words)


def test_messages_are_framed() -> None:
    """Three a message and three for the reply; a name costs one more than itself."""
    question = Message("user", ("one two", "three"))

    assert count(Prompt((question,))) == 3 + 3 + 1 + 3
    assert count(Prompt((question, question))) == 3 + 2 * (3 + 1 + 3)
    assert count(Prompt((replace(question, name="ann"),))) == 3 + 3 + 1 + 3 + 2
    assert count(Prompt((Message("assistant"),))) == 3 + 3 + 1


def test_other_families_have_their_own_frame() -> None:
    """Claude's frame is seven tokens for one message, and no role is written."""
    assert count(Prompt((Message("user"),)), CLAUDE) == 7
    assert count(Prompt((Message("function"),)), CLAUDE) == 7


def test_a_function_role_is_cheaper() -> None:
    """OpenAI's old role for results costs two tokens less."""
    assert count(Prompt((Message("function", ("x",), "f"),))) == 3 + 3 + 1 + 1 + 2 - 2


def test_text_without_role_has_no_frame() -> None:
    """Completions and embeddings are bare text."""
    assert count(Prompt((Message("", ("one two",)),))) == 2
    assert count(Prompt(extra_texts=("one", "two three"))) == 3


def test_token_ids_count_as_they_are() -> None:
    """Ids add exactly their number; a prompt of nothing is one token."""
    question = Prompt((Message("user", ("one",)),))

    assert count(Prompt(token_ids=5)) == 5
    assert count(replace(question, token_ids=5)) == count(question) + 5
    assert count(Prompt()) == 1


def test_ratios_carry_a_count_over() -> None:
    """A family without vocabulary multiplies the count of text, not of ids."""
    prompt = Prompt((Message("", ("one two", "three")),), token_ids=7)

    assert count(prompt, TWICE) == 7 + 2 * 3
    assert text_tokens("one two three", TWICE, words) == 6
    assert text_tokens("one two three", OPENAI, words) == 3


def test_fractions_are_rounded_up_once() -> None:
    """Many small texts are not each rounded up."""
    family = replace(TWICE, ratios=Conversion(1.1))

    assert count(Prompt((Message("", ("word",) * 10),)), family) == 11
    assert text_tokens("word", family, words) == 2


def test_media_are_counted_by_the_familys_rules() -> None:
    """Pictures and sounds are added, by rule and rate."""
    media = (Media(MediaKind.IMAGE), Media(MediaKind.AUDIO))
    bare = Prompt((Message("user"),))
    prompt = Prompt((Message("user", media=media),))

    assert count(prompt) - count(bare) == 1445 + 600
    assert count(prompt, CLAUDE) - count(bare, CLAUDE) == 1568 + 600


def test_media_are_not_looked_into_without_time() -> None:
    """From then on they cost what they cost that show nothing: pictures the most."""
    gif = Media(MediaKind.IMAGE, b"GIF89a\x10\0\x10\0", 10)
    prompt = Prompt((Message("user", media=(gif,) * 3),))
    moments = iter([False, True, True])
    parts = estimate_parts(prompt, OPENAI, words, lambda: next(moments))

    assert parts.other == 255 + 2 * 1445
    assert heads_bytes(prompt) == 30


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = Tool("weather", "Tell the weather", SCHEMA)


def test_tools_are_counted_as_typescript() -> None:
    """OpenAI: the rendered namespace and nine tokens."""
    bare = Prompt((Message("user", ("hi",)),))
    rendered = (
        "namespace functions { // Tell the weather type weather = (_: { city?: string,"
        " }) => any; } // namespace functions"
    )

    assert count(replace(bare, tools=(TOOL,))) - count(bare) == words(rendered) + 9


@pytest.mark.parametrize(
    ("texts", "line_end"), [(("Be kind.",), 0), (("Be kind.\n",), 0), ((), 0)]
)
def test_tools_share_the_system_messages_frame(
    texts: tuple[str, ...], line_end: int
) -> None:
    """Behind a system message the definitions cost four tokens less."""
    bare = Prompt((Message("user", ("hi",)),))
    system = Message("system", texts)
    with_system = replace(bare, messages=(system, *bare.messages))

    without = count(replace(bare, tools=(TOOL,))) - count(bare)
    with_it = count(replace(with_system, tools=(TOOL,))) - count(with_system)

    assert with_it == without - 4 + line_end


def test_the_system_message_gets_a_line_end() -> None:
    """Where that costs a token, it is counted; where there is one, it is not."""

    def cost(system: str) -> int:
        bare = Prompt((Message("system", (system,)),))
        tools = estimate_input(replace(bare, tools=(TOOL,)), OPENAI, len)
        return tools - estimate_input(bare, OPENAI, len)

    assert cost("kind") == cost("kind\n") + 1


def test_a_choice_of_tool_costs_something() -> None:
    """No tool: one token. A forced one: its name and four."""
    prompt = Prompt((Message("user", ("hi",)),), (TOOL,))

    assert count(replace(prompt, tool_choice="none")) == count(prompt) + 1
    assert count(replace(prompt, tool_choice="weather")) == count(prompt) + 5
    assert count(Prompt(tool_choice="none")) == 1


def test_other_families_read_tools_as_json() -> None:
    """Elsewhere: the JSON form, by ratio, and the family's instructions."""
    bare = Prompt((Message("user", ("hi",)),))
    with_tool = replace(bare, tools=(Tool("f", "one two three"),))

    # [{"name":"f","description":"one two three","parameters":{}}] has three words.
    assert count(with_tool, TWICE) - count(bare, TWICE) == 9 + 2 * 3


def test_schemas_that_typescript_leaves_out_are_not_free() -> None:
    """Half of four bytes a token is the least for a schema, whatever is in it."""
    hidden = {"anyOf": [{"description": "words " * 400}]}
    prompt = Prompt((Message("user", ("hi",)),), (Tool("f", "", hidden),))

    assert count(prompt) >= 2_400 / 8


def test_everything_is_counted() -> None:
    """System prompt, tools, results and arguments: at least half of bytes by four."""
    system, arguments, result = "rule " * 120, '{"city": "Oslo"} ' * 20, "cold " * 80
    schema = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "title": "t"} for n in range(60)},
    }
    prompt = Prompt(
        (
            Message("system", (system,)),
            Message("assistant", ("weather", arguments)),
            Message("tool", (result,)),
        ),
        (Tool("weather", "Tell the weather", schema),),
    )
    size_bytes = len(system + arguments + result) + len(str(schema))

    assert estimate_input(prompt, OPENAI, lambda text: len(text) // 4) >= size_bytes / 8


def test_how_much_there_is_to_read() -> None:
    """Bytes of text, about; messages and media count even if they are empty."""
    message = Message("user", ("a" * 100, "漢" * 50), media=(Media(MediaKind.IMAGE),))
    prompt = Prompt((message,), (TOOL,), extra_texts=("b" * 30,))
    written = {"name": "weather", "description": TOOL.description, "parameters": SCHEMA}

    assert text_bytes("a" * 100) == 100
    assert text_bytes("漢" * 50) == 100
    assert prompt_bytes(prompt, 1 << 40) == 16 + 200 + 3_000 + 30
    assert tools_bytes((TOOL,), 1 << 40) == len(
        json.dumps([written], separators=(",", ":"))
    )
    assert tools_bytes((), 1 << 40) == 0


def test_reading_stops_behind_the_limit() -> None:
    """What is far beyond the limit is not looked at."""
    message = Message("user", ("a" * 5_000,))

    assert prompt_bytes(Prompt((message,) * 10), 4_000) == 5_016
    assert tools_bytes((TOOL,) * 100, 150) < 250


def test_calls_of_tools_have_something_around_them() -> None:
    """Three tokens each, beside their names and arguments."""
    message = Message("assistant", ("f", "{}"))
    calling = replace(message, calls=2)

    bare = estimate_input(Prompt((message,)), OPENAI, len)
    assert estimate_input(Prompt((calling,)), OPENAI, len) == bare + 6
