"""
How many input tokens a prompt will be charged for.

Pure: the count of a text is an argument, so that this says what is counted, and
`tokenweir.tokenizers` says with which vocabulary and within which time.

The rules of framing are those that OpenAI's cookbook publishes; those of tools
are worked out from counts (`tokenweir.core.tool_text`); media have their own
module. Everything that the model reads is counted: nothing here is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tokenweir.core.dialects.base import Media, Message, Prompt, Tool
from tokenweir.core.media_tokens import media_tokens
from tokenweir.core.model_family import Family
from tokenweir.core.text_classes import carried_over
from tokenweir.core.tool_text import as_typescript, tool_pieces

_NAME_TOKENS = 1
_FUNCTION_ROLE_TOKENS = -2
_CALL_TOKENS = 3
_TOOLS_WITH_SYSTEM_TOKENS = -4
_CHOICE_NONE_TOKENS = 1
_CHOICE_NAMED_TOKENS = 4

# The TypeScript form leaves out what it has no word for. A schema that is made of
# nothing else is still read, so half of four bytes a token is the least.
_SCHEMA_BYTES_PER_TOKEN = 8

_Tokens = Callable[[str], float]


@dataclass(frozen=True, slots=True)
class InputEstimate:
    """
    What a prompt is taken for.

    Attributes:
        text: Tokens of text, with what frames it and with tools.
        other: Of media, and token ids: no tokenizer has a say in them.
    """

    text: float
    other: int

    @property
    def tokens(self) -> int:
        """All of it; at least 1."""
        return max(1, self.other + math.ceil(self.text))


def estimate_input(prompt: Prompt, family: Family, count: Callable[[str], int]) -> int:
    """Return the input tokens of *prompt*; at least 1. See `estimate_parts`."""
    return estimate_parts(prompt, family, count).tokens


def never() -> bool:
    """Return that there is time."""
    return False


def estimate_parts(
    prompt: Prompt,
    family: Family,
    count: Callable[[str], int],
    is_late: Callable[[], bool] = never,
) -> InputEstimate:
    """
    Return the input tokens of *prompt* for models of *family*.

    *count* returns the tokens of a text in the family's vocabulary. Token ids count
    as they are. Once *is_late* no more media are looked into: they cost what those cost
    that show nothing. Does not raise unless *count* does.
    """
    tokens = _counter_of(family, count)
    text = _messages(prompt, family, tokens) + _tools(prompt, family, tokens)
    text += sum(map(tokens, prompt.extra_texts))
    media = sum(
        media_tokens(_unread(part) if is_late() else part, family.media)
        for message in prompt.messages
        for part in message.media
    )
    return InputEstimate(text, prompt.token_ids + media)


def _unread(media: Media) -> Media:
    return replace(media, head=b"")


def text_tokens(text: str, family: Family, count: Callable[[str], int]) -> int:
    """Return the tokens of *text* alone, as generated text is charged."""
    return math.ceil(_counter_of(family, count)(text))


def prompt_bytes(prompt: Prompt, limit: int) -> int:
    """
    Return about how many bytes there are to be read in *prompt*, but for its tools.

    It stops soon after *limit*, so that to ask "more than a little?" costs little.
    """
    return _up_to(limit, _sizes(prompt))


def tools_bytes(tools: Sequence[Tool], limit: int) -> int:
    """Return the size of *tools* as JSON. It stops soon after *limit*."""
    return _up_to(limit, map(len, tool_pieces(tools))) if tools else 0


def heads_bytes(prompt: Prompt) -> int:
    """Return how much of the media of *prompt* is there to be looked into."""
    return sum(len(part.head) for message in prompt.messages for part in message.media)


def _up_to(limit: int, sizes: Iterable[int]) -> int:
    total = 0
    for size in sizes:
        total += size
        if total > limit:
            break
    return total


def text_bytes(text: str) -> int:
    """Return about how many bytes *text* has, without encoding it."""
    return len(text) if text.isascii() else 2 * len(text)


# What takes time and tokens without any text, as if it were so many bytes of it.
_MESSAGE_BYTES = 16
_MEDIA_BYTES = 3_000


def _sizes(prompt: Prompt) -> Iterator[int]:
    for message in prompt.messages:
        yield _MESSAGE_BYTES + sum(map(text_bytes, message.texts))
        yield _MEDIA_BYTES * len(message.media)
    yield from map(text_bytes, prompt.extra_texts)


def _counter_of(family: Family, count: Callable[[str], int]) -> _Tokens:
    """Return *count*, carried over to the family's own tokenizer if need be."""
    ratios = family.ratios
    if ratios is None:
        return count
    return lambda text: carried_over(text, count(text), ratios)


def _messages(prompt: Prompt, family: Family, tokens: _Tokens) -> float:
    """
    Count the messages.

    One without a role is the bare text of a completion or an embedding: no frame.
    """
    framed = any(message.role for message in prompt.messages)
    total = float(family.framing.reply) if framed else 0.0
    for message in prompt.messages:
        total += sum(map(tokens, message.texts))
        if message.role:
            total += _frame(message, family, tokens)
    return total


def _frame(message: Message, family: Family, tokens: _Tokens) -> float:
    framing = family.framing
    total = float(framing.message) + _CALL_TOKENS * message.calls
    if framing.role:
        total += tokens(message.role)
    if message.name:
        total += tokens(message.name) + _NAME_TOKENS
    if framing.typescript and message.role == "function":
        total += _FUNCTION_ROLE_TOKENS
    return total


def _tools(prompt: Prompt, family: Family, tokens: _Tokens) -> float:
    choice = _tool_choice(prompt, tokens)
    if not prompt.tools:
        return choice
    overhead = choice + family.framing.tools
    schema = "".join(tool_pieces(prompt.tools))
    if not family.framing.typescript:
        return overhead + tokens(schema)
    definitions = tokens(as_typescript(prompt.tools)) + _after_system(prompt, tokens)
    least = len(schema) / _SCHEMA_BYTES_PER_TOKEN
    return max(overhead + definitions, least)


def _after_system(prompt: Prompt, tokens: _Tokens) -> float:
    """
    Correct for the system message that the definitions are put behind.

    They share its frame, and it gets a line end if it has none.
    """
    system = [message for message in prompt.messages if message.role == "system"]
    if not system:
        return 0.0
    last = system[0].texts[-1][-_TAIL_CHARS:] if system[0].texts else "\n"
    line_end = 0.0 if last.endswith("\n") else tokens(last + "\n") - tokens(last)
    return _TOOLS_WITH_SYSTEM_TOKENS + line_end


# Enough for the last word to be one token more or less, as it is in the whole.
_TAIL_CHARS = 100


def _tool_choice(prompt: Prompt, tokens: _Tokens) -> float:
    match prompt.tool_choice:
        case None:
            return 0.0
        case "none":
            return _CHOICE_NONE_TOKENS
        case name:
            return tokens(name) + _CHOICE_NAMED_TOKENS
