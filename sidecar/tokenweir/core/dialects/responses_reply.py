"""
What is told of a response, be it whole or one event of its stream.

Every event says its type. Those that begin and end a response have the whole of it
inside; the last one's usage is the only report. Text is taken from the events that
carry it, and from a whole response where none did.
"""

from __future__ import annotations

from collections.abc import Iterator
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

# Of each list, as many are looked at.
_MAX_ITEMS = 256
# How a response can be once nothing more will come, and what ends its stream.
_COMPLETE = frozenset({"completed", "incomplete"})
_FAILED = frozenset({"failed", "cancelled"})
# Why a response is incomplete that had reached its cap.
_AT_CAP = "max_output_tokens"
# What each type of an event begins with, and what one says that is none.
_PREFIX = "response."
_OF_EVENT = frozenset({"type", "id", "object"})
# Deltas that are encoded sound; pictures come under a name of their own.
_SOUND = frozenset({"response.audio.delta", "response.output_audio.delta"})
_PICTURE = "partial_image_b64"
# Items that are text; whatever else the provider makes or calls is none.
_CALLS = frozenset({"function_call", "custom_tool_call"})
_TEXTUAL = _CALLS | {"message", "reasoning"}


def read_event(event: dict[str, Any], facts: ResponseFacts) -> None:
    """Take the data of one *event* into *facts*."""
    kind = _kind(event)
    if kind == "error":
        _read_error(event.get("error") or event, facts)
    elif isinstance(event.get("response"), dict):
        # Not all that imitate OpenAI say in there how it is.
        _, _, status = kind.rpartition(".")
        read_response({"status": status} | event["response"], facts, streamed=True)
    elif isinstance(event.get("item"), dict):
        _read_item(event["item"], facts, begins=kind == "response.output_item.added")
    elif kind in _SOUND or event.get(_PICTURE):
        facts.hidden = True
    else:
        add_texts(facts, [event.get("delta")])
        if not kind.startswith(_PREFIX):
            note_strange(facts, event, _OF_EVENT)
        else:
            facts.strange |= isinstance(event.get("delta"), dict | list)


def read_response(
    response: dict[str, Any], facts: ResponseFacts, *, streamed: bool = False
) -> None:
    """Take a whole *response*; of one in a stream, the text has come before."""
    name_model(facts, response.get("model"))
    if response.get("service_tier") != "auto":  # a wish, until it is served
        name_tier(facts, response.get("service_tier"))
    status = str(response.get("status"))
    items = _objects(response.get("output"))
    if not streamed or (status in _COMPLETE and not facts.deltas):
        add_texts(facts, (text for item in items for text in _texts(item)))
    facts.hidden = facts.hidden or any(map(_is_hidden, items))
    if response.get("error") or status in _FAILED:
        _read_error(response.get("error"), facts)
    read_usage(response.get("usage"), facts)
    if status in _COMPLETE:
        facts.at_cap = int(_at_cap(response))
        facts.finished = True
        facts.ended = facts.error is None


def _at_cap(response: dict[str, Any]) -> bool:
    details = response.get("incomplete_details")
    return isinstance(details, dict) and details.get("reason") == _AT_CAP


def _read_error(error: object, facts: ResponseFacts) -> None:
    told = error if isinstance(error, dict) else {}
    name_error(facts, told.get("code"), told.get("type"))


def _read_item(item: dict[str, Any], facts: ResponseFacts, *, begins: bool) -> None:
    facts.hidden = facts.hidden or _is_hidden(item)
    if begins and _kind(item) in _CALLS:
        add_texts(facts, [item.get("name")])


def _is_hidden(item: dict[str, Any]) -> bool:
    return _kind(item) not in _TEXTUAL or bool(item.get("encrypted_content"))


def _texts(item: dict[str, Any]) -> Iterator[object]:
    """Yield what may be generated text: who takes it looks at the types."""
    if _kind(item) in _CALLS:
        yield item.get("name")
        yield item.get("arguments")
        yield item.get("input")
    for name in ("summary", "content"):
        for part in _objects(item.get(name)):
            yield part.get("text")
            yield part.get("refusal")
            yield part.get("transcript")


def _kind(thing: dict[str, Any]) -> str:
    # Whatever stands there.
    return str(thing.get("type"))


def _objects(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value[:_MAX_ITEMS] if isinstance(item, dict)]
