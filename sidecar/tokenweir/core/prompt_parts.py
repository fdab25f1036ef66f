"""
What of a prompt can repeat from call to call.

    tools       what defines the tools, and the schema that the answer must have
    system      all system and developer messages, wherever they stand
    prefix      the first 2,000 characters of the first other message, if it has as many:
                long instructions that apps put before what changes, or a document that
                is asked about again and again
    prefix_8k   what follows that, up to 8,000 characters
    prefix_32k  what follows that, up to 32,000

They do not overlap, so what they cost can be added. What follows the last prefix, and
the turns of a conversation, are in none of them. A prefix is told by all that stands
before its end: that is how caches tell it, too.

A digest is made of the tenant's name, too: equal prompts of two tenants can't be told
to be equal. It hides a text from who reads along, not from who can guess it.

However long a prompt is, little of it is looked at: its digests are of so many
characters at most, and sizes of texts are estimated from how they begin.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from tokenweir.core.dialects.base import Prompt, Tool
from tokenweir.core.prompt_part import Kind, PromptPart, PromptParts
from tokenweir.core.tool_text import tool_pieces

# Where prefixes end, in characters.
PREFIXES = {Kind.PREFIX: 2_000, Kind.PREFIX_8K: 8_000, Kind.PREFIX_32K: 32_000}
# 64 bits: of a million prompts of a tenant, two are one with odds of 1 in 10^7.
DIGEST_DIGITS = 16
# Of longer texts, no more goes into the digest, besides their length: to read it takes
# a tenth of a millisecond.
MAX_DIGESTED_CHARACTERS = 65_536
# What is kept of a text at the most, where the policy lets it be kept.
MAX_KEPT_CHARACTERS = 2_048
# What a picture or a recording counts for beside text, as for the time of counting.
MEDIA_BYTES = 3_000
TOKEN_ID_BYTES = 4

# From how many characters the size of a longer text is estimated.
_SAMPLED_CHARACTERS = 4_096
# Of a definition that can't be written quickly.
_MAX_PIECES = 1_000
_SYSTEM_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Found:
    """The *parts* of a prompt, and what may be kept of their *texts*, by digest."""

    parts: PromptParts
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class _Text:
    """A text as far as it is looked at, its length in characters, and its size."""

    shown: str
    length: int
    size_bytes: int


def parts_of(prompt: Prompt, tenant: str, *, keeps_text: bool = False) -> Found:
    """
    Return what can repeat in *prompt*, for *tenant*. It never raises.

    With *keeps_text* the beginning of each part's text comes along.
    """
    tools = _tools(prompt)
    parts, texts = [], {}
    for kind, digested, text in _digested(prompt, tools):
        part = PromptPart(kind, _digest(tenant, kind, digested), text.size_bytes)
        parts.append(part)
        if keeps_text:
            texts[part.digest] = text.shown[:MAX_KEPT_CHARACTERS]
    return Found(PromptParts(tuple(parts), _total_bytes(prompt, tools)), texts)


def _digested(prompt: Prompt, tools: _Text) -> Iterator[tuple[Kind, _Text, _Text]]:
    """Yield each part's kind, what its digest is made of, and its text."""
    system = _joined(
        text
        for message in prompt.messages
        if message.role in _SYSTEM_ROLES
        for text in message.texts
    )
    for kind, text in ((Kind.TOOLS, tools), (Kind.SYSTEM, system)):
        if text.length:
            yield kind, text, text
    first = next((m for m in prompt.messages if m.role not in _SYSTEM_ROLES), None)
    opening = _joined(first.texts if first is not None else ())
    begin = 0
    for kind, end in PREFIXES.items():
        if opening.length < end:
            break
        yield kind, _cut(opening, 0, end), _cut(opening, begin, end)
        begin = end


def _tools(prompt: Prompt) -> _Text:
    definitions = [*map(_definition, prompt.tools)]
    begin = _joined(
        definition[:MAX_DIGESTED_CHARACTERS].decode("utf-8", "ignore")
        for definition in definitions
    )
    extra = _joined(prompt.extra_texts)
    size_bytes = sum(map(len, definitions)) + sum(map(_cut_off, prompt.tools))
    shown = "\n".join(filter(None, (begin.shown, extra.shown)))
    return _Text(shown, size_bytes + extra.length, size_bytes + extra.size_bytes)


def _definition(tool: Tool) -> bytes:
    described = tool.description[:MAX_DIGESTED_CHARACTERS]
    try:
        return msgspec.json.encode((tool.name, described, tool.parameters))
    except (ValueError, OverflowError, RecursionError):
        # Not every text or number that came as JSON goes back as quickly.
        short = Tool(tool.name, described, tool.parameters)
        pieces = itertools.islice(tool_pieces((short,)), _MAX_PIECES)
        return "".join(pieces).encode("utf-8", "surrogatepass")


def _cut_off(tool: Tool) -> int:
    return max(0, len(tool.description) - MAX_DIGESTED_CHARACTERS)


def _joined(texts: Iterable[str]) -> _Text:
    shown: list[str] = []
    left = MAX_DIGESTED_CHARACTERS
    length = size_bytes = 0
    for text in texts:
        if left > 0:
            shown.append(text[:left])
            left -= len(text) + 1
        length += len(text)
        size_bytes += _size_bytes(text)
    return _Text("\n".join(shown), length, size_bytes)


def _cut(text: _Text, begin: int, end: int) -> _Text:
    shown = text.shown[begin:end]
    return _Text(shown, end - begin, _size_bytes(shown))


def _digest(tenant: str, kind: Kind, text: _Text) -> str:
    named = f"{tenant}\0{kind}\0{text.length}\0{text.shown}"
    encoded = named.encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()[:DIGEST_DIGITS]


def _size_bytes(text: str) -> int:
    """Return how many bytes *text* has; of a long one, about how many."""
    if text.isascii():
        return len(text)
    sample = text[:_SAMPLED_CHARACTERS]
    return len(sample.encode("utf-8", "surrogatepass")) * len(text) // len(sample)


def _total_bytes(prompt: Prompt, tools: _Text) -> int:
    messages = sum(
        sum(map(_size_bytes, message.texts)) + MEDIA_BYTES * len(message.media)
        for message in prompt.messages
    )
    return messages + tools.size_bytes + TOKEN_ID_BYTES * prompt.token_ids
