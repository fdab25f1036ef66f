"""
What a Gemini reply says, be it whole or one piece of a stream.

Pieces have the shape of a whole reply. Each may report: figures are of all so far, and
a figure that is left out, or zero, erases none.
What was cached is a part of what went in; what was thought is none of what came out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.content import json_of
from tokenweir.core.dialects.facts import (
    add_texts,
    figure,
    is_absurd,
    name_error,
    name_model,
    note_strange,
)
from tokenweir.core.dialects.fields import MAX_TOKENS
from tokenweir.core.usage import TokenUsage

# Of each list, as many are looked at.
_MAX_ITEMS = 256
# Why an answer ended that had reached its cap.
_AT_CAP = "MAX_TOKENS"
# Of what is reported: the total alone says nothing.
_SUMS = (
    *("promptTokenCount", "toolUsePromptTokenCount"),
    *("candidatesTokenCount", "thoughtsTokenCount"),
)
# Members that hold no text, or text that is read.
_OF_REPLY = frozenset(
    {
        *("candidates", "usageMetadata", "promptFeedback", "modelVersion"),
        *("responseId", "createTime", "error", "modelStatus"),
        *("embedding", "embeddings", "predictions"),
    }
)
_OF_CANDIDATE = frozenset(
    {
        *("content", "finishReason", "finishMessage", "safetyRatings"),
        *("citationMetadata", "groundingMetadata", "groundingAttributions"),
        *("urlContextMetadata", "logprobsResult"),
    }
)
_OF_PART = frozenset(
    {
        *("text", "functionCall", "executableCode", "codeExecutionResult"),
        *("inlineData", "fileData", "functionResponse", "thoughtSignature"),
        *("videoMetadata", "partMetadata"),
    }
)


def read_reply(reply: dict[str, Any], facts: ResponseFacts) -> None:
    """Take *reply*, a whole answer or a piece of one, into *facts*."""
    name_model(facts, reply.get("modelVersion"))
    error = reply.get("error")
    if error:
        name_error(facts, error.get("status") if isinstance(error, dict) else None)
    candidates = _objects(reply.get("candidates"))
    parts = [part for each in candidates for part in _parts(each)]
    texts = [text for part in parts for text in _texts(part)]
    add_texts(facts, texts)
    if not any(texts):
        _note_strange(reply, candidates, parts, facts)
    facts.hidden = facts.hidden or any("inlineData" in part for part in parts)
    reasons = [each.get("finishReason") for each in candidates]
    blocked = isinstance(reply.get("promptFeedback"), dict) and not candidates
    vectors = reply.keys() & {"embedding", "embeddings", "predictions"}
    if blocked or vectors or any(reasons):
        facts.finished = facts.error is None
        facts.at_cap += reasons.count(_AT_CAP)
    _read_usage(reply.get("usageMetadata"), facts)


def _note_strange(
    reply: dict[str, Any],
    candidates: list[dict[str, Any]],
    parts: list[dict[str, Any]],
    facts: ResponseFacts,
) -> None:
    note_strange(facts, reply, _OF_REPLY)
    for candidate in candidates:
        note_strange(facts, candidate, _OF_CANDIDATE)
    for part in parts:
        note_strange(facts, part, _OF_PART)


def _read_usage(report: object, facts: ResponseFacts) -> None:
    if not isinstance(report, dict):
        return
    if is_absurd(report) or any(_is_too_much(value) for value in report.values()):
        facts.absurd = True
        return
    known = facts.usage or TokenUsage()
    out = figure(report.get("candidatesTokenCount"))
    thoughts = figure(report.get("thoughtsTokenCount"))
    into = _into(report, known)
    visible = out or known.total_output_tokens - known.reasoning_tokens
    unseen = thoughts or known.reasoning_tokens
    # Who leaves some of it out has it in the total.
    total = figure(report.get("totalTokenCount")) or 0
    visible = max(visible, total - into - unseen)
    if not any(figure(report.get(name)) for name in _SUMS):
        return
    facts.usage = TokenUsage(
        **_input(report, into, known),
        **_output(report, visible, known),
        reasoning_tokens=unseen,
    )
    # What generates nothing, such as a blocked prompt, reports no output. But what is
    # known of thoughts alone does not cover text that was seen.
    nothing = facts.finished and not facts.hidden
    told = out is not None or thoughts is not None
    if visible or (not facts.text_bytes and (told or nothing)):
        facts.usage_final = bool(facts.usage.total_input_tokens)


def _into(report: dict[str, Any], known: TokenUsage) -> int:
    """Return all that went in; what tools have read may be told once only."""
    prompt = figure(report.get("promptTokenCount")) or 0
    tools = figure(report.get("toolUsePromptTokenCount")) or 0
    if prompt and tools:
        return prompt + tools
    return max(prompt + tools, known.total_input_tokens)


def _input(report: dict[str, Any], tokens: int, known: TokenUsage) -> dict[str, int]:
    by_kind = _details(report.get("promptTokensDetails"))
    told = figure(report.get("cachedContentTokenCount"))
    cached = min(told or known.cached_input_tokens, tokens)
    heard = min(by_kind.get("AUDIO") or known.audio_input_tokens, tokens - cached)
    seen = min(
        by_kind.get("IMAGE") or known.image_input_tokens, tokens - cached - heard
    )
    return {
        "input_tokens": tokens - cached - heard - seen,
        "cached_input_tokens": cached,
        "audio_input_tokens": heard,
        "image_input_tokens": seen,
    }


def _output(report: dict[str, Any], tokens: int, known: TokenUsage) -> dict[str, int]:
    by_kind = _details(report.get("candidatesTokensDetails"))
    spoken = min(by_kind.get("AUDIO") or known.audio_output_tokens, tokens)
    drawn = min(by_kind.get("IMAGE") or known.image_output_tokens, tokens - spoken)
    return {
        "output_tokens": tokens - spoken - drawn,
        "audio_output_tokens": spoken,
        "image_output_tokens": drawn,
    }


def _is_too_much(value: object) -> bool:
    return type(value) is int and value > MAX_TOKENS


def _details(value: object) -> dict[str, int]:
    return {
        str(item.get("modality")): figure(item.get("tokenCount")) or 0
        for item in _objects(value)
    }


def _parts(candidate: dict[str, Any]) -> list[dict[str, Any]]:
    content = candidate.get("content")
    return _objects(content.get("parts")) if isinstance(content, dict) else []


def _texts(part: dict[str, Any]) -> Iterator[object]:
    """Yield what may be generated text: who takes it looks at the types."""
    yield part.get("text")
    call = part.get("functionCall")
    if isinstance(call, dict):
        yield call.get("name")
        yield json_of(call.get("args"))
    code = part.get("executableCode")
    if isinstance(code, dict):
        yield code.get("code")


def _objects(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value[:_MAX_ITEMS] if isinstance(item, dict)]
