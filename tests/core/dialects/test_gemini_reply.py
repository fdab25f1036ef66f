"""What a Gemini reply says."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.gemini_reply import read_reply
from tokenweir.core.usage import TokenUsage


def facts_of(*replies: dict[str, Any]) -> ResponseFacts:
    """Return what is known after *replies*."""
    facts = ResponseFacts()
    for reply in replies:
        read_reply(reply, facts)
    return facts


def candidate(*parts: object, finish: str | None = None) -> dict[str, Any]:
    """Return a candidate with *parts*."""
    reason = {"finishReason": finish} if finish else {}
    return {"content": {"role": "model", "parts": [*parts]}, **reason}


def reported(**usage: object) -> ResponseFacts:
    """Return what is known after an answer with *usage*."""
    return facts_of(
        {
            "candidates": [candidate({"text": "x"}, finish="STOP")],
            "usageMetadata": usage,
        }
    )


def test_answer() -> None:
    """Text, thoughts, calls and code are generated; what is no text is hidden."""
    facts = facts_of(
        {
            "modelVersion": "gemini-2.5-flash-001",
            "candidates": [
                candidate(
                    {"text": "Hm.", "thought": True},
                    {"text": "Hi"},
                    {"functionCall": {"name": "f", "args": {"a": 1}}},
                    {"executableCode": {"code": "1+1"}},
                    {"inlineData": {"mimeType": "image/png", "data": "AA"}},
                    finish="MAX_TOKENS",
                ),
                "none",
            ],
        }
    )

    assert facts.texts == ["Hm.", "Hi", "f", '{"a":1}', "1+1"]
    assert facts.model == "gemini-2.5-flash-001"
    assert facts.hidden
    assert facts.finished
    assert facts.at_cap == 1
    assert facts.usage is None


def test_usage() -> None:
    """Cached tokens are a part of what went in; thoughts are beside what came out."""
    facts = reported(
        promptTokenCount=100,
        cachedContentTokenCount=40,
        toolUsePromptTokenCount=7,
        candidatesTokenCount=20,
        thoughtsTokenCount=30,
        totalTokenCount=157,
        promptTokensDetails=[
            {"modality": "TEXT", "tokenCount": 40},
            {"modality": "AUDIO", "tokenCount": 35},
            {"modality": "IMAGE", "tokenCount": 25},
        ],
        candidatesTokensDetails=[
            {"modality": "IMAGE", "tokenCount": 12},
            {"modality": "AUDIO", "tokenCount": 3},
        ],
    )

    assert facts.usage == TokenUsage(
        input_tokens=7,
        cached_input_tokens=40,
        audio_input_tokens=35,
        image_input_tokens=25,
        output_tokens=5,
        reasoning_tokens=30,
        audio_output_tokens=3,
        image_output_tokens=12,
    )
    assert facts.usage_final


def test_parts_beyond_their_sum() -> None:
    """No part is larger than its sum, whatever the provider says."""
    facts = reported(
        promptTokenCount=10,
        cachedContentTokenCount=50,
        candidatesTokenCount=2,
        promptTokensDetails=[{"modality": "AUDIO", "tokenCount": 50}],
        candidatesTokensDetails=[{"modality": "AUDIO", "tokenCount": 50}],
    )

    assert facts.usage == TokenUsage(cached_input_tokens=10, audio_output_tokens=2)


def test_figures_are_of_all_so_far() -> None:
    """A later report replaces an earlier one; what it leaves out it does not erase."""
    piece = {"candidates": [candidate({"text": "x"})]}
    early = {"promptTokenCount": 9, "totalTokenCount": 9}
    middle = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 2}
    begun = facts_of(piece | {"usageMetadata": early})
    going = facts_of(piece | {"usageMetadata": middle})
    more = facts_of(piece | {"usageMetadata": middle}, piece)
    late = facts_of(
        piece | {"usageMetadata": middle},
        {"candidates": [candidate(finish="STOP")], "usageMetadata": early},
    )

    assert begun.usage == TokenUsage(input_tokens=9)
    assert not begun.usage_final
    assert going.usage_final
    assert not more.usage_final
    assert late.usage == TokenUsage(input_tokens=9, output_tokens=4, reasoning_tokens=2)


def test_a_piece_that_leaves_figures_out() -> None:
    """Each figure replaces its own earlier one only, and the total knows of more."""
    first = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 5,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 1_000,
        "thoughtsTokenCount": 50,
        "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 3}],
        "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 900}],
    }
    last = {"promptTokenCount": 10, "thoughtsTokenCount": 60, "totalTokenCount": 1_095}
    piece = {"candidates": [candidate({"text": "x"})], "usageMetadata": first}
    facts = facts_of(piece, {"usageMetadata": last})

    assert facts.usage == TokenUsage(
        input_tokens=8,
        cached_input_tokens=4,
        audio_input_tokens=3,
        output_tokens=120,
        reasoning_tokens=60,
        image_output_tokens=900,
    )
    assert facts.usage_final


@pytest.mark.parametrize(
    ("usage", "output"),
    [
        ({"promptTokenCount": 10, "totalTokenCount": 1_010}, 1_000),
        ({"promptTokenCount": 10, "thoughtsTokenCount": 50, "totalTokenCount": 1_060}, 1_000),
        ({"promptTokenCount": 10, "candidatesTokenCount": 9, "totalTokenCount": 1_010}, 1_000),
        ({"promptTokenCount": 10, "candidatesTokenCount": 9, "totalTokenCount": 10}, 9),
    ],
)  # fmt: skip
def test_the_total(usage: dict[str, int], output: int) -> None:
    """Output is what the total leaves for it, if that is more than what is told."""
    facts = reported(**usage)

    assert facts.usage is not None
    assert facts.usage.output_tokens == output
    assert facts.usage_final


def test_thoughts_alone() -> None:
    """Text that was seen is not covered by a report of thoughts."""
    usage = {"promptTokenCount": 10, "thoughtsTokenCount": 50, "totalTokenCount": 60}
    facts = reported(**usage)

    assert facts.usage == TokenUsage(input_tokens=10, reasoning_tokens=50)
    assert not facts.usage_final


def test_a_blocked_prompt() -> None:
    """Where nothing was generated, input alone is the whole report."""
    facts = facts_of(
        {
            "promptFeedback": {"blockReason": "SAFETY"},
            "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
        }
    )

    assert facts.finished
    assert facts.usage == TokenUsage(input_tokens=9)
    assert facts.usage_final


@pytest.mark.parametrize("name", ["embedding", "embeddings"])
def test_vectors(name: str) -> None:
    """Vectors are a whole answer, of which mostly nothing is reported."""
    facts = facts_of({name: {"values": [0.1]}})

    assert facts.finished
    assert facts.usage is None


@pytest.mark.parametrize(
    "usage",
    [
        None,
        [],
        {},
        {"promptTokenCount": 0, "candidatesTokenCount": 0},
        {"promptTokenCount": "9", "candidatesTokenCount": 1.5},
    ],
)
def test_no_figures(usage: object) -> None:
    """What is no figure, or none yet, is unknown."""
    facts = facts_of({"candidates": [candidate({"text": "x"})], "usageMetadata": usage})

    assert facts.usage is None
    assert not facts.usage_final


def test_absurd_figures() -> None:
    """A report beyond any answer is left out whole."""
    facts = reported(promptTokenCount=10**12, candidatesTokenCount=1)

    assert facts.usage is None
    assert facts.absurd


@pytest.mark.parametrize(
    ("error", "name"),
    [({"code": 503, "status": "UNAVAILABLE"}, "UNAVAILABLE"), ("x", "error")],
)
def test_errors(error: object, name: str) -> None:
    """An error is no answer, whatever stands beside it."""
    facts = facts_of({"error": error, "candidates": [candidate(finish="STOP")]})

    assert facts.error == name
    assert not facts.finished


@pytest.mark.parametrize("broken", [{"candidates": 5}, {"candidates": [{"content": 5}]}, {"candidates": [{"content": {"parts": 5}}]}])  # fmt: skip
def test_broken_replies(broken: dict[str, Any]) -> None:
    """Whatever stands where text should be is none."""
    assert facts_of(broken) == ResponseFacts()
