"""
What an OpenAI reply says, be it whole or one event of a stream.

A stream's events have the shape of a whole reply, but for `delta` instead of
`message`; completions have `text` in both. Those who imitate it send more: the same text
under two names, all of the answer so far beside what is new, or usage in odd places. So
each text is taken once, and usage is looked for first of all, whatever the choices look
like: it comes alone, with the last choice, with every choice, or inside of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.facts import (
    add_texts,
    name_error,
    name_model,
    name_tier,
    note_strange,
)
from tokenweir.core.dialects.openai_usage import read_usage
from tokenweir.core.json_text import write_value

# Of each list, as many are looked at: OpenAI allows 128 choices and 128 tools.
_MAX_ITEMS = 256
# Why a choice ended that had reached its cap. (Or the end of the context window, which
# a cap that was lowered makes unlikely.)
_AT_CAP = "length"
# Where a part of a content has its text: what the model says, or what it thinks.
_TEXTS_OF_PART = ("text", "thinking", "summary")
# Members that hold no text, or text that is read.
_OF_REPLY = frozenset(
    {
        *("choices", "id", "object", "model", "provider", "system_fingerprint"),
        *("service_tier", "usage", "x_groq", "prompt_filter_results", "obfuscation"),
        *("citations", "search_results", "time_info", "timings", "metadata", "p"),
    }
)
_OF_CHOICE = frozenset(
    {
        *("delta", "message", "text", "finish_reason", "stop_reason", "usage"),
        *("native_finish_reason", "logprobs", "content_filter_results"),
        *("content_filter_offsets", "matched_stop", "token_ids", "prompt_token_ids"),
    }
)
_OF_MESSAGE = frozenset(
    {
        *("role", "refusal", "tool_calls", "function_call", "name", "audio", "images"),
        *("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"),
        *("annotations", "provider_specific_fields", "obfuscation"),
    }
)


def read_reply(reply: dict[str, Any], facts: ResponseFacts) -> None:
    """Take *reply*, a whole answer or an event's data, into *facts*."""
    name_model(facts, reply.get("model"))
    name_tier(facts, reply.get("service_tier"))
    _read_error(reply, facts)
    choices = _objects(reply.get("choices"))
    begun = facts.text_bytes > 0
    texts = [text for choice in choices for text in _texts(choice, begun=begun)]
    add_texts(facts, texts)
    if not any(texts):
        _note_strange(reply, choices, facts)
    facts.hidden = facts.hidden or any(map(_has_hidden, choices))
    reasons = [choice.get("finish_reason") for choice in choices]
    if any(map(_is_text, reasons)):
        facts.finished = True
        facts.at_cap += reasons.count(_AT_CAP)
    _read_choices(choices, facts)
    for report in _reports(reply):
        read_usage(report, facts)


def _reports(reply: dict[str, Any]) -> Iterator[object]:
    """Yield whatever is where usage may be; the usual place last, so that it wins."""
    for extra in _objects([reply.get("x_groq")]):
        yield extra.get("usage")
    yield reply.get("usage")


def _read_choices(choices: list[dict[str, Any]], facts: ResponseFacts) -> None:
    """
    Take what is reported within choices (Moonshot), each of its own output.

    All have the same prompt. Of a choice a later report replaces an earlier one.
    """
    for place, choice in enumerate(choices):
        report, index = choice.get("usage"), choice.get("index")
        key = index if type(index) is int else place
        if not isinstance(report, dict) or not 0 <= key < _MAX_ITEMS:
            continue
        own = facts.by_choice.setdefault(key, ResponseFacts())
        read_usage(report, own)
        facts.absurd = facts.absurd or own.absurd
        if len(facts.by_choice) == 1:
            read_usage(report, facts)
        else:
            _add_up(facts)


def _add_up(facts: ResponseFacts) -> None:
    found = [own.usage for own in facts.by_choice.values() if own.usage is not None]
    if not found:
        return
    prompt = max(found, key=lambda usage: usage.total_input_tokens)
    facts.usage = replace(
        prompt,
        output_tokens=sum(each.output_tokens for each in found),
        reasoning_tokens=sum(each.reasoning_tokens for each in found),
        audio_output_tokens=sum(each.audio_output_tokens for each in found),
        image_output_tokens=sum(each.image_output_tokens for each in found),
    )
    facts.usage_final = all(own.usage_final for own in facts.by_choice.values())


def _note_strange(
    reply: dict[str, Any], choices: list[dict[str, Any]], facts: ResponseFacts
) -> None:
    note_strange(facts, reply, _OF_REPLY)
    for choice in choices:
        note_strange(facts, choice, _OF_CHOICE)
        # A content is here if it was none of the kinds that are read.
        for message in _objects([choice.get("delta"), choice.get("message")]):
            note_strange(facts, message, _OF_MESSAGE)


def _read_error(reply: dict[str, Any], facts: ResponseFacts) -> None:
    error = reply.get("error")
    if isinstance(error, dict):
        name_error(facts, error.get("code"), error.get("type"))
    elif error or reply.get("object") == "error":  # the latter by older vLLM
        name_error(facts, reply.get("code"), reply.get("type"))


def _texts(choice: dict[str, Any], *, begun: bool) -> list[object]:
    """
    Return what may be generated text, each once: who takes it looks at the types.

    Some send a delta, and beside it a message with all of the answer so far (Perplexity):
    that is the answer only if nothing of it has *begun* to come in deltas.
    """
    delta = choice.get("delta")
    found = [*_texts_of(delta)]
    repeated = begun and isinstance(delta, dict)
    if not any(found) and not repeated:
        found = [*_texts_of(choice.get("message"))]
    # Together has the same text here as in the delta.
    return found if any(found) else [choice.get("text")]


def _texts_of(value: object) -> Iterator[object]:
    for message in _objects([value]):
        yield from _reasoning(message)
        yield from _content(message.get("content"))
        yield message.get("refusal")
        calls = message.get("tool_calls")
        # One alone, by older servers of Hugging Face.
        for call in _objects([calls] if isinstance(calls, dict) else calls):
            yield from _call(call.get("function"))
            yield from _call(call.get("custom"))
        yield from _call(message.get("function_call"))
        for audio in _objects([message.get("audio")]):
            yield audio.get("transcript")


def _reasoning(message: dict[str, Any]) -> Iterator[object]:
    """Yield the reasoning in *message*, which may be there under several names."""
    plain = message.get("reasoning_content") or message.get("reasoning")
    if plain:
        yield from _content(plain)
    else:
        yield from _content(message.get("reasoning_details"))


def _has_hidden(choice: dict[str, Any]) -> bool:
    messages = _objects([choice.get("delta"), choice.get("message")])
    return any(map(_hides, messages))


def _hides(message: dict[str, Any]) -> bool:
    audios = _objects([message.get("audio")])
    thoughts = _objects(message.get("reasoning_details"))  # encrypted ones
    return bool(message.get("images")) or any(
        part.get("data") for part in (*audios, *thoughts)
    )


def _content(content: object) -> Iterator[object]:
    """Yield the text of *content*: of parts with Mistral, which have parts in turn."""
    if isinstance(content, str):
        yield content
    for part in _objects(content):
        for name in _TEXTS_OF_PART:
            if isinstance(part.get(name), list):
                for inner in _objects(part[name]):
                    yield inner.get("text")
            else:
                yield part.get(name)


def _call(value: object) -> Iterator[object]:
    for call in _objects([value]):
        yield call.get("name")
        for name in ("arguments", "input"):
            given = call.get(name)
            # An object by some servers, not the text of one.
            is_text = not isinstance(given, dict | list)
            yield given if is_text else write_value(given).decode()


def _objects(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value[:_MAX_ITEMS] if isinstance(item, dict)]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""
