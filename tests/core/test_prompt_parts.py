"""What of a prompt can repeat, and that no text of it goes along."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core import prompt_parts as module
from tokenweir.core.dialects.base import Media, MediaKind, Message, Prompt, Tool
from tokenweir.core.prompt_part import Kind, PromptPart
from tokenweir.core.prompt_parts import (
    MAX_DIGESTED_CHARACTERS,
    MAX_KEPT_CHARACTERS,
    PREFIXES,
    parts_of,
)

SYSTEM = Message("system", ("Be brief.",))
QUESTION = Message("user", ("Why?",))
TOOL = Tool("weather", "of a place", {"type": "object"})
LONG = "Read this. " * 400
PREFIX = PREFIXES[Kind.PREFIX]


def found(prompt: Prompt, tenant: str = "acme") -> dict[Kind, PromptPart]:
    """Return the parts of *prompt* by kind."""
    return {part.kind: part for part in parts_of(prompt, tenant).parts.parts}


def digests(prompt: Prompt, tenant: str = "acme") -> list[str]:
    """Return the digests of the parts of *prompt*."""
    return [part.digest for part in parts_of(prompt, tenant).parts.parts]


def total_bytes(prompt: Prompt) -> int:
    """Return the size of the whole *prompt*."""
    return parts_of(prompt, "acme").parts.total_bytes


def test_a_question_alone_has_nothing_that_repeats() -> None:
    """What is short and follows nothing is new each time."""
    assert found(Prompt((QUESTION,))) == {}
    assert found(Prompt()) == {}


def test_each_part_has_its_size_and_digest() -> None:
    """In the order in which they are read; sixteen hex digits each."""
    prompt = Prompt((SYSTEM, Message("user", (LONG,))), (TOOL,))
    parts = found(prompt)

    assert list(parts) == [Kind.TOOLS, Kind.SYSTEM, Kind.PREFIX]
    assert parts[Kind.SYSTEM].size_bytes == len("Be brief.")
    assert parts[Kind.PREFIX].size_bytes == PREFIX
    assert all(re.fullmatch("[0-9a-f]{16}", part.digest) for part in parts.values())
    assert len({part.digest for part in parts.values()}) == 3


def test_what_follows_changes_nothing() -> None:
    """The question, the turns of a conversation, and what comes after the prefix."""
    first = Prompt((SYSTEM, Message("user", (f"{LONG} Who?",))), (TOOL,))
    other = Prompt(
        (
            SYSTEM,
            Message("user", (f"{LONG} Where?",)),
            Message("assistant", ("There.",)),
        ),
        (TOOL,),
    )

    assert digests(first) == digests(other)


@pytest.mark.parametrize(
    "message",
    [
        Message("system", ("Be  brief.",)),
        Message("system", ("Be brief.", "Now.")),
        Message("developer", ("Be quick.",)),
    ],
)
def test_another_text_is_another_digest(message: Message) -> None:
    """A blank more is enough: it costs a cache, too."""
    assert digests(Prompt((message,))) != digests(Prompt((SYSTEM,)))


def test_system_prompts_are_one_wherever_they_stand() -> None:
    """By either name."""
    developer = Message("developer", ("Be brief.",))

    assert digests(Prompt((QUESTION, developer))) == digests(Prompt((SYSTEM,)))


def test_equal_prompts_of_two_tenants_are_not_linked() -> None:
    """Who sees both can't tell that they are equal."""
    prompt = Prompt((SYSTEM,), (TOOL,))

    assert not {*digests(prompt)} & {*digests(prompt, "globex")}


def test_a_prefix_in_pieces() -> None:
    """However a message is cut into parts; with too little there is none."""
    pieces = Message("user", (LONG[:1_500], LONG[:600], "end"))
    short = Message("user", (LONG[: PREFIX - 1],))

    assert found(Prompt((pieces,)))[Kind.PREFIX].size_bytes == PREFIX
    assert found(Prompt((short,))) == {}
    assert found(Prompt((Message("user"), Message("user", (LONG,))))) == {}


def test_longer_prefixes() -> None:
    """A long document is told in pieces, each by all that stands before its end."""
    text = "0123456789" * 4_000
    parts = found(Prompt((Message("user", (text,)),)))
    other = found(Prompt((Message("user", (f"!{text[1:]}",)),)))
    longer = Message("user", (f"{text[:31_999]}!",))

    sizes = {kind: part.size_bytes for kind, part in parts.items()}
    assert sizes == {
        Kind.PREFIX: 2_000,
        Kind.PREFIX_8K: 6_000,
        Kind.PREFIX_32K: 24_000,
    }
    assert not {part.digest for part in parts.values()} & {
        part.digest for part in other.values()
    }
    changed = found(Prompt((longer,)))
    assert {kind for kind in parts if parts[kind] != changed[kind]} == {Kind.PREFIX_32K}
    kept = parts_of(Prompt((Message("user", (text,)),)), "acme", keeps_text=True).texts
    assert kept[parts[Kind.PREFIX_8K].digest] == text[2_000 : 2_000 + 2_048]


def test_sizes_are_of_bytes() -> None:
    """What is no ASCII has more of them; a long text is judged by how it begins."""
    for text in ("é" * 10, "日" * 100_000, "a" * 100_000):
        [part] = found(Prompt((Message("system", (text,)),))).values()
        assert part.size_bytes == len(text.encode())


def test_many_texts_are_read_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies beyond the bound is measured, and not read."""
    monkeypatch.setattr(module, "MAX_DIGESTED_CHARACTERS", 10)
    one = Prompt((Message("system", ("12345", "67890", "a", "b")),))
    two = Prompt((Message("system", ("12345", "67890", "c", "d")),))

    assert digests(one) == digests(two)
    assert found(one)[Kind.SYSTEM].size_bytes == 12


def test_schemas_of_the_answer_are_with_the_tools() -> None:
    """They repeat in the same way."""
    alone = found(Prompt((QUESTION,), extra_texts=('{"type":"object"}',)))

    assert list(alone) == [Kind.TOOLS]


def test_long_descriptions_of_tools_are_digested_up_to_a_bound() -> None:
    """They are measured, and not written."""
    begin = "x" * MAX_DIGESTED_CHARACTERS
    one, other, longer = (
        found(Prompt((QUESTION,), (Tool("weather", begin + end),)))[Kind.TOOLS]
        for end in ("a", "b", "ab")
    )

    assert one == other != longer
    assert longer.size_bytes == one.size_bytes + 1


def test_long_texts_are_digested_up_to_a_bound() -> None:
    """And by their length, so that work is bounded."""
    begin = "x" * MAX_DIGESTED_CHARACTERS
    one, other, longer = (
        digests(Prompt((Message("system", (begin + end,)),)))
        for end in ("a", "b", "ab")
    )

    assert one == other != longer


def test_everything_counts_into_the_whole() -> None:
    """Media and token ids as if they were text."""
    picture = Message("user", ("Why?",), media=(Media(MediaKind.IMAGE),))
    plain = total_bytes(Prompt((QUESTION,)))

    assert plain == len("Why?")
    assert total_bytes(Prompt((picture,))) > 100 * plain
    assert total_bytes(Prompt((QUESTION,), token_ids=100)) > plain
    with_tools = parts_of(Prompt((QUESTION,), (TOOL,)), "acme").parts
    assert with_tools.total_bytes == plain + with_tools.parts[0].size_bytes


def test_texts_that_may_be_kept() -> None:
    """The beginning of each, by its digest, and only for whom it is asked."""
    prompt = Prompt((Message("system", (LONG,)),), (TOOL,))
    found = parts_of(prompt, "acme", keeps_text=True)
    tools, system = found.parts.parts

    assert list(found.texts) == [tools.digest, system.digest]
    assert found.texts[system.digest] == LONG[:MAX_KEPT_CHARACTERS]
    assert "weather" in found.texts[tools.digest]
    assert "Read this" not in repr(found)
    assert parts_of(prompt, "acme").texts == {}


@pytest.mark.parametrize("odd", ["\ud800", 10**400, {"a": "\udfff"}])
def test_what_is_no_text_is_digested_all_the_same(odd: Any) -> None:
    """Half a surrogate pair, a number without end: JSON can name them."""
    text = odd if isinstance(odd, str) else "Be brief."
    prompt = Prompt(
        (Message("system", (text,)),), (Tool("t", parameters={"default": odd}),)
    )

    assert len(digests(prompt)) == 2


@given(st.text(), st.text(min_size=1), st.text(max_size=5_000))
def test_every_text(tenant: str, system: str, question: str) -> None:
    """Never raises; no part is larger than the whole, as far as is counted."""
    messages = (Message("system", (system,)), Message("user", (question,)))
    parts = parts_of(Prompt(messages), tenant).parts

    assert parts.parts[0].kind is Kind.SYSTEM
    assert sum(part.size_bytes for part in parts.parts) <= parts.total_bytes
