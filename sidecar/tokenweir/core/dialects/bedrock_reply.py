"""
What a Converse reply says, be it whole or one event of a stream.

Classes of input are beside each other: `inputTokens` leaves out what was read from or
written to a cache. A stream reports once, in its last event, `metadata`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.content import json_of
from tokenweir.core.dialects.facts import (
    add_texts,
    figure,
    name_error,
    name_tier,
    note_strange,
)
from tokenweir.core.dialects.fields import MAX_TOKENS
from tokenweir.core.usage import TokenUsage

# Of each list, as many are looked at.
_MAX_ITEMS = 256
# Why an answer ended that had reached its cap.
_AT_CAP = "max_tokens"
# The same if a guardrail has answered in the model's place: that may have cost nothing.
_BLOCKED = "guardrail_intervened"
# A mode at a price of its own, beside the tiers.
_OPTIMIZED = "optimized"
# Older answers have another name for both.
_READS = ("cacheReadInputTokens", "cacheReadInputTokenCount")
_WRITES = ("cacheWriteInputTokens", "cacheWriteInputTokenCount")
_LONG_CACHE = "1h"
# What stands in a block that the model has not written, or not as text.
_NO_TEXT = frozenset({"image", "audio", "video", "document", "toolResult"})


def read_reply(reply: dict[str, Any], facts: ResponseFacts) -> None:
    """Take *reply*, a whole answer, or an error in its place, into *facts*."""
    message = _object(_object(reply.get("output")).get("message"))
    for block in _objects(message.get("content")):
        _read_block(block, facts)
    if not message and isinstance(reply.get("message"), str):
        name_error(facts, reply.get("__type"))
    _read_stop(reply, facts)
    _read_report(reply, facts)


def read_stream_event(name: str, data: dict[str, Any], facts: ResponseFacts) -> None:
    """Take the *data* of the event *name* into *facts*."""
    match name:
        case "contentBlockStart":
            _read_block(_object(data.get("start")), facts)
        case "contentBlockDelta":
            _read_block(_object(data.get("delta")), facts)
        case "messageStop":
            _read_stop(data, facts)
        case "metadata":
            _read_report(data, facts)
            facts.ended = facts.finished and facts.error is None
        case "messageStart" | "contentBlockStop":
            pass  # it begins, or ends, and says no more than that
        case _:
            note_strange(facts, data, frozenset())


def _read_block(block: dict[str, Any], facts: ResponseFacts) -> None:
    """Take a block, its start, or a piece of it."""
    add_texts(facts, _texts(block))
    thought = _object(block.get("reasoningContent"))
    unseen = thought.get("redactedContent") or thought.get("signature")
    facts.hidden |= bool(unseen) or not _NO_TEXT.isdisjoint(block)


def _texts(block: dict[str, Any]) -> Iterator[object]:
    """Yield what may be generated text: who takes it looks at the types."""
    yield block.get("text")
    call = _object(block.get("toolUse"))
    yield call.get("name")
    # Whole answers have an object, pieces of it are text.
    if call.get("input"):
        given = call["input"]
        yield given if isinstance(given, str) else json_of(given)
    thought = _object(block.get("reasoningContent"))
    yield thought.get("text")
    yield _object(thought.get("reasoningText")).get("text")
    cited = _object(block.get("citationsContent"))
    for part in _objects(cited.get("content")):
        yield part.get("text")


def _read_stop(holder: dict[str, Any], facts: ResponseFacts) -> None:
    reason = holder.get("stopReason")
    if isinstance(reason, str) and reason:
        facts.finished = facts.error is None
        facts.at_cap = int(reason == _AT_CAP)
        if reason == _BLOCKED and facts.usage is None:
            facts.usage = TokenUsage()


def _read_report(holder: dict[str, Any], facts: ResponseFacts) -> None:
    fast = _object(holder.get("performanceConfig")).get("latency") == _OPTIMIZED
    tier = _object(holder.get("serviceTier")).get("type")
    name_tier(facts, _OPTIMIZED if fast else tier)
    report = holder.get("usage")
    if not isinstance(report, dict):
        return
    if any(type(value) is int and value > MAX_TOKENS for value in report.values()):
        facts.absurd = True
        return
    into, out = figure(report.get("inputTokens")), figure(report.get("outputTokens"))
    read, written = _first(report, _READS), _first(report, _WRITES)
    told = into is not None and out is not None
    if not (into or out or read or written):
        facts.usage_final |= told and facts.usage == TokenUsage()
        return
    known = facts.usage or TokenUsage()  # of an earlier report: what is left out stays
    written_1h = min(_for_an_hour(report) or known.cache_write_1h_tokens, written)
    into = into or known.input_tokens
    read = read or known.cached_input_tokens
    if not written:
        written_1h = known.cache_write_1h_tokens
        written = known.cache_write_tokens + written_1h
    inputs = into + read + written
    total = figure(report.get("totalTokens")) or 0
    facts.usage = TokenUsage(
        input_tokens=into,
        cached_input_tokens=read,
        cache_write_tokens=written - written_1h,
        cache_write_1h_tokens=written_1h,
        # Who leaves some of it out has it in the total.
        output_tokens=max(out or known.output_tokens, total - inputs),
    )
    facts.usage_final = told


def _for_an_hour(report: dict[str, Any]) -> int:
    details = _objects(report.get("cacheDetails"))
    found = (each for each in details if each.get("ttl") == _LONG_CACHE)
    return sum(figure(each.get("inputTokens")) or 0 for each in found)


def _first(report: dict[str, Any], names: tuple[str, ...]) -> int:
    return next((n for n in (figure(report.get(name)) for name in names) if n), 0)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value[:_MAX_ITEMS] if isinstance(item, dict)]
