"""
What an OpenAI reply says, be it whole or one event of a stream.

A stream's events have the shape of a whole reply, but for `delta` instead of
`message`; completions have `text` in both. Usage is looked for first of all, whatever the choices look like: it
comes alone, with the last choice, with every choice, or inside of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.facts import add_texts, name_error, name_model, name_tier
from tokenweir.core.dialects.openai_usage import read_usage

# Of each list, as many are looked at: OpenAI allows 128 choices and 128 tools.
_MAX_ITEMS = 256
# Why a choice ended that had reached its cap. (Or the end of the context window, which
# a cap that was lowered makes unlikely.)
_AT_CAP = "length"


def read_reply(reply: dict[str, Any], facts: ResponseFacts) -> None:
    """Take *reply*, a whole answer or an event's data, into *facts*."""
    name_model(facts, reply.get("model"))
    name_tier(facts, reply.get("service_tier"))
    _read_error(reply, facts)
    choices = _objects(reply.get("choices"))
    add_texts(facts, (text for choice in choices for text in _texts(choice)))
    facts.hidden = facts.hidden or any(map(_has_audio, choices))
    reasons = [choice.get("finish_reason") for choice in choices]
    if any(map(_is_text, reasons)):
        facts.finished = True
        facts.at_cap += reasons.count(_AT_CAP)
    for report in _reports(reply, choices):
        read_usage(report, facts)


def _reports(reply: dict[str, Any], choices: list[dict[str, Any]]) -> Iterator[object]:
    """Yield whatever is where usage may be; the usual place last, so that it wins."""
    for choice in choices:
        yield choice.get("usage")  # Moonshot
    for extra in _objects([reply.get("x_groq")]):
        yield extra.get("usage")
    yield reply.get("usage")


def _read_error(reply: dict[str, Any], facts: ResponseFacts) -> None:
    error = reply.get("error")
    if isinstance(error, dict):
        name_error(facts, error.get("code"), error.get("type"))
    elif error or reply.get("object") == "error":  # the latter by older vLLM
        name_error(facts, reply.get("code"), reply.get("type"))


def _texts(choice: dict[str, Any]) -> Iterator[object]:
    """Yield what may be generated text: who takes it looks at the types."""
    yield choice.get("text")
    for message in _objects([choice.get("delta"), choice.get("message")]):
        yield from _content(message.get("content"))
        # Some servers send the same reasoning under both names.
        yield message.get("reasoning_content") or message.get("reasoning")
        yield message.get("refusal")
        for call in _objects(message.get("tool_calls")):
            yield from _call(call.get("function"))
            yield from _call(call.get("custom"))
        yield from _call(message.get("function_call"))
        for audio in _objects([message.get("audio")]):
            yield audio.get("transcript")


def _has_audio(choice: dict[str, Any]) -> bool:
    messages = _objects([choice.get("delta"), choice.get("message")])
    audios = _objects([message.get("audio") for message in messages])
    return any(audio.get("data") for audio in audios)


def _content(content: object) -> Iterator[object]:
    """Yield the text of *content*, which is a list of parts with Mistral."""
    if isinstance(content, str):
        yield content
    for part in _objects(content):
        yield part.get("text")
        for thought in _objects(part.get("thinking")):
            yield thought.get("text")


def _call(value: object) -> Iterator[object]:
    for call in _objects([value]):
        yield call.get("name")
        yield call.get("arguments")
        yield call.get("input")


def _objects(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value[:_MAX_ITEMS] if isinstance(item, dict)]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""
